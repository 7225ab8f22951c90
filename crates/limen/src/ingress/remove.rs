//! `limen ingress delete` and `limen ingress remove-clusters`

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use limen_api::PlacementPolicy;

use super::balancer::{Balancer, LABEL, existing, find, place, policy_name};
use super::progress::until_gone;
use super::{Patience, Surroundings, manifest};
use crate::connection::block_on;

/// What kubemci needs to know of an Ingress; the hub knows it from the load balancer's name.
#[derive(Args)]
struct Described {
    /// The file with the Ingress; not needed, and if given it must be that of the load balancer
    #[arg(long, short, value_name = "FILE")]
    ingress: Option<PathBuf>,

    /// The namespace, if the file names none
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
}

impl Described {
    /// Refuses the Ingress of something else.
    fn check(&self, balancer: &Balancer) -> Result<()> {
        let own = (balancer.namespace(), balancer.ingress.name_any());
        let other = match &self.ingress {
            Some(file) => {
                let read = manifest::read(file, self.namespace.as_deref(), None)?;
                (read.namespace().unwrap_or_default(), read.name_any())
            }
            None => (self.namespace.clone().unwrap_or_else(|| own.0.clone()), own.1.clone()),
        };
        if own != other {
            bail!(
                "Load balancer {} has the Ingress {}/{}, not {}/{}",
                balancer.name,
                own.0,
                own.1,
                other.0,
                other.1
            );
        }
        Ok(())
    }
}

/// Delete a load balancer and its Ingress in all clusters.
#[derive(Args)]
#[command(after_help = "\
A cluster that is away loses its Ingress when it comes back; nothing waits for it.

Examples:
  limen ingress delete zone-printer
  limen ingress delete zone-printer --ingress=ingress.yaml --kubeconfig=clusters.yaml")]
pub(crate) struct Delete {
    /// The load balancer
    name: String,

    #[command(flatten)]
    described: Described,

    /// Taken and not used: all clusters of the load balancer are meant
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    kubecontexts: Vec<String>,

    /// Delete what is left of it, even if some of it is gone
    #[arg(long, short)]
    force: bool,

    #[command(flatten)]
    patience: Patience,

    #[command(flatten)]
    surroundings: Surroundings,
}

impl Delete {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let hub = self.surroundings.hub().await?;
            // What cannot be read is not gone.
            let found = find(&hub, Some(&self.name)).await?.into_iter().next();
            let balancer = match found {
                Some(balancer) => balancer,
                None if self.force && self.delete_remains(&hub).await? => return Ok(()),
                None => bail!("Load balancer {} does not exist", self.name),
            };
            self.described.check(&balancer)?;
            for cluster in &balancer.spread {
                println!("Deleting Ingress from cluster: {cluster}...");
            }
            let namespace = balancer.namespace();
            let policies: Api<PlacementPolicy> = Api::namespaced(hub.clone(), &namespace);
            let policy = policies.get_opt(&policy_name(&self.name)).await;
            let policy = policy.context("cannot read the PlacementPolicy")?;
            self.delete_ingress(&hub, &balancer.ingress, &namespace).await?;
            // The policy last: without it the Ingress would go everywhere.
            if let Some(policy) = policy {
                let deleted = policies.delete(&policy.name_any(), &with_uid(&policy)).await;
                absent_is_fine(deleted)
                    .context("the Ingress is gone, and its PlacementPolicy cannot be deleted")?;
            }
            println!("Load balancer {} is deleted", self.name);
            Ok(())
        })
    }

    async fn delete_ingress(&self, hub: &Client, ingress: &Ingress, namespace: &str) -> Result<()> {
        let (name, uid) = (ingress.name_any(), ingress.uid());
        let ingresses: Api<Ingress> = Api::namespaced(hub.clone(), namespace);
        absent_is_fine(ingresses.delete(&name, &with_uid(ingress)).await)
            .with_context(|| format!("cannot delete the Ingress {namespace}/{name}"))?;
        let deadline = Instant::now() + Duration::from_secs(self.patience.timeout);
        while ingresses.get_opt(&name).await?.is_some_and(|there| there.uid() == uid) {
            if Instant::now() >= deadline {
                bail!(
                    "Ingress {namespace}/{name} is still there after {} s; the hub goes on, and limen status ingress/{name} -n {namespace} says what it waits for",
                    self.patience.timeout
                );
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// Deletes policies of a load balancer whose Ingress is gone.
    async fn delete_remains(&self, hub: &Client) -> Result<bool> {
        let policies: Api<PlacementPolicy> = Api::all(hub.clone());
        let name = policy_name(&self.name);
        let list = kube::api::ListParams::default().fields(&format!("metadata.name={name}"));
        let found = policies.list(&list).await.context("cannot list PlacementPolicy objects")?;
        for policy in &found.items {
            let namespace = policy.namespace().unwrap_or_default();
            refuse_what_it_places(hub, policy, &namespace).await?;
            let policies: Api<PlacementPolicy> = Api::namespaced(hub.clone(), &namespace);
            absent_is_fine(policies.delete(&name, &with_uid(policy)).await)?;
            println!("Its Ingress was gone; deleted the PlacementPolicy {namespace}/{name}");
        }
        Ok(!found.items.is_empty())
    }
}

/// Refuses a policy whose Ingress is there after all: without it the Ingress would go everywhere.
async fn refuse_what_it_places(
    hub: &Client,
    policy: &PlacementPolicy,
    namespace: &str,
) -> Result<()> {
    let ingresses: Api<Ingress> = Api::namespaced(hub.clone(), namespace);
    for name in policy.spec.roots.iter().filter_map(|root| root.name.as_deref()) {
        let there = ingresses.get_opt(name).await;
        if there.with_context(|| format!("cannot read the Ingress {namespace}/{name}"))?.is_some() {
            bail!(
                "the Ingress {namespace}/{name} is there without the label {LABEL}, and would go to all clusters without the PlacementPolicy {}; delete the Ingress first, or label it",
                policy.name_any()
            );
        }
    }
    Ok(())
}

/// Deletes the object that was read, and no other of the same name.
fn with_uid(object: &impl ResourceExt) -> DeleteParams {
    let preconditions = Preconditions { uid: object.uid(), resource_version: None };
    DeleteParams::default().preconditions(preconditions)
}

fn absent_is_fine<T>(deleted: kube::Result<T>) -> kube::Result<()> {
    match deleted {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => deleted.map(drop),
    }
}

/// Take a load balancer away from some of its clusters.
#[derive(Args)]
#[command(after_help = "\
Examples:
  limen ingress remove-clusters zone-printer --kubecontexts=gce-asia-east1a")]
pub(crate) struct RemoveClusters {
    /// The load balancer
    name: String,

    #[command(flatten)]
    described: Described,

    /// The contexts of the clusters to take it away from; otherwise all that the kubeconfig has
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    kubecontexts: Vec<String>,

    /// Take it away even from all of its clusters, or from more than the hub would let go at once
    #[arg(long, short)]
    force: bool,

    #[command(flatten)]
    patience: Patience,

    #[command(flatten)]
    surroundings: Surroundings,
}

impl RemoveClusters {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let hub = self.surroundings.hub().await?;
            let balancer = existing(&hub, &self.name).await?;
            self.described.check(&balancer)?;
            let meant = self.surroundings.members(&hub, &self.kubecontexts).await?;
            let goes = |cluster: &String| meant.iter().any(|one| one.cluster == *cluster);
            let (going, staying): (Vec<String>, Vec<String>) =
                balancer.clusters.iter().cloned().partition(goes);
            if going.is_empty() {
                bail!(
                    "Load balancer {} is in none of these clusters; it is in ({})",
                    self.name,
                    balancer.clusters.join(",")
                );
            }
            if staying.is_empty() && !self.force {
                bail!(
                    "This will remove the ingress from all clusters. Use limen ingress delete to delete it completely, or --force to keep it without clusters"
                );
            }
            for cluster in &going {
                println!("Deleting Ingress from cluster: {cluster}...");
            }
            place(&hub, &self.name, &balancer.ingress, &staying, balancer.on_conflict).await?;
            until_gone(&hub, &balancer.ingress, self.patience.timeout, &going, self.force).await?;
            println!(
                "Load balancer {} is spread across {} clusters ({})",
                self.name,
                staying.len(),
                staying.join(",")
            );
            Ok(())
        })
    }
}
