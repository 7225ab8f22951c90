//! `limen clusters`

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use clap::Args;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use limen_api::Cluster;
use serde_json::json;

use crate::connection::{HubConnection, block_on};
use crate::output::{Column, Format, Listing, Output, cut, print_value};
use crate::table::{self, Table};
use crate::watch::{Seen, follow};

/// Show the members of the federation.
#[derive(Args)]
#[command(after_help = "\
API, EDGE and ENDPOINTS are separate verdicts: an API that does not answer says nothing about the
pods behind it.

-o json is a List of Cluster objects (limen.dev/v1alpha1); with --watch, one object after the other
as they change. -o name prints cluster/NAME.

Examples:
  limen clusters
  limen clusters --watch
  limen clusters -o json | jq '.items[].status.verdicts'")]
pub(crate) struct Clusters {
    /// Go on, and print the rows that change
    #[arg(long, short)]
    watch: bool,

    #[command(flatten)]
    output: Output,

    #[command(flatten)]
    hub: HubConnection,
}

impl Clusters {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let api: Api<Cluster> = Api::all(self.hub.client().await?);
            let clusters = match api.list(&ListParams::default()).await {
                Ok(clusters) => clusters.items,
                Err(kube::Error::Api(status)) if status.code == 404 => bail!(
                    "this Kubernetes is no hub, or not yet: it knows no clusters; limen hub --kubeconfig FILE makes it one"
                ),
                Err(error) => return Err(error).context("cannot list clusters"),
            };
            let format = self.output.format;
            if clusters.is_empty() && format == Format::Table && !self.watch {
                println!("No cluster has joined yet; limen join --help says how.");
                return Ok(());
            }
            if self.watch && matches!(format, Format::Json | Format::Yaml) {
                return follow(&api, None, |seen| print_seen(format, seen)).await;
            }
            let items: Vec<Cluster> = clusters.into_iter().map(tidy).collect();
            let value = json!({"apiVersion": "v1", "kind": "List", "items": items});
            let listing = Listing {
                columns: &COLUMNS,
                rows: items.iter().map(row).collect(),
                names: items.iter().map(name).collect(),
                value: &value,
            };
            let table = listing.print(format)?;
            if !self.watch {
                return Ok(());
            }
            let mut view = View { format, table, shown: BTreeMap::new() };
            view.shown.extend(items.iter().map(|cluster| (cluster.name_any(), steady(cluster))));
            follow(&api, None, |seen| {
                view.see(seen);
                Ok(())
            })
            .await
        })
    }
}

/// An object as people want to see it.
fn tidy(mut cluster: Cluster) -> Cluster {
    cluster.metadata.managed_fields = None;
    cluster
}

fn print_seen(format: Format, seen: Seen<Cluster>) -> Result<()> {
    let Seen::Is(cluster) = seen else { return Ok(()) };
    if format == Format::Yaml {
        println!("---");
    }
    print_value(format, &tidy(cluster))
}

fn name(cluster: &Cluster) -> String {
    format!("cluster/{}", cluster.name_any())
}

const COLUMNS: [Column; 13] = [
    ("NAME", false),
    ("API", false),
    ("EDGE", false),
    ("ENDPOINTS", false),
    ("VERSION", false),
    ("REGION", false),
    ("ZONE", true),
    ("MODE", true),
    ("DRAIN", true),
    ("ADDRESS", true),
    ("LEAVES", false),
    ("AGE", false),
    ("MESSAGE", false),
];
/// The column that changes with time alone.
const AGE: usize = 11;

fn row(cluster: &Cluster) -> Vec<String> {
    let status = cluster.status.clone().unwrap_or_default();
    let verdicts = status.verdicts.clone().unwrap_or_default();
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        cluster.name_any(),
        format!("{:?}", verdicts.api.verdict),
        format!("{:?}", verdicts.edge.verdict),
        format!("{:?}", verdicts.endpoints.verdict),
        or_none(status.version.clone()),
        or_none(status.region.clone()),
        or_none(status.zone.clone()),
        format!("{:?}", cluster.spec.mode),
        if cluster.spec.drain { "yes" } else { "no" }.to_owned(),
        or_none(cluster.spec.endpoint.clone()),
        status.leaves.to_string(),
        table::age(cluster.metadata.creation_timestamp.as_ref().map(|time| time.0)),
        message(cluster),
    ]
}

fn message(cluster: &Cluster) -> String {
    let Some(status) = &cluster.status else { return String::new() };
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    let unready = ready.filter(|ready| ready.status != "True").map(|ready| ready.message.clone());
    let waiting = match status.tombstones.len() {
        0 => None,
        waiting => Some(format!("{waiting} deletions wait for its return")),
    };
    let parts = [unready, waiting].into_iter().flatten().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("; ")
}

/// What of a row only changes when the cluster does.
fn steady(cluster: &Cluster) -> Vec<String> {
    let mut row = row(cluster);
    row.remove(AGE);
    row
}

/// What somebody who watches has been shown.
struct View {
    format: Format,
    table: Option<Table>,
    shown: BTreeMap<String, Vec<String>>,
}

impl View {
    fn see(&mut self, seen: Seen<Cluster>) {
        match seen {
            Seen::Gone(name) => {
                if self.shown.remove(&name).is_some() && self.format != Format::Name {
                    println!("{name}   has left");
                }
            }
            Seen::Is(cluster) => {
                let now = steady(&cluster);
                if self.shown.insert(cluster.name_any(), now.clone()) == Some(now) {
                    return;
                }
                match &self.table {
                    Some(table) => {
                        let wide = self.format == Format::Wide;
                        table.print_row(&cut(&COLUMNS, &row(&cluster), wide));
                    }
                    None => println!("{}", name(&cluster)),
                }
            }
        }
    }
}
