//! A server of a test's own, and what it is on its own account.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use limen_apiserver::{Server, ServerOptions};
use limen_store::{RedbOptions, RedbStore, Store};
use serde_json::json;
use tempfile::TempDir;

use crate::trick_store::{Failing, TrickStore};

pub(crate) struct Hub {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) folder: TempDir,
}

impl Hub {
    pub(crate) async fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap()).await
    }

    pub(crate) async fn start_in(folder: TempDir) -> Self {
        let options = options(folder.path(), Arc::new(store(folder.path())));
        Self::start_with(folder, options).await
    }

    pub(crate) async fn start_with(folder: TempDir, options: ServerOptions) -> Self {
        let server = Server::start(options).await.unwrap();
        let client = client(server.kubeconfig()).await;
        Self { server, client, folder }
    }

    /// A client that has nothing but a token, and tries everything once.
    pub(crate) fn client_with(&self, token: &str) -> Client {
        let mut config = Config::new(self.server.url().parse().unwrap());
        config.accept_invalid_certs = true;
        config.default_retry = false;
        config.auth_info.token = Some(token.to_owned().into());
        Client::try_from(config).unwrap()
    }

    pub(crate) fn config_maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client.clone())
    }
}

pub(crate) fn store(folder: &Path) -> RedbStore {
    RedbStore::open(folder.join("store"), &RedbOptions::default()).unwrap()
}

pub(crate) fn options(folder: &Path, store: Arc<dyn Store>) -> ServerOptions {
    ServerOptions {
        data_dir: folder.to_owned(),
        listen: ([127, 0, 0, 1], 0).into(),
        store,
        extra_names: Vec::new(),
        token_file: None,
        audit_log: None,
    }
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Client::try_from(config).unwrap()
}

pub(crate) fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"key": value}})).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_server_has_the_usual_namespaces() {
    let hub = Hub::start().await;
    let namespaces: Api<Namespace> = Api::all(hub.client.clone());
    let names: Vec<String> = namespaces
        .list(&Default::default())
        .await
        .unwrap()
        .into_iter()
        .filter_map(|n| n.metadata.name)
        .collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let version = hub.client.apiserver_version().await.unwrap();
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "36"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_keeps_everything() {
    let hub = Hub::start().await;
    let created =
        hub.config_maps().create(&Default::default(), &config_map("a", "1")).await.unwrap();
    let Hub { server, folder, client } = hub;
    drop(client);
    let authority = std::fs::read(folder.path().join("pki/ca.crt")).unwrap();
    server.stop().await;

    let hub = Hub::start_in(folder).await;
    assert_eq!(std::fs::read(hub.folder.path().join("pki/ca.crt")).unwrap(), authority);
    let found = hub.config_maps().get("a").await.unwrap();
    assert_eq!(found.metadata.uid, created.metadata.uid);
    assert_eq!(found.metadata.resource_version, created.metadata.resource_version);
    assert_eq!(found.data, created.data);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_see_health_and_version_only() {
    let hub = Hub::start().await;
    let mut config = Config::new(hub.server.url().parse().unwrap());
    config.accept_invalid_certs = true;
    let stranger = Client::try_from(config).unwrap();
    let get = async |path: &str| {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        stranger.request_text(request).await
    };
    assert_eq!(get("/livez").await.unwrap(), "ok");
    assert!(get("/version").await.is_ok());
    for path in ["/api/v1/namespaces", "/metrics", "/apis"] {
        let refusal = get(path).await.unwrap_err().to_string();
        assert!(refusal.contains("system:anonymous"), "{path}: {refusal}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_ready_while_its_store_answers() {
    let (store, hub) = TrickStore::serve("").await;
    let get = async |path: &str| {
        let request = http::Request::get(path).body(kube::client::Body::empty()).unwrap();
        hub.client.send(request).await.unwrap().status().as_u16()
    };
    let becomes = async |code: u16| {
        let deadline = Instant::now() + Duration::from_secs(30);
        while get("/readyz").await != code {
            assert!(Instant::now() < deadline, "/readyz does not become {code}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert_eq!(get("/readyz").await, 200);
    store.fail(Some(Failing::Gets));
    becomes(500).await;
    assert_eq!(get("/livez").await, 200);
    store.fail(None);
    becomes(200).await;
}
