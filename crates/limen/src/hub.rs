//! `limen hub`

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use limen_apiserver::{Server, ServerOptions};
use limen_store::{EtcdOptions, EtcdStore, EtcdTls, RedbOptions, RedbStore, Store};
use tokio::signal::unix::{SignalKind, signal};

/// Run the hub: a Kubernetes API that people submit their objects to.
#[derive(Args)]
#[command(after_help = "\
Examples:
  limen hub --data-dir ./hub
  KUBECONFIG=./hub/kubeconfig kubectl get namespaces

  # Share the state of several hubs in an etcd of your own
  limen hub --data-dir ./hub --store etcd=https://10.0.0.1:2379,https://10.0.0.2:2379 \\
      --etcd-ca ca.crt --etcd-cert client.crt --etcd-key client.key")]
pub(crate) struct Hub {
    /// Where certificates, the kubeconfig and (without --store) the objects are kept
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,

    /// The address to serve on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,

    /// Keep objects in etcd instead of the data folder: etcd=URL[,URL...]
    #[arg(long, value_name = "etcd=URL,...")]
    store: Option<String>,

    /// The authority that etcd's certificate comes from
    #[arg(long, value_name = "FILE", requires = "store")]
    etcd_ca: Option<PathBuf>,

    /// The certificate that etcd knows this hub by
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    etcd_cert: Option<PathBuf>,

    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,

    /// Names and addresses, besides those of this machine, that clients reach the hub by
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    tls_san: Vec<String>,

    /// Tokens that are known from the start: lines of token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,

    /// Write an audit log of all requests, as JSON lines
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
}

impl Hub {
    pub(crate) fn run(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.serve())
    }

    async fn serve(self) -> Result<()> {
        let start = Instant::now();
        // From here on, so that no signal can end the process before it has closed its store.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        std::fs::create_dir_all(&self.data_dir)
            .with_context(|| format!("cannot make the folder {}", self.data_dir.display()))?;
        let store = self.open_store().await?;
        let server = Server::start(ServerOptions {
            data_dir: self.data_dir.clone(),
            listen: self.listen,
            store,
            extra_names: self.tls_san,
            token_file: self.token_auth_file,
            audit_log: self.audit_log,
        })
        .await?;

        let kubeconfig = server.kubeconfig().display();
        println!("The hub is ready at {} ({} ms).", server.url(), start.elapsed().as_millis());
        println!();
        println!("  export KUBECONFIG={kubeconfig}");
        println!("  kubectl get namespaces");
        println!();
        println!("Press Ctrl-C to stop it; everything is kept in {}.", self.data_dir.display());
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        server.stop().await;
        Ok(())
    }

    async fn open_store(&self) -> Result<Arc<dyn Store>> {
        let Some(store) = &self.store else {
            let path = self.data_dir.join("store.redb");
            return Ok(Arc::new(RedbStore::open(path, &RedbOptions::default())?));
        };
        let Some(endpoints) = store.strip_prefix("etcd=") else {
            bail!(
                "--store {store}: it must be etcd=URL[,URL...]; leave it out to use the data folder"
            );
        };
        let tls = match &self.etcd_ca {
            None => None,
            Some(ca) => Some(EtcdTls {
                ca_pem: read(ca)?,
                client_pem: match (&self.etcd_cert, &self.etcd_key) {
                    (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
                    _ => None,
                },
                domain: None,
            }),
        };
        let endpoints = endpoints.split(',').map(str::to_owned).collect();
        let options = EtcdOptions { endpoints, tls, ..EtcdOptions::default() };
        Ok(Arc::new(EtcdStore::connect(options).await?))
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
