//! `limen release`

use anyhow::{Context, Result};
use clap::Args;
use kube::api::ListParams;
use kube::{Api, Client};
use limen_api::{FederatedStatus, LeafState};
use limen_core::federated::ObjectId;
use limen_hub::Catalogue;
use limen_sync::ObjectApi;
use serde_json::json;

use super::{record, resolve};
use crate::connection::{HubConnection, block_on};

/// Let a deletion go on that was held back.
#[derive(Args)]
#[command(after_help = "\
A change that would delete unusually much waits until a person says that it is meant.

Examples:
  limen release ingress/web -n shop
  limen release --all")]
pub(crate) struct Release {
    /// KIND/NAME, such as ingress/web
    #[arg(value_name = "KIND/NAME", required_unless_present = "all")]
    root: Option<String>,

    /// Everything that is held
    #[arg(long, conflicts_with = "root")]
    all: bool,

    #[command(flatten)]
    hub: HubConnection,
}

impl Release {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let hub = self.hub.connect().await?;
            let client = hub.client;
            let catalogue = Catalogue::read(&client).await?;
            let mut released = 0;
            if let Some(root) = self.root {
                let id = resolve(&catalogue, &root, &hub.namespace)?;
                let record = record(&client, &id).await?;
                let held = record.filter(|record| mark(record).is_some());
                let held = held.with_context(|| {
                    format!("nothing of {id} is held; limen status {root} says how it is")
                })?;
                released += release(&client, &id, &held).await?;
            } else {
                let records: Api<FederatedStatus> = Api::all(client.clone());
                for record in records.list(&ListParams::default()).await?.items {
                    let root = &record.spec.root;
                    let kind = catalogue.find(&root.kind)?;
                    let namespace = record.metadata.namespace.clone().filter(|_| kind.namespaced);
                    let id = ObjectId { kind, namespace, name: root.name.clone() };
                    released += release(&client, &id, &record).await?;
                }
            }
            println!("{released} released.");
            Ok(())
        })
    }
}

/// Lets a held deletion of an Ingress' leaves go on, if there is one.
pub(crate) async fn release_ingress(client: &Client, namespace: &str, name: &str) -> Result<()> {
    let id = ObjectId {
        kind: limen_api::kind(("networking.k8s.io/v1", "Ingress", "ingresses", true)),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    };
    match record(client, &id).await? {
        Some(held) => release(client, &id, &held).await.map(drop),
        None => Ok(()),
    }
}

/// The mark that a held deletion shows.
fn mark(record: &FederatedStatus) -> Option<&str> {
    let held = record.spec.message.starts_with("held: ")
        || record.spec.clusters.iter().any(|leaf| leaf.state == LeafState::Held);
    let (_, mark) = record.spec.message.rsplit_once("(mark ").filter(|_| held)?;
    mark.strip_suffix(')')
}

async fn release(client: &Client, id: &ObjectId, record: &FederatedStatus) -> Result<usize> {
    let Some(mark) = mark(record) else { return Ok(0) };
    let patch = json!({"metadata": {"annotations": {"limen.dev/release": mark}}});
    let api = ObjectApi::new(client.clone());
    api.merge(id, "", &patch).await.with_context(|| format!("cannot release {id}"))?;
    println!("{id}: {}", record.spec.message);
    Ok(1)
}
