//! `limen ingress get-status` and `limen ingress list`

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::Surroundings;
use super::balancer::{Balancer, existing, find};
use crate::connection::block_on;
use crate::output::{Column, Format, Listing, Output, print_value};

/// Say which address a load balancer has, and which clusters it is spread across.
#[derive(Args)]
#[command(after_help = "\
-o json has name, namespace, ingress, ip (null while there is none) and clusters.

Example:
  limen ingress get-status zone-printer")]
pub(crate) struct GetStatus {
    /// The load balancer
    name: String,

    #[command(flatten)]
    output: Output,

    #[command(flatten)]
    surroundings: Surroundings,
}

impl GetStatus {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let hub = self.surroundings.hub().await?;
            let found = existing(&hub, &self.name).await?;
            match self.output.format {
                Format::Json | Format::Yaml => {
                    return print_value(self.output.format, &value(&found));
                }
                Format::Name => println!("{}", found.name),
                Format::Table | Format::Wide => println!(
                    "Load balancer {} has IPAddress {} and is spread across {} clusters ({})",
                    found.name,
                    found.address(),
                    found.spread.len(),
                    found.spread.join(",")
                ),
            }
            Ok(())
        })
    }
}

/// List all load balancers.
#[derive(Args)]
#[command(after_help = "\
-o json is a list of name, namespace, ingress, ip (null while there is none) and clusters.

Example:
  limen ingress list")]
pub(crate) struct List {
    #[command(flatten)]
    output: Output,

    #[command(flatten)]
    surroundings: Surroundings,
}

const COLUMNS: [Column; 4] =
    [("NAME", false), ("IP", false), ("CLUSTERS", false), ("INGRESS", true)];

impl List {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let hub = self.surroundings.hub().await?;
            let found = find(&hub, None).await?;
            let format = self.output.format;
            if found.is_empty() && matches!(format, Format::Table | Format::Wide) {
                println!("No multicluster ingresses found.");
                return Ok(());
            }
            let row = |one: &Balancer| {
                let ingress = format!("{}/{}", one.namespace(), name_of(one));
                vec![one.name.clone(), one.address(), one.spread.join(", "), ingress]
            };
            let listing = Listing {
                columns: &COLUMNS,
                rows: found.iter().map(row).collect(),
                names: found.iter().map(|one| one.name.clone()).collect(),
                value: &found.iter().map(value).collect::<Vec<_>>(),
            };
            listing.print(format).map(drop)
        })
    }
}

fn name_of(balancer: &Balancer) -> &str {
    balancer.ingress.metadata.name.as_deref().unwrap_or_default()
}

fn value(balancer: &Balancer) -> Value {
    let address = Some(balancer.address()).filter(|address| address != "<pending>");
    json!({
        "name": balancer.name, "namespace": balancer.namespace(), "ingress": name_of(balancer),
        "ip": address, "clusters": balancer.spread})
}
