//! Which hub a command talks to.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Which hub a command talks to.
#[derive(Args, Clone)]
pub(crate) struct HubConnection {
    /// The kubeconfig of the hub; otherwise $KUBECONFIG, as for kubectl
    #[arg(long, value_name = "FILE", global = true)]
    hub_kubeconfig: Option<PathBuf>,

    /// The context in that kubeconfig
    #[arg(long, value_name = "NAME", global = true)]
    hub_context: Option<String>,
}

impl HubConnection {
    /// A client for the hub.
    pub(crate) async fn client(&self) -> Result<Client> {
        let config = config(self.hub_kubeconfig.as_ref(), self.hub_context.as_deref())
            .await
            .context("cannot tell which hub to talk to; give --hub-kubeconfig or set KUBECONFIG")?;
        Ok(Client::try_from(config)?)
    }
}

/// What a kubeconfig says; without a file the one that kubectl would use.
pub(crate) async fn config(file: Option<&PathBuf>, context: Option<&str>) -> Result<Config> {
    let kubeconfig = match file {
        Some(file) => Kubeconfig::read_from(file)
            .with_context(|| format!("cannot read the kubeconfig {}", file.display()))?,
        None => Kubeconfig::read()?,
    };
    let options =
        KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?)
}

/// Runs what a command does.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}
