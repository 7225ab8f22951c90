//! `limen simulate`

mod page;
mod plot;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use limen_core::simulate::{Outcome, Report, Scenario, simulate};
use serde_json::{Value, json};

use crate::output::{Column, Format, Listing, Output};

/// Show what would happen: a day of clients, clusters and failures, decided as gateways decide.
#[derive(Args)]
#[command(after_help = "\
-o json has name and outcomes, a list of way, failedPercent, overflowPercent, latencyMilliseconds,
addedMilliseconds and busiestPercent.

Examples:
  limen simulate -f examples/simulate/region-loss.yaml --out report.html")]
pub(crate) struct Simulate {
    /// The scenario
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,

    /// Where to write the report with its plots; one file that needs nothing else
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    output: Output,
}

impl Simulate {
    pub(crate) fn run(self) -> Result<()> {
        let context = || format!("cannot simulate {}", self.filename.display());
        let text = std::fs::read_to_string(&self.filename).with_context(context)?;
        let scenario: Scenario = serde_saphyr::from_str(&text).with_context(context)?;
        let scenario = scenario.checked().with_context(context)?;
        let report = simulate(&scenario);
        let format = self.output.format;
        let for_people = matches!(format, Format::Table | Format::Wide);
        if for_people {
            println!("{}", scenario.name);
        }
        let listing = Listing {
            columns: &COLUMNS,
            rows: report.outcomes.iter().map(row).collect(),
            names: report.outcomes.iter().map(|outcome| outcome.name.to_owned()).collect(),
            value: &value(&scenario.name, &report),
        };
        listing.print(format)?;
        if let Some(out) = &self.out {
            std::fs::write(out, page::page(&scenario, &report))
                .with_context(|| format!("cannot write {}", out.display()))?;
            if for_people {
                println!("The plots are in {}.", out.display());
            }
        }
        Ok(())
    }
}

const COLUMNS: [Column; 6] = [
    ("WAY", false),
    ("FAILED", false),
    ("OVERFLOW", false),
    ("LATENCY", false),
    ("ADDED LATENCY", false),
    ("BUSIEST CLUSTER", false),
];

/// The share of requests that the nearest cluster did not serve.
fn overflow(outcome: &Outcome) -> f64 {
    let total = &outcome.total;
    if total.requests > 0.0 { total.overflow / total.requests } else { 0.0 }
}

fn row(outcome: &Outcome) -> Vec<String> {
    let total = &outcome.total;
    vec![
        outcome.name.to_owned(),
        format!("{:.3} %", total.failed_percent()),
        format!("{:.2} %", overflow(outcome) * 100.0),
        format!("{:.1} ms", total.latency),
        format!("{:.1} ms", total.added),
        format!("{:.0} %", total.busiest * 100.0),
    ]
}

fn value(name: &str, report: &Report) -> Value {
    let outcome = |outcome: &Outcome| {
        let total = &outcome.total;
        json!({
            "way": outcome.name,
            "failedPercent": total.failed_percent(),
            "overflowPercent": overflow(outcome) * 100.0,
            "latencyMilliseconds": total.latency,
            "addedMilliseconds": total.added,
            "busiestPercent": total.busiest * 100.0})
    };
    let outcomes: Vec<Value> = report.outcomes.iter().map(outcome).collect();
    json!({"name": name, "outcomes": outcomes})
}
