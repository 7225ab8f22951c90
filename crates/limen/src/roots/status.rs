//! `limen status`

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use clap::Args;
use jiff::Timestamp;
use kube::Client;
use limen_api::{FINALIZER, FederatedStatus, LeafReport};
use limen_core::federated::ObjectId;
use limen_hub::Catalogue;
use limen_sync::ObjectApi;
use serde_json::Value;

use super::{record, records_of, resolve};
use crate::connection::{HubConnection, block_on};
use crate::output::{Column, Format, Listing, Output, print_value};
use crate::watch::{Seen, follow};
use crate::{colour, table};

/// Show a root with its leaves: where they are, how far, and what is wrong.
#[derive(Args)]
#[command(after_help = "\
-o json is the FederatedStatus object (limen.dev/v1alpha1) of the root: spec.synced, spec.message
and, for each member, spec.clusters with cluster, state, message, since, stale and status. With
--watch it is printed again whenever it has changed.

Examples:
  limen status ingress/web -n shop
  limen status ingress/web -n shop --watch
  limen status ingress/web -n shop -o json")]
pub(crate) struct Status {
    /// KIND/NAME, such as ingress/web
    #[arg(value_name = "KIND/NAME")]
    root: String,

    /// Go on, and print the leaves that change
    #[arg(long, short)]
    watch: bool,

    #[command(flatten)]
    output: Output,

    #[command(flatten)]
    hub: HubConnection,
}

impl Status {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let hub = self.hub.connect().await?;
            let catalogue = Catalogue::read(&hub.client).await?;
            let id = resolve(&catalogue, &self.root, &hub.namespace)?;
            let found = record(&hub.client, &id).await?;
            match &found {
                Some(found) if !self.watch => return print(&id, found, self.output.format),
                Some(_) => {}
                None => self.before_the_first_record(&hub.client, &id).await?,
            }
            if !self.watch {
                return Ok(());
            }
            let (records, name) = records_of(&hub.client, &id);
            let mut view = View { id, format: self.output.format, shown: None };
            let fields = format!("metadata.name={name}");
            follow(&records, Some(&fields), |seen| view.see(seen)).await
        })
    }
}

/// How long it may take until there is a record of a new root.
const FIRST_RECORD: i64 = 10;

impl Status {
    /// Says that a new root is being placed, or fails because nothing is known of it.
    async fn before_the_first_record(&self, hub: &Client, id: &ObjectId) -> Result<()> {
        let root = ObjectApi::new(hub.clone()).get(id).await;
        let root = root.with_context(|| format!("cannot read {id}"))?;
        let root = root.with_context(|| format!("there is no {id} on the hub"))?;
        let metadata = &root["metadata"];
        let finalizers = metadata["finalizers"].as_array();
        let made = metadata["creationTimestamp"].as_str().and_then(|time| time.parse().ok());
        let age = made.map(|made: Timestamp| Timestamp::now().as_second() - made.as_second());
        let taken_up = finalizers.is_some_and(|all| all.iter().any(|name| name == FINALIZER));
        if !taken_up && age.is_none_or(|age| age > FIRST_RECORD) {
            bail!("nothing is known of {id}; limen explain placement {} says why", self.root);
        }
        match self.output.format {
            Format::Table | Format::Wide => {
                println!("{id}   being placed; no cluster has said anything yet");
            }
            _ if self.watch => {}
            _ => bail!(
                "{id} is being placed, and there is no record of it yet; --watch waits for one"
            ),
        }
        Ok(())
    }
}

const COLUMNS: [Column; 6] = [
    ("CLUSTER", false),
    ("STATE", false),
    ("FOR", false),
    ("STALE", false),
    ("ADDRESSES", false),
    ("MESSAGE", false),
];

fn print(id: &ObjectId, record: &FederatedStatus, format: Format) -> Result<()> {
    match format {
        Format::Table => print_tree(id, record),
        Format::Wide => {
            let clusters = &record.spec.clusters;
            let names = Vec::new();
            let rows = clusters.iter().map(row).collect();
            Listing { columns: &COLUMNS, rows, names, value: record }.print(format)?;
        }
        Format::Json | Format::Yaml => print_value(format, record)?,
        Format::Name => {
            for leaf in &record.spec.clusters {
                println!("cluster/{}", leaf.cluster);
            }
        }
    }
    Ok(())
}

fn print_tree(id: &ObjectId, record: &FederatedStatus) {
    print_head(id, record);
    let last = record.spec.clusters.len().saturating_sub(1);
    for (index, leaf) in record.spec.clusters.iter().enumerate() {
        let (branch, indent) = if index == last { ("└─", "   ") } else { ("├─", "│  ") };
        print_leaf(leaf, branch, indent);
    }
}

fn print_head(id: &ObjectId, record: &FederatedStatus) {
    println!("{id}   synced {}", record.spec.synced);
    if !record.spec.message.is_empty() {
        println!("  {}", record.spec.message);
    }
}

fn print_leaf(leaf: &LeafReport, branch: &str, indent: &str) {
    let since = table::age(leaf.since.as_ref().map(|time| time.0));
    let stale = if leaf.stale { " (stale: the cluster cannot be reached)" } else { "" };
    let mut state = format!("{:?}", leaf.state);
    if colour::on_stdout() {
        state = colour::paint(&state);
    }
    println!("{branch} {:<24} {state} for {since}{stale}", leaf.cluster);
    if !leaf.message.is_empty() {
        println!("{indent} {}", leaf.message);
    }
    if let Some(addresses) = leaf.status.as_ref().and_then(addresses) {
        println!("{indent} {addresses}");
    }
}

fn row(leaf: &LeafReport) -> Vec<String> {
    vec![
        leaf.cluster.clone(),
        format!("{:?}", leaf.state),
        table::age(leaf.since.as_ref().map(|time| time.0)),
        if leaf.stale { "yes" } else { "no" }.to_owned(),
        leaf.status.as_ref().and_then(addresses).unwrap_or_else(|| "-".to_owned()),
        leaf.message.clone(),
    ]
}

fn addresses(status: &Value) -> Option<String> {
    let addresses = status["loadBalancer"]["ingress"].as_array()?;
    let text = |address: &Value| {
        address["ip"].as_str().or(address["hostname"].as_str()).unwrap_or("?").to_owned()
    };
    Some(addresses.iter().map(text).collect::<Vec<_>>().join(", "))
}

/// What somebody who watches has been shown.
struct View {
    id: ObjectId,
    format: Format,
    shown: Option<FederatedStatus>,
}

impl View {
    fn see(&mut self, seen: Seen<FederatedStatus>) -> Result<()> {
        let Seen::Is(record) = seen else {
            self.shown = None;
            println!("{} is gone", self.id);
            return Ok(());
        };
        let Some(before) = self.shown.replace(record.clone()) else {
            return print(&self.id, &record, self.format);
        };
        if before.spec == record.spec {
            return Ok(());
        }
        if self.format != Format::Table {
            return print(&self.id, &record, self.format);
        }
        let old: BTreeMap<_, _> =
            before.spec.clusters.iter().map(|leaf| (&leaf.cluster, leaf)).collect();
        if (&before.spec.synced, &before.spec.message)
            != (&record.spec.synced, &record.spec.message)
        {
            print_head(&self.id, &record);
        }
        for leaf in &record.spec.clusters {
            if old.get(&leaf.cluster) != Some(&leaf) {
                print_leaf(leaf, "──", "  ");
            }
        }
        Ok(())
    }
}
