//! `limen join` and `limen unjoin`

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use kube::Client;
use limen_core::locality::Coordinates;
use limen_hub::{JoinOptions, Left, UnjoinOptions};

use crate::connection::{
    HubConnection, HubToJoin, Whom, answering, block_on, config, read_kubeconfig,
};

/// Let a cluster into the federation.
#[derive(Args)]
#[command(after_help = "\
Makes the namespace limen-system in the cluster, with an account for the hub that may do what the
federated kinds need and nothing else; stores its token as a Secret on the hub; registers it.
Run it again to renew the token or the rights: region, zone, coordinates and labels that are not
given stay as they are.

Examples:
  limen join gce-europe-west1b --kubeconfig europe.yaml --region europe-west1 --label location=europe
  limen join onprem --kubeconfig all.yaml --context onprem --coordinates 52.52,13.40")]
pub(crate) struct Join {
    /// What the cluster shall be called
    name: String,

    /// A kubeconfig with which the cluster's administrator reaches it
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

    /// Its place on Earth, in degrees
    #[arg(long, value_name = "LAT,LON", allow_hyphen_values = true)]
    coordinates: Option<Coordinates>,

    /// A label that selectors match; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,

    /// The cluster of that name has another address than when it joined, or is another
    #[arg(long = "move")]
    moves: bool,

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

/// Let a cluster out of the federation.
#[derive(Args)]
#[command(after_help = "\
The objects that the hub has made in the cluster stay there, unless --delete-leaves is given. They
cannot be deleted in a cluster that does not answer: that is refused, unless --abandon is given too.

Examples:
  limen unjoin gce-europe-west1b
  limen unjoin gce-europe-west1b --delete-leaves --yes
  # It burnt down
  limen unjoin gce-europe-west1b --delete-leaves --abandon")]
pub(crate) struct Unjoin {
    /// The cluster
    name: String,

    /// Delete what the hub has made in the cluster
    #[arg(long)]
    delete_leaves: bool,

    /// Forget the cluster even if it does not answer, and leave there what cannot be deleted
    #[arg(long, requires = "delete_leaves")]
    abandon: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    /// How long to wait until the cluster has been let go of, in seconds
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
                (false, _) => "stay, and are nobody's any more",
                (true, false) => "are DELETED",
                (true, true) => "are DELETED, or stay as they are if it does not answer",
            };
            println!(
                "Cluster {} leaves the federation; the objects that the hub has made there {fate}.",
                self.name
            );
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
                Left::LetGo if self.delete_leaves => "the objects there are deleted".to_owned(),
                Left::LetGo => "the objects there are nobody's any more".to_owned(),
                Left::Abandoned { leaves } => format!(
                    "it did not answer, so the hub has let go of nothing there: {leaves} objects are known, labelled as this hub's"
                ),
            };
            println!("Cluster {} has left; {fate}.", self.name);
            println!(
                "Its account for the hub is still there: kubectl --context {} delete namespace limen-system, clusterrole and clusterrolebinding limen-hub.",
                self.name
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
