//! `limen doctor`: looks at everything, and says what is wrong and what to do.
//!
//! ```text
//! hub · members · edges · DNS servers ──► collect ──► Facts ──► verdict (pure) ──► checks
//! ```

mod ask;
mod collect;
mod facts;
mod look;
mod members;
mod verdict;

use std::net::{IpAddr, SocketAddr};

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;

use self::facts::Facts;
use self::verdict::{Check, Verdict, judge};
use crate::connection::{HubConnection, block_on};
use crate::output::{Column, Format, Listing, Output};

/// Check a hub, its members, edges, names and roots, and say what is wrong.
#[derive(Args)]
#[command(after_help = "\
Nothing is changed. Members are looked at with the hub's own credentials, so it takes the right to
read Secrets in limen-system, and a network from which they can be reached. Ends with code 1 when
there is a fault; warnings do not count.

-o json has checks, a list of about, check, verdict (ok, warning or fault), found and advice, and
how many there are of each: ok, warnings, faults.

Examples:
  limen doctor
  limen doctor --kubeconfig hub.yaml -o json | jq '.checks[] | select(.verdict != \"ok\")'
  limen doctor --resolver 192.0.2.1    # ask this one who serves the zones")]
pub(crate) struct Doctor {
    #[command(flatten)]
    questions: Questions,

    #[command(flatten)]
    output: Output,

    #[command(flatten)]
    hub: HubConnection,
}

/// Whom to ask about names.
#[derive(Args, Clone)]
struct Questions {
    /// Whom to ask who serves the zones; otherwise the first of /etc/resolv.conf
    #[arg(long, value_name = "IP[:PORT]", value_parser = server)]
    resolver: Option<SocketAddr>,

    /// The port at which the servers of the zones answer
    #[arg(long, value_name = "PORT", default_value_t = 53)]
    dns_port: u16,
}

impl Questions {
    fn resolver(&self) -> Result<SocketAddr, String> {
        if let Some(resolver) = self.resolver {
            return Ok(resolver);
        }
        let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let servers = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
        let first = servers.filter_map(|server| server.trim().parse::<IpAddr>().ok()).next();
        let first = first.ok_or_else(|| "/etc/resolv.conf names no resolver".to_owned())?;
        Ok(SocketAddr::new(first, 53))
    }
}

fn server(text: &str) -> Result<SocketAddr, String> {
    let whole = text.parse::<SocketAddr>();
    let ip = || text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53));
    whole.or_else(|_| ip()).map_err(|_| format!("{text:?} is neither IP nor IP:PORT"))
}

const COLUMNS: [Column; 5] =
    [("ABOUT", false), ("CHECK", false), ("VERDICT", false), ("FOUND", false), ("TO DO", false)];

impl Doctor {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let config = self.hub.config().await?;
            let facts = match self.hub.client().await {
                Ok(client) => collect::collect(&client, &config, &self.questions).await,
                Err(error) => {
                    let mut facts = Facts::default();
                    facts.hub.silent = Some(format!("{error:#}"));
                    facts
                }
            };
            let checks = judge(&facts);
            print(&checks, self.output.format)
        })
    }
}

fn print(checks: &[Check], format: Format) -> Result<()> {
    let count = |verdict: Verdict| checks.iter().filter(|one| one.verdict == verdict).count();
    let (ok, warnings, faults) =
        (count(Verdict::Ok), count(Verdict::Warning), count(Verdict::Fault));
    let row = |check: &Check| {
        let (about, found, advice) = (&check.about, &check.found, &check.advice);
        let cells = [about, check.check, check.verdict.word(), found, advice];
        cells.map(str::to_owned).to_vec()
    };
    let troubled = checks.iter().filter(|check| check.verdict != Verdict::Ok);
    let listing = Listing {
        columns: &COLUMNS,
        rows: checks.iter().map(row).collect(),
        names: troubled.map(|check| format!("{}: {}", check.about, check.check)).collect(),
        value: &json!({"checks": checks, "ok": ok, "warnings": warnings, "faults": faults}),
    };
    listing.print(format)?;
    if matches!(format, Format::Table | Format::Wide) {
        println!("\nok: {ok}, warnings: {warnings}, faults: {faults}");
    }
    match faults {
        0 => Ok(()),
        1 => bail!("there is a fault; its line says what to do"),
        faults => bail!("there are {faults} faults; their lines say what to do"),
    }
}
