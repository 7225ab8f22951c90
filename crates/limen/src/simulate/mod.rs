//! `limen simulate`

mod page;
mod plot;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use limen_core::simulate::{Report, Scenario, simulate};

use crate::table;

/// Show what would happen: a day of clients, clusters and failures, decided as gateways decide.
#[derive(Args)]
#[command(after_help = "\
Examples:
  limen simulate -f examples/simulate/region-loss.yaml --out report.html")]
pub(crate) struct Simulate {
    /// The scenario
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,

    /// Where to write the report with its plots; one file that needs nothing else
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Simulate {
    pub(crate) fn run(self) -> Result<()> {
        let context = || format!("cannot simulate {}", self.filename.display());
        let text = std::fs::read_to_string(&self.filename).with_context(context)?;
        let scenario: Scenario = serde_saphyr::from_str(&text).with_context(context)?;
        let scenario = scenario.checked().with_context(context)?;
        let report = simulate(&scenario);
        println!("{}", scenario.name);
        let (head, rows) = totals(&report);
        table::print(&head, &rows);
        if let Some(out) = &self.out {
            std::fs::write(out, page::page(&scenario, &report))
                .with_context(|| format!("cannot write {}", out.display()))?;
            println!("The plots are in {}.", out.display());
        }
        Ok(())
    }
}

/// What came of each way, side by side.
fn totals(report: &Report) -> ([&'static str; 6], Vec<Vec<String>>) {
    let head = ["WAY", "FAILED", "OVERFLOW", "LATENCY", "ADDED LATENCY", "BUSIEST CLUSTER"];
    let row = |outcome: &limen_core::simulate::Outcome| {
        let total = &outcome.total;
        let overflow = if total.requests > 0.0 { total.overflow / total.requests } else { 0.0 };
        vec![
            outcome.name.to_owned(),
            format!("{:.3} %", total.failed_percent()),
            format!("{:.2} %", overflow * 100.0),
            format!("{:.1} ms", total.latency),
            format!("{:.1} ms", total.added),
            format!("{:.0} %", total.busiest * 100.0),
        ]
    };
    (head, report.outcomes.iter().map(row).collect())
}
