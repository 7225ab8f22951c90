//! `limen status`, `limen release` and `limen explain placement`

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use kube::api::ListParams;
use kube::{Api, Client};
use limen_api::dialect::Home;
use limen_api::{FederatedStatus, LeafState};
use limen_core::federated::ObjectId;
use limen_hub::Catalogue;
use limen_sync::ObjectApi;
use serde_json::{Value, json};

use crate::connection::{HubConnection, block_on};
use crate::table;

/// A root, as kubectl names it.
#[derive(Args)]
struct RootName {
    /// KIND/NAME, such as ingress/web
    #[arg(value_name = "KIND/NAME")]
    root: String,

    /// Its namespace
    #[arg(long, short, default_value = "default")]
    namespace: String,

    #[command(flatten)]
    hub: HubConnection,
}

impl RootName {
    fn resolve(&self, catalogue: &Catalogue) -> Result<ObjectId> {
        let Some((kind, name)) = self.root.split_once('/') else {
            bail!("{:?} is not KIND/NAME, such as ingress/web", self.root);
        };
        let kind = catalogue.find(kind)?;
        let namespace = kind.namespaced.then(|| self.namespace.clone());
        Ok(ObjectId { kind, namespace, name: name.to_owned() })
    }
}

/// Show a root with its leaves: where they are, how far, and what is wrong.
#[derive(Args)]
#[command(after_help = "Example:\n  limen status ingress/web -n shop")]
pub(crate) struct Status {
    #[command(flatten)]
    root: RootName,
}

impl Status {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let client = self.root.hub.client().await?;
            let catalogue = Catalogue::read(&client).await?;
            let id = self.root.resolve(&catalogue)?;
            let record = record(&client, &id).await?.with_context(|| {
                format!(
                    "nothing is known of {id}; limen explain placement {} says why",
                    self.root.root
                )
            })?;
            let spec = &record.spec;
            println!("{id}   synced {}", spec.synced);
            if !spec.message.is_empty() {
                println!("  {}", spec.message);
            }
            let last = spec.clusters.len().saturating_sub(1);
            for (index, leaf) in spec.clusters.iter().enumerate() {
                let branch = if index == last { "└─" } else { "├─" };
                let since = table::age(leaf.since.as_ref().map(|time| time.0));
                let stale = if leaf.stale { " (stale: the cluster cannot be reached)" } else { "" };
                println!("{branch} {:<24} {:?} for {since}{stale}", leaf.cluster, leaf.state);
                let indent = if index == last { "   " } else { "│  " };
                if !leaf.message.is_empty() {
                    println!("{indent} {}", leaf.message);
                }
                if let Some(addresses) = leaf.status.as_ref().and_then(addresses) {
                    println!("{indent} {addresses}");
                }
            }
            Ok(())
        })
    }
}

fn addresses(status: &Value) -> Option<String> {
    let addresses = status["loadBalancer"]["ingress"].as_array()?;
    let text = |address: &Value| {
        address["ip"].as_str().or(address["hostname"].as_str()).unwrap_or("?").to_owned()
    };
    Some(addresses.iter().map(text).collect::<Vec<_>>().join(", "))
}

async fn record(client: &Client, id: &ObjectId) -> Result<Option<FederatedStatus>> {
    let namespace = match (&id.namespace, id.kind.kind.as_str()) {
        (Some(namespace), _) => namespace.as_str(),
        (None, "Namespace") => id.name.as_str(),
        (None, _) => limen_api::NAMESPACE,
    };
    let records: Api<FederatedStatus> = Api::namespaced(client.clone(), namespace);
    let name = format!("{}.{}", id.kind.kind.to_lowercase(), id.name);
    records.get_opt(&name).await.with_context(|| format!("cannot read the record of {id}"))
}

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

    /// Its namespace
    #[arg(long, short, default_value = "default")]
    namespace: String,

    /// Everything that is held
    #[arg(long, conflicts_with = "root")]
    all: bool,

    #[command(flatten)]
    hub: HubConnection,
}

impl Release {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let client = self.hub.client().await?;
            let catalogue = Catalogue::read(&client).await?;
            let mut released = 0;
            if let Some(root) = self.root {
                let name = RootName { root, namespace: self.namespace, hub: self.hub };
                let id = name.resolve(&catalogue)?;
                let record = record(&client, &id).await?;
                let held = record.filter(|record| mark(record).is_some());
                let held = held.with_context(|| format!("nothing of {id} is held"))?;
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

/// Explain a decision.
#[derive(Subcommand)]
pub(crate) enum Explain {
    /// Why a root is in each cluster or not, and what would be done there
    Placement(Placement),
    /// Why requests go to which cluster, and how many of them
    Traffic(crate::traffic::Traffic),
}

impl Explain {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Placement(placement) => placement.run(),
            Self::Traffic(traffic) => traffic.run(),
        }
    }
}

/// Why a root is in each cluster or not, and what would be done there.
#[derive(Args)]
#[command(after_help = "\
Examples:
  limen explain placement ingress/web -n shop
  # What a change would do, before it is made
  limen explain placement --dry-run -f web.yaml")]
pub(crate) struct Placement {
    /// KIND/NAME, such as ingress/web
    #[arg(value_name = "KIND/NAME", required_unless_present = "file")]
    root: Option<String>,

    /// Its namespace
    #[arg(long, short, default_value = "default")]
    namespace: String,

    /// Explain what is in this file, as if it were on the hub
    #[arg(long, short, value_name = "FILE", requires = "dry_run")]
    file: Option<PathBuf>,

    /// Change nothing (it never does; this says that you know)
    #[arg(long)]
    dry_run: bool,

    /// The hub is a Kubernetes that is not Limen's own
    #[arg(long)]
    existing: bool,

    #[command(flatten)]
    hub: HubConnection,
}

impl Placement {
    fn run(self) -> Result<()> {
        block_on(async {
            let client = self.hub.client().await?;
            let catalogue = Catalogue::read(&client).await?;
            let instead = self.file.as_ref().map(read_manifest).transpose()?;
            let (root, namespace) = match (&self.root, &instead) {
                (Some(root), _) => (root.clone(), self.namespace.clone()),
                (None, Some(object)) => named(object, &self.namespace)?,
                (None, None) => bail!("give KIND/NAME or --dry-run -f FILE"),
            };
            let name = RootName { root, namespace, hub: self.hub };
            let id = name.resolve(&catalogue)?;
            let home = if self.existing { Home::Existing } else { Home::Embedded };
            let explained = limen_hub::explain(&client, &catalogue, &id, instead, home).await?;
            println!("{}", explained.root);
            if let Some(policy) = &explained.policy {
                println!("  under PlacementPolicy {policy}");
            }
            if let Some(hindrance) = &explained.hindrance {
                println!("  {hindrance}");
                return Ok(());
            }
            let rows: Vec<Vec<String>> = explained
                .clusters
                .into_iter()
                .map(|outlook| {
                    let selected = if outlook.selected { "yes" } else { "no" };
                    vec![outlook.cluster, selected.to_owned(), outlook.action, outlook.reason]
                })
                .collect();
            table::print(&["CLUSTER", "SELECTED", "THERE", "BECAUSE"], &rows);
            Ok(())
        })
    }
}

/// One object from a file.
pub(crate) fn read_manifest(path: &PathBuf) -> Result<Value> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_saphyr::from_str(&text)
        .with_context(|| format!("{} is not one object in YAML or JSON", path.display()))
}

fn named(object: &Value, namespace: &str) -> Result<(String, String)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let kind = text(&object["kind"]).context("the file has no kind")?;
    let name = text(&object["metadata"]["name"]).context("the file has no metadata.name")?;
    let namespace = text(&object["metadata"]["namespace"]).unwrap_or_else(|| namespace.to_owned());
    Ok((format!("{kind}/{name}"), namespace))
}

/// Print the definitions that an existing Kubernetes needs to be a hub.
#[derive(Args)]
#[command(after_help = "Example:\n  limen crds | kubectl apply --server-side -f -")]
pub(crate) struct Crds {}

impl Crds {
    pub(crate) fn run(self) -> Result<()> {
        let mut items: Vec<Value> = Vec::new();
        let mut add = |crd| -> Result<()> {
            let mut object = serde_json::to_value(crd)?;
            object["apiVersion"] = json!("apiextensions.k8s.io/v1");
            object["kind"] = json!("CustomResourceDefinition");
            items.push(object);
            Ok(())
        };
        for crd in limen_api::crds() {
            add(crd)?;
        }
        for row in limen_api::NATIVE {
            let kind = limen_api::kind(row);
            add(limen_api::federated_kind(&kind))?;
            for crd in limen_api::three_object_kinds(&kind) {
                add(crd)?;
            }
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        println!("{}", serde_json::to_string_pretty(&list)?);
        Ok(())
    }
}
