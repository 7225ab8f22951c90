//! Which hub a command talks to.

mod trouble;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use limen_api::{error_text, unreadable_kubeconfig};

pub(crate) use self::trouble::Whom;

/// How long a hub may take to answer at all.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which hub a command talks to, by the options that kubectl has.
#[derive(Args, Clone)]
#[command(next_help_heading = "Hub")]
pub(crate) struct HubConnection {
    /// The kubeconfig of the hub; otherwise $KUBECONFIG or ~/.kube/config, as for kubectl
    #[arg(long, value_name = "FILE", alias = "hub-kubeconfig")]
    kubeconfig: Option<PathBuf>,

    /// The context in that kubeconfig; otherwise its current one
    #[arg(long, value_name = "NAME", alias = "hub-context")]
    context: Option<String>,

    /// The namespace of what is in one; otherwise that of the context
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
}

/// Which hub a cluster joins: `--kubeconfig` is that of the cluster.
#[derive(Args, Clone)]
#[command(next_help_heading = "Hub")]
pub(crate) struct HubToJoin {
    /// The kubeconfig of the hub; otherwise $KUBECONFIG or ~/.kube/config, as for kubectl
    #[arg(long, value_name = "FILE")]
    hub_kubeconfig: Option<PathBuf>,

    /// The context in that kubeconfig; otherwise its current one
    #[arg(long, value_name = "NAME")]
    hub_context: Option<String>,
}

/// A hub that has answered.
pub(crate) struct Hub {
    pub(crate) client: Client,
    /// The namespace that was asked for, or that of the context.
    pub(crate) namespace: String,
}

impl HubConnection {
    /// The hub of a kubeconfig.
    pub(crate) fn to(kubeconfig: Option<PathBuf>, context: Option<String>) -> Self {
        Self { kubeconfig, context, namespace: None }
    }

    /// How to reach the hub.
    pub(crate) async fn config(&self) -> Result<Config> {
        let mut config = config(self.kubeconfig.as_ref(), self.context.as_deref()).await.context(
            "cannot tell which hub to talk to; give --kubeconfig and --context, or set KUBECONFIG",
        )?;
        config.connect_timeout = Some(PATIENCE);
        Ok(config)
    }

    /// The hub, which answers.
    pub(crate) async fn connect(&self) -> Result<Hub> {
        let config = self.config().await?;
        let namespace = self.namespace.clone().unwrap_or(config.default_namespace.clone());
        let client = answering(config, Whom::Hub, self.kubeconfig.as_deref()).await?;
        Ok(Hub { client, namespace })
    }

    /// A client for the hub, which answers.
    pub(crate) async fn client(&self) -> Result<Client> {
        Ok(self.connect().await?.client)
    }

    /// The namespace that was asked for, if one was.
    pub(crate) fn asked_namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

impl HubToJoin {
    /// A client for the hub, which answers.
    pub(crate) async fn client(&self) -> Result<Client> {
        let Self { hub_kubeconfig: kubeconfig, hub_context: context } = self.clone();
        HubConnection::to(kubeconfig, context).client().await
    }
}

/// A client for an API server that answers; otherwise one line that says why not and what to do.
pub(crate) async fn answering(
    config: Config,
    whom: Whom,
    kubeconfig: Option<&Path>,
) -> Result<Client> {
    let url = config.cluster_url.to_string();
    let client = Client::try_from(config).map_err(|error| anyhow!(error_text(&error)))?;
    let whence = whence(kubeconfig);
    let at = trouble::Place { whom, url: url.trim_end_matches('/'), kubeconfig: &whence };
    match tokio::time::timeout(PATIENCE, client.apiserver_version()).await {
        Err(_) => bail!(trouble::silence(&at)),
        Ok(Err(error)) => bail!(trouble::explain(&at, &error)),
        Ok(Ok(_)) => Ok(client),
    }
}

/// Where a kubeconfig comes from, in words.
fn whence(file: Option<&Path>) -> String {
    let variable = std::env::var("KUBECONFIG").ok().filter(|files| !files.is_empty());
    match (file, variable) {
        (Some(file), _) => file.display().to_string(),
        (None, Some(files)) => files,
        (None, None) => "~/.kube/config".to_owned(),
    }
}

/// A kubeconfig; without a file the one that kubectl would use.
pub(crate) fn read_kubeconfig(file: Option<&Path>) -> Result<Kubeconfig> {
    let read = match file {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    read.map_err(|error| match error {
        KubeconfigError::ReadConfig(error, path) => {
            anyhow!("cannot read the kubeconfig {}: {error}", path.display())
        }
        error => {
            let error = unreadable_kubeconfig(&error);
            anyhow!("cannot use the kubeconfig {}: {error}", whence(file))
        }
    })
}

/// What a kubeconfig says of a context; without a file the one that kubectl would use.
pub(crate) async fn config(file: Option<&PathBuf>, context: Option<&str>) -> Result<Config> {
    let file = file.map(PathBuf::as_path);
    let kubeconfig = read_kubeconfig(file)?;
    let has = |name: &str| kubeconfig.contexts.iter().any(|known| known.name == name);
    if let Some(name) = context.or(kubeconfig.current_context.as_deref())
        && !has(name)
    {
        let known: Vec<_> = kubeconfig.contexts.iter().map(|known| known.name.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        bail!("the kubeconfig {} has no context {name:?}; it has {known}", whence(file));
    }
    let options =
        KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .with_context(|| format!("cannot use the kubeconfig {}", whence(file)))
}

/// Runs what a command does.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}
