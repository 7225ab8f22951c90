//! `limen explain placement`

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use limen_api::dialect::Home;
use limen_hub::{Catalogue, Explained};
use serde_json::{Value, json};

use super::resolve;
use crate::connection::{HubConnection, block_on};
use crate::output::{Column, Format, Listing, Output};

/// Why a root is in each cluster or not, and what would be done there.
#[derive(Args)]
#[command(after_help = "\
-o json has root (apiVersion, kind, namespace, name), policy, hindrance (why nothing is done at
all, or null), held (why deletions wait for limen release, or null) and clusters, a list of
cluster, selected, reason and action.

Examples:
  limen explain placement ingress/web -n shop
  # What a change would do, before it is made
  limen explain placement --dry-run -f web.yaml")]
pub(crate) struct Placement {
    /// KIND/NAME, such as ingress/web
    #[arg(value_name = "KIND/NAME", required_unless_present = "file")]
    root: Option<String>,

    /// Explain what is in this file, as if it were on the hub
    #[arg(long, short, value_name = "FILE", requires = "dry_run")]
    file: Option<PathBuf>,

    /// Change nothing (it never does; this says that you know)
    #[arg(long)]
    dry_run: bool,

    /// The hub federates from an existing Kubernetes; otherwise its version says whether it does
    #[arg(long)]
    existing: bool,

    #[command(flatten)]
    output: Output,

    #[command(flatten)]
    hub: HubConnection,
}

impl Placement {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let hub = self.hub.connect().await?;
            let catalogue = Catalogue::read(&hub.client).await?;
            let instead = self.file.as_ref().map(read_manifest).transpose()?;
            let (root, namespace) = match (&self.root, &instead) {
                (Some(root), _) => (root.clone(), hub.namespace),
                (None, Some(object)) => named(object, &hub.namespace)?,
                (None, None) => bail!("give KIND/NAME or --dry-run -f FILE"),
            };
            let id = resolve(&catalogue, &root, &namespace)?;
            let own = limen_hub::is_own(&hub.client).await;
            let own = own.context("cannot read the version of the hub")?;
            let home = if own && !self.existing { Home::Embedded } else { Home::Existing };
            let explained = limen_hub::explain(&hub.client, &catalogue, &id, instead, home).await?;
            print(&explained, self.output.format)
        })
    }
}

const COLUMNS: [Column; 4] =
    [("CLUSTER", false), ("SELECTED", false), ("THERE", false), ("BECAUSE", false)];

fn print(explained: &Explained, format: Format) -> Result<()> {
    if matches!(format, Format::Table | Format::Wide) {
        println!("{}", explained.root);
        if let Some(policy) = &explained.policy {
            println!("  under PlacementPolicy {policy}");
        }
        if let Some(held) = &explained.held {
            println!("  {held}");
        }
        if let Some(hindrance) = &explained.hindrance {
            println!("  {hindrance}");
            return Ok(());
        }
    }
    let row = |outlook: &limen_hub::Outlook| {
        let selected = if outlook.selected { "yes" } else { "no" };
        let (cluster, action) = (outlook.cluster.clone(), outlook.action.clone());
        vec![cluster, selected.to_owned(), action, outlook.reason.clone()]
    };
    let selected = explained.clusters.iter().filter(|outlook| outlook.selected);
    let listing = Listing {
        columns: &COLUMNS,
        rows: explained.clusters.iter().map(row).collect(),
        names: selected.map(|outlook| format!("cluster/{}", outlook.cluster)).collect(),
        value: &value(explained),
    };
    listing.print(format).map(drop)
}

fn value(explained: &Explained) -> Value {
    let root = &explained.root;
    let outlook = |outlook: &limen_hub::Outlook| {
        json!({
            "cluster": outlook.cluster, "selected": outlook.selected,
            "reason": outlook.reason, "action": outlook.action})
    };
    json!({
        "root": {
            "apiVersion": root.kind.api_version, "kind": root.kind.kind,
            "namespace": root.namespace, "name": root.name},
        "policy": explained.policy,
        "hindrance": explained.hindrance,
        "held": explained.held,
        "clusters": explained.clusters.iter().map(outlook).collect::<Vec<_>>()})
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
