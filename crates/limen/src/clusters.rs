//! `limen clusters`

use anyhow::{Context, Result};
use clap::Args;
use kube::Api;
use kube::api::ListParams;
use limen_api::Cluster;

use crate::connection::{HubConnection, block_on};
use crate::table;

/// Show the members of the federation.
#[derive(Args)]
#[command(after_help = "\
API, EDGE and ENDPOINTS are separate verdicts: an API that does not answer says nothing about the
pods behind it.

Example:
  limen clusters")]
pub(crate) struct Clusters {
    #[command(flatten)]
    hub: HubConnection,
}

impl Clusters {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let clusters: Api<Cluster> = Api::all(self.hub.client().await?);
            let clusters = clusters
                .list(&ListParams::default())
                .await
                .context("cannot list clusters; is this a hub?")?;
            if clusters.items.is_empty() {
                println!("No cluster has joined yet; limen join --help says how.");
                return Ok(());
            }
            let rows: Vec<Vec<String>> = clusters.items.iter().map(row).collect();
            let head = [
                "NAME",
                "API",
                "EDGE",
                "ENDPOINTS",
                "VERSION",
                "REGION",
                "LEAVES",
                "AGE",
                "MESSAGE",
            ];
            table::print(&head, &rows);
            Ok(())
        })
    }
}

fn row(cluster: &Cluster) -> Vec<String> {
    let status = cluster.status.clone().unwrap_or_default();
    let verdicts = status.verdicts.unwrap_or_default();
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    let mut message = match ready {
        Some(ready) if ready.status != "True" => ready.message.clone(),
        _ => String::new(),
    };
    if !status.tombstones.is_empty() {
        let waiting = format!("{} deletions wait for its return", status.tombstones.len());
        message = [message, waiting]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("; ");
    }
    vec![
        cluster.metadata.name.clone().unwrap_or_default(),
        format!("{:?}", verdicts.api.verdict),
        format!("{:?}", verdicts.edge.verdict),
        format!("{:?}", verdicts.endpoints.verdict),
        status.version.unwrap_or_else(|| "-".to_owned()),
        status.region.unwrap_or_else(|| "-".to_owned()),
        status.leaves.to_string(),
        table::age(cluster.metadata.creation_timestamp.as_ref().map(|time| time.0)),
        message,
    ]
}
