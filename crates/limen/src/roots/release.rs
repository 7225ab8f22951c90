//! `limen release`

use anyhow::{Context, Result, bail};
use clap::Args;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use limen_api::{FederatedStatus, LeafState};
use limen_core::federated::ObjectId;
use limen_hub::Catalogue;
use limen_sync::ObjectApi;
use serde_json::json;

use super::{record, resolve};
use crate::connection::{HubConnection, block_on};
use crate::join::confirm;

/// Let a deletion go on that was held back.
#[derive(Args)]
#[command(after_help = "\
A change that would delete unusually much waits until a person says that it is meant. --all shows
what is held in all namespaces, or in that of -n, and asks before it lets it go on.

Examples:
  limen release ingress/web -n shop
  limen release --all
  limen release --all -n shop --yes")]
pub(crate) struct Release {
    /// KIND/NAME, such as ingress/web
    #[arg(value_name = "KIND/NAME", required_unless_present = "all")]
    root: Option<String>,

    /// Everything that is held; with -n what is held in that namespace
    #[arg(long, conflicts_with = "root")]
    all: bool,

    /// Do not ask
    #[arg(long, short, requires = "all")]
    yes: bool,

    #[command(flatten)]
    hub: HubConnection,
}

impl Release {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let hub = self.hub.connect().await?;
            let client = hub.client;
            let catalogue = Catalogue::read(&client).await?;
            if let Some(root) = self.root {
                let id = resolve(&catalogue, &root, &hub.namespace)?;
                let record = record(&client, &id).await?;
                let held = record.filter(|record| mark(record).is_some());
                let held = held.with_context(|| {
                    format!("nothing of {id} is held; limen status {root} says how it is")
                })?;
                release(&client, &id, &held).await?;
                println!("{id}: {}\n1 released.", held.spec.message);
                return Ok(());
            }
            let namespace = self.hub.asked_namespace();
            let held = held(&client, namespace).await?;
            for record in &held {
                let (place, root) = (record.namespace().unwrap_or_default(), &record.spec.root);
                println!("{} {} in {place}: {}", root.kind, root.name, record.spec.message);
            }
            if !held.is_empty() && !self.yes {
                confirm()?;
            }
            release_all(&client, &catalogue, &held).await
        })
    }
}

/// Everything that is held, or what is held in one namespace.
async fn held(client: &Client, namespace: Option<&str>) -> Result<Vec<FederatedStatus>> {
    let records: Api<FederatedStatus> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let records = records.list(&ListParams::default()).await;
    let records = records.context("cannot list FederatedStatus objects")?;
    Ok(records.items.into_iter().filter(|record| mark(record).is_some()).collect())
}

/// Lets all of it go on that can; what cannot is no reason to stop.
async fn release_all(
    client: &Client,
    catalogue: &Catalogue,
    held: &[FederatedStatus],
) -> Result<()> {
    let mut failed = 0;
    for record in held {
        let root = &record.spec.root;
        let released = match catalogue.exactly(&root.api_version, &root.kind) {
            Ok(kind) => {
                let namespace = record.namespace().filter(|_| kind.namespaced);
                let id = ObjectId { kind, namespace, name: root.name.clone() };
                release(client, &id, record).await
            }
            Err(error) => Err(error.into()),
        };
        if let Err(error) = released {
            failed += 1;
            eprintln!("limen: {} {} is still held: {error:#}", root.kind, root.name);
        }
    }
    println!("{} released.", held.len() - failed);
    if failed > 0 {
        bail!("{failed} of {} could not be released", held.len());
    }
    Ok(())
}

/// Lets a held deletion of an Ingress' leaves go on, if there is one.
pub(crate) async fn release_ingress(client: &Client, namespace: &str, name: &str) -> Result<()> {
    let id = ObjectId {
        kind: limen_api::kind(("networking.k8s.io/v1", "Ingress", "ingresses", true)),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    };
    match record(client, &id).await? {
        Some(held) if mark(&held).is_some() => {
            println!("{id}: {}", held.spec.message);
            release(client, &id, &held).await
        }
        _ => Ok(()),
    }
}

/// The mark that a held deletion shows.
fn mark(record: &FederatedStatus) -> Option<&str> {
    let held = record.spec.message.starts_with("held: ")
        || record.spec.clusters.iter().any(|leaf| leaf.state == LeafState::Held);
    let (_, mark) = record.spec.message.rsplit_once("(mark ").filter(|_| held)?;
    mark.strip_suffix(')')
}

async fn release(client: &Client, id: &ObjectId, record: &FederatedStatus) -> Result<()> {
    let Some(mark) = mark(record) else { return Ok(()) };
    let patch = json!({"metadata": {"annotations": {"limen.dev/release": mark}}});
    let api = ObjectApi::new(client.clone());
    let released = api.merge(id, "", &patch).await;
    released.map(drop).with_context(|| format!("cannot release {id}"))
}
