//! `limen join` and `limen unjoin`

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use kube::Client;
use limen_core::locality::Coordinates;
use limen_core::membership::AccountName;
use limen_hub::{JoinOptions, Left, UnjoinOptions};
use limen_sync::ObjectApi;

use crate::connection::{
    HubConnection, HubToJoin, Whom, answering, block_on, config, read_kubeconfig,
};

/// Join a cluster to the federation.
#[derive(Args)]
#[command(after_help = "\
Makes the namespace limen-system in the cluster, with an account of this hub's own that may write the
federated kinds and list the others; stores its token as a Secret on the hub; registers the cluster
with the uid of its namespace kube-system. Run it again to renew the token or the rights: region,
zone, coordinates and labels that are not given stay as they are.

Refused are the hub itself, a cluster that has joined under another name, and, unless an option says
otherwise, a name that belongs to another cluster and a cluster that another hub has claimed.

Examples:
  limen join gce-europe-west1b --kubeconfig europe.yaml --region europe-west1 --label location=europe
  limen join onprem --kubeconfig all.yaml --context onprem --coordinates 52.52,13.40")]
pub(crate) struct Join {
    /// Name of the cluster on the hub
    name: String,

    /// Kubeconfig of an administrator of the cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,

    /// The context in that kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// Its region; otherwise that of most of its nodes
    #[arg(long)]
    region: Option<String>,

    /// Its zone; otherwise that of most of its nodes
    #[arg(long)]
    zone: Option<String>,

    /// Its coordinates, in degrees
    #[arg(long, value_name = "LAT,LON", allow_hyphen_values = true)]
    coordinates: Option<Coordinates>,

    /// A label that selectors match; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,

    /// Lead the name to another address, or to another cluster that replaces the first
    #[arg(long = "move")]
    moves: bool,

    /// Join a cluster that another hub has claimed; both hubs then write to it
    #[arg(long)]
    share: bool,

    #[command(flatten)]
    hub: HubToJoin,
}

impl Join {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let config = config(Some(&self.kubeconfig), self.context.as_deref()).await?;
            let options = JoinOptions {
                name: self.name.clone(),
                endpoint: config.cluster_url.to_string().trim_end_matches('/').to_owned(),
                ca: authority(&self.kubeconfig, self.context.as_deref())?,
                region: self.region,
                zone: self.zone,
                coordinates: self.coordinates,
                labels: self.labels.into_iter().collect(),
                moves: self.moves,
                share: self.share,
            };
            let hub = self.hub.client().await?;
            let member = answering(config, Whom::Cluster, Some(&self.kubeconfig)).await?;
            let joined = limen_hub::join(&hub, &member, &options).await?;
            println!("Cluster {} ({}) has joined.", self.name, joined.version);
            if joined.stays {
                println!("It was about to leave (limen unjoin), and stays.");
            }
            if joined.drained {
                println!("It is drained: limen undrain {} sends clients there again.", self.name);
            }
            Ok(())
        })
    }
}

/// The authority that a kubeconfig names for its cluster, as PEM.
fn authority(file: &Path, context: Option<&str>) -> Result<Option<Vec<u8>>> {
    let kubeconfig = read_kubeconfig(Some(file))?;
    let context = context.or(kubeconfig.current_context.as_deref()).unwrap_or_default();
    let named = kubeconfig.contexts.iter().find(|named| named.name == context);
    let cluster = named.and_then(|named| named.context.as_ref()).map(|context| &context.cluster);
    let cluster = kubeconfig
        .clusters
        .iter()
        .find(|named| Some(&named.name) == cluster)
        .and_then(|named| named.cluster.as_ref())
        .with_context(|| {
            format!("{} has no cluster for the context {context:?}", file.display())
        })?;
    if cluster.insecure_skip_tls_verify == Some(true) {
        return Ok(None);
    }
    if let Some(path) = &cluster.certificate_authority {
        // A path that is relative to the kubeconfig was completed when that was read.
        let pem = std::fs::read(path);
        return pem.map(Some).with_context(|| format!("cannot read {path}"));
    }
    let Some(data) = &cluster.certificate_authority_data else {
        bail!(
            "{} names no certificate-authority for the cluster; the hub cannot verify it without one",
            file.display()
        );
    };
    let value = serde_json::json!({"data": {"ca": data}});
    let secret: k8s_openapi::api::core::v1::Secret = serde_json::from_value(value)
        .with_context(|| format!("certificate-authority-data in {}", file.display()))?;
    Ok(secret.data.and_then(|mut data| data.remove("ca")).map(|bytes| bytes.0))
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not KEY=VALUE")),
    }
}

/// Unjoin a cluster from the federation.
#[derive(Args)]
#[command(after_help = "\
The hub releases its leaves in the cluster, which stay there, or deletes them with --delete-leaves.
Neither works in a cluster that does not answer: that is refused. --abandon forgets the cluster
without touching it; its leaves stay, labelled as this hub's.

kubectl delete cluster NAME is the same as limen unjoin NAME: the object is gone when the hub has
released the leaves.

Examples:
  limen unjoin gce-europe-west1b
  limen unjoin gce-europe-west1b --delete-leaves --yes
  # A cluster that will never answer again
  limen unjoin gce-europe-west1b --abandon")]
pub(crate) struct Unjoin {
    /// The cluster
    name: String,

    /// Delete the leaves in the cluster
    #[arg(long)]
    delete_leaves: bool,

    /// Forget the cluster without touching it
    #[arg(long, conflicts_with = "delete_leaves")]
    abandon: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    /// Time to wait for the hub to let go of the cluster, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "120")]
    timeout: u64,

    #[command(flatten)]
    hub: HubConnection,
}

impl Unjoin {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let hub = self.hub.client().await?;
            let fate = match (self.delete_leaves, self.abandon) {
                (_, true) => "stay as they are, labelled as this hub's",
                (false, false) => "are released and stay",
                (true, false) => "are DELETED",
            };
            println!("Cluster {} leaves the federation; its leaves {fate}.", self.name);
            self.warn(&hub).await;
            if !self.yes {
                confirm()?;
            }
            let options = UnjoinOptions {
                name: self.name.clone(),
                delete_leaves: self.delete_leaves,
                abandon: self.abandon,
                patience: Duration::from_secs(self.timeout),
            };
            let fate = match limen_hub::unjoin(&hub, &options).await? {
                Left::LetGo if self.delete_leaves => "its leaves are deleted".to_owned(),
                Left::LetGo => "its leaves are released".to_owned(),
                Left::Abandoned { leaves } => format!(
                    "it was not touched: {leaves} leaves are known there, labelled as this hub's"
                ),
            };
            println!("Cluster {} has left; {fate}.", self.name);
            let hub = limen_hub::hub_id(&ObjectApi::new(hub)).await?;
            println!(
                "The hub's account is still there: kubectl --context {} delete clusterrole,clusterrolebinding {}, and the namespace limen-system if no other hub uses it.",
                self.name,
                AccountName::of_hub(&hub)
            );
            Ok(())
        })
    }

    /// Says which backends would have no other cluster, or too little room.
    async fn warn(&self, hub: &Client) {
        let looking = limen_hub::Drain {
            cluster: self.name.clone(),
            over_seconds: 0,
            keep: 1,
            force: true,
            dry_run: true,
        };
        // It may leave a hub that knows nothing of traffic, too.
        let Ok(outlook) = limen_hub::drain(hub, &looking).await else { return };
        for objection in outlook.objections.iter().take(10) {
            println!("warning: {objection}");
        }
        if let more @ 1.. = outlook.objections.len().saturating_sub(10) {
            println!("warning: and {more} more");
        }
    }
}

/// Asks a person whether to go on.
pub(crate) fn confirm() -> Result<()> {
    use std::io::Write;
    print!("Go on? [y/N] ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => bail!("not confirmed; nothing was done (use --yes to go on without being asked)"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::authority;

    #[test]
    fn an_authority_beside_its_kubeconfig_is_found_from_anywhere() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        let text = "{current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], \
                    clusters: [{name: a, cluster: {certificate-authority: ca.crt}}]}";
        std::fs::write(&file, text).unwrap();
        std::fs::write(folder.path().join("ca.crt"), "authority").unwrap();
        let here = std::env::current_dir().unwrap();
        let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
        let relative = up.join(file.strip_prefix("/").unwrap());
        for file in [file, relative] {
            let found = authority(&file, None).unwrap();
            assert_eq!(found.as_deref(), Some(&b"authority"[..]), "{}", file.display());
        }
    }
}
