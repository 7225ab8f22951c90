//! Limen's own API server in the process of a test: a hub without controllers, or a member.

use std::path::Path;
use std::sync::Arc;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use limen_apiserver::{Server, ServerOptions};
use limen_store::{RedbOptions, RedbStore};
use tempfile::TempDir;

/// An API server on a loopback port and in a folder of its own. Whatever goes wrong with it is
/// wrong with the test, which ends there.
pub struct ApiServer {
    server: Option<Server>,
    folder: TempDir,
    /// How its administrator reaches it.
    pub config: Config,
    /// A client of its administrator.
    pub client: Client,
}

impl ApiServer {
    /// One that is new.
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let server = serve(folder.path(), 0).await;
        let config = config_of(server.kubeconfig()).await;
        let client = Client::try_from(config.clone()).expect("a client");
        Self { server: Some(server), folder, config, client }
    }

    /// The server.
    pub fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }

    /// Ends it.
    pub async fn stop(&mut self) {
        self.server.take().expect("it runs").stop().await;
    }

    /// Starts it where it was, with what it had.
    pub async fn start_again(&mut self) {
        let port = self.config.cluster_url.port_u16().expect("a port");
        self.server = Some(serve(self.folder.path(), port).await);
    }
}

async fn serve(folder: &Path, port: u16) -> Server {
    let store = RedbStore::open(folder.join("store"), &RedbOptions::default()).expect("a store");
    let server = Server::start(ServerOptions {
        data_dir: folder.to_owned(),
        listen: ([127, 0, 0, 1], port).into(),
        store: Arc::new(store),
        extra_names: Vec::new(),
        token_file: None,
        audit_log: None,
    });
    server.await.expect("an API server")
}

/// What a kubeconfig says of its current context.
pub async fn config_of(kubeconfig: &Path) -> Config {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a whole kubeconfig")
}
