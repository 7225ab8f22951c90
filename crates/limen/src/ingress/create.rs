//! `limen ingress create`

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{ArgAction, Args};
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use limen_api::{OnConflictSpec, PlacementPolicy, dialect};

use super::balancer::{LABEL, check_name, find, place, policy_name, submit};
use super::progress::{spreading, until, until_gone};
use super::{Patience, Surroundings, manifest, validate};
use crate::connection::block_on;

/// Create an Ingress in clusters, as one load balancer.
#[derive(Args)]
#[command(after_help = "\
Puts the Ingress and a PlacementPolicy for the clusters on the hub, and waits until all of them hold
it. Manifests of extensions/v1beta1 are taken as they are. Run again, it changes what is there: more
clusters at any time; a different Ingress, or fewer clusters, only with --force.

Examples:
  limen ingress create zone-printer --ingress=ingress.yaml --kubeconfig=clusters.yaml
  limen ingress create zone-printer -i ingress.yaml --kubecontexts=gce-asia-east1a,aws-eu-west-1")]
pub(crate) struct Create {
    /// What the load balancer shall be called
    name: String,

    /// The file with the Ingress
    #[arg(long, short, value_name = "FILE")]
    ingress: PathBuf,

    /// The contexts of the clusters; otherwise all that the kubeconfig has
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    kubecontexts: Vec<String>,

    /// The namespace, if the file names none
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,

    /// The name of a static address of Google's, if the file names none
    #[arg(long, value_name = "NAME")]
    static_ip: Option<String>,

    /// Overwrite what is there and differs
    #[arg(long, short)]
    force: bool,

    /// Ask the clusters first whether they have the Services
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true", value_name = "BOOL")]
    validate: bool,

    #[command(flatten)]
    patience: Patience,

    #[command(flatten)]
    surroundings: Surroundings,
}

impl Create {
    pub(crate) fn run(self) -> Result<()> {
        check_name(&self.name)?;
        let (namespace, static_ip) = (self.namespace.as_deref(), self.static_ip.as_deref());
        let ingress = manifest::read(&self.ingress, namespace, static_ip)?;
        block_on(async {
            let hub = self.surroundings.hub().await?;
            let chosen = self.surroundings.members(&hub, &self.kubecontexts).await?;
            let clusters: Vec<String> = chosen.iter().map(|one| one.cluster.clone()).collect();
            let before = self.before(&hub, &ingress, &clusters).await?;
            if self.validate {
                let kubeconfig = self.surroundings.kubeconfig.as_ref();
                validate::validate(&hub, kubeconfig, &ingress, &chosen).await?;
            }
            // The policy first, so that the Ingress goes nowhere else in between.
            let on_conflict = match self.force {
                true => OnConflictSpec::Adopt,
                false => OnConflictSpec::Abort,
            };
            place(&hub, &self.name, &ingress, &clusters, Some(on_conflict)).await?;
            let submitted = submit(&hub, &self.name, &ingress).await?;
            self.wait(&hub, &submitted, &clusters, &before).await?;
            for cluster in &before.lost {
                println!("Deleting Ingress from cluster: {cluster}...");
            }
            until_gone(&hub, &submitted, self.patience.timeout, &before.lost, true).await?;
            println!("\nSuccess.");
            Ok(())
        })
    }

    /// What is there already, unless it speaks against this.
    async fn before(&self, hub: &Client, ingress: &Ingress, clusters: &[String]) -> Result<Before> {
        let (name, namespace) = (ingress.name_any(), ingress.namespace().unwrap_or_default());
        let balancer = find(hub, Some(&self.name)).await?.into_iter().next();
        let mut lost = Vec::new();
        if let Some(balancer) = &balancer {
            let (own, theirs) =
                ((&namespace, &name), (balancer.namespace(), balancer.ingress.name_any()));
            if own != (&theirs.0, &theirs.1) {
                bail!(
                    "Load balancer {} exists, with the Ingress {}/{}; delete it first, or choose another name",
                    self.name,
                    theirs.0,
                    theirs.1
                );
            }
            let goes = |cluster: &&String| !clusters.contains(cluster);
            lost.extend(balancer.clusters.iter().filter(goes).cloned());
            if !lost.is_empty() && !self.force {
                bail!(
                    "this would take it away from clusters ({}); use limen ingress remove-clusters, or --force",
                    lost.join(",")
                );
            }
        }
        let ingresses: Api<Ingress> = Api::namespaced(hub.clone(), &namespace);
        let there =
            ingresses.get_opt(&name).await.context("cannot read the Ingress of that name")?;
        if let Some(there) = &there {
            if let Some(other) = there.labels().get(LABEL).filter(|other| **other != self.name) {
                bail!("the Ingress {namespace}/{name} is that of the load balancer {other}");
            }
            if differs(there, ingress) && !self.force {
                bail!(
                    "Found existing ingress resource which differs from the proposed one: {namespace}/{name} on the hub. Will not overwrite it without the --force flag"
                );
            }
        }
        self.refuse_other_policies(hub, ingress, &namespace).await?;
        let held = balancer.map(|balancer| balancer.spread).unwrap_or_default();
        let changed = there.as_ref().is_none_or(|there| differs(there, ingress));
        Ok(Before { held: held.into_iter().collect(), lost, changed })
    }

    /// Of several policies about one Ingress the hub would obey only one.
    async fn refuse_other_policies(
        &self,
        hub: &Client,
        ingress: &Ingress,
        namespace: &str,
    ) -> Result<()> {
        let policies: Api<PlacementPolicy> = Api::namespaced(hub.clone(), namespace);
        let policies = policies.list(&ListParams::default()).await;
        let policies = policies.context("cannot list PlacementPolicy objects")?;
        let kind = limen_api::kind(("networking.k8s.io/v1", "Ingress", "ingresses", true));
        let object = serde_json::to_value(ingress)?;
        let own = policy_name(&self.name);
        let other = policies.items.iter().find(|policy| {
            policy.name_any() != own && dialect::governs(policy, &object, &kind).unwrap_or(false)
        });
        match other {
            None => Ok(()),
            Some(other) => bail!(
                "the PlacementPolicy {namespace}/{} says already where this Ingress goes; change that, or leave the Ingress out of it",
                other.name_any()
            ),
        }
    }

    async fn wait(
        &self,
        hub: &Client,
        ingress: &Ingress,
        clusters: &[String],
        before: &Before,
    ) -> Result<()> {
        let mut waiting: BTreeSet<String> = clusters.iter().cloned().collect();
        let tell = |cluster: &str| match before.held.contains(cluster) {
            false => println!("Created Ingress in cluster: {cluster}"),
            true if before.changed => println!("Updated ingress for cluster: {cluster}"),
            true => println!("Ingress already exists and matches in cluster: {cluster}"),
        };
        until(hub, ingress, self.patience.timeout, async |record| {
            spreading(record, &mut waiting, self.force, tell)
        })
        .await
    }
}

/// What was there before.
struct Before {
    /// Clusters that held the Ingress.
    held: BTreeSet<String>,
    /// Clusters that were to hold it and are not any more.
    lost: Vec<String>,
    /// Whether what is submitted differs from it.
    changed: bool,
}

/// Whether an Ingress on the hub is another than a proposed one.
fn differs(there: &Ingress, proposed: &Ingress) -> bool {
    let annotations = there.annotations();
    there.spec != proposed.spec
        || proposed.annotations().iter().any(|(key, value)| annotations.get(key) != Some(value))
}
