//! `limen drain`, `limen undrain`, `limen explain traffic`

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use limen_api::TrafficPolicy;
use limen_core::compile::Asked;
use limen_core::geography::Geography;
use limen_hub::Picture;

use crate::connection::{HubConnection, block_on};
use crate::roots::read_manifest;
use crate::table;

/// Take traffic away from a cluster.
#[derive(Args)]
#[command(after_help = "\
New requests go to other clusters; those under way finish. It is refused when a backend would have
fewer than --keep other clusters, or less room than its clients want.

Examples:
  limen drain gce-europe-west1b --over 5m
  limen drain gce-europe-west1b --keep 2 --dry-run")]
pub(crate) struct Drain {
    /// The cluster
    cluster: String,

    /// Little by little, in this time: 90s, 5m, 1h
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = seconds)]
    over: u32,

    /// How many other clusters every backend must have left
    #[arg(long, value_name = "N", default_value = "1")]
    keep: usize,

    /// Do it whatever speaks against it
    #[arg(long)]
    force: bool,

    /// Only say what would be
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    hub: HubConnection,
}

impl Drain {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let options = limen_hub::Drain {
                cluster: self.cluster.clone(),
                over_seconds: self.over,
                keep: self.keep,
                force: self.force,
                dry_run: self.dry_run,
            };
            let drained = limen_hub::drain(&self.hub.client().await?, &options).await?;
            for objection in &drained.objections {
                println!("warning: {objection}");
            }
            let how = match self.over {
                0 => "at once".to_owned(),
                over => format!("in {over} s"),
            };
            let (cluster, backends) = (&self.cluster, drained.backends);
            match self.dry_run {
                true => println!("{backends} backends would leave {cluster} {how}."),
                false => println!(
                    "{backends} backends leave {cluster} {how}; limen undrain {cluster} brings them back."
                ),
            }
            Ok(())
        })
    }
}

/// Give traffic back to a cluster.
#[derive(Args)]
pub(crate) struct Undrain {
    /// The cluster
    cluster: String,

    #[command(flatten)]
    hub: HubConnection,
}

impl Undrain {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            limen_hub::undrain(&self.hub.client().await?, &self.cluster).await?;
            println!("{} gets traffic again.", self.cluster);
            Ok(())
        })
    }
}

/// Why requests go to which cluster, and how many of them.
#[derive(Args)]
#[command(after_help = "\
Examples:
  limen explain traffic shop.example/cart --from europe-west1
  limen explain traffic shop.example --from 203.0.113.7 --geography networks.txt --at edge-1
  # What a policy would change, before it is applied
  limen explain traffic shop.example --dry-run -f policy.yaml")]
pub(crate) struct Traffic {
    /// What is asked for
    #[arg(value_name = "HOST[/PATH]")]
    what: String,

    /// Where the client is: a region, or an address that --geography knows
    #[arg(long, value_name = "IP|REGION")]
    from: Option<String>,

    /// Which gateway the request comes to; otherwise one in the client's region, or any
    #[arg(long, value_name = "GATEWAY")]
    at: Option<String>,

    /// Where clients are by their addresses: lines of NETWORK PLACE...
    #[arg(long, value_name = "FILE")]
    geography: Option<PathBuf>,

    /// Show what this TrafficPolicy would change
    #[arg(long, short, value_name = "FILE", requires = "dry_run")]
    file: Option<PathBuf>,

    /// Change nothing (it never does; this says that you know)
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    hub: HubConnection,
}

impl Traffic {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let (host, path) = match self.what.split_once('/') {
                Some((host, path)) => (host.to_owned(), format!("/{path}")),
                None => (self.what.clone(), "/".to_owned()),
            };
            let places = self.places()?;
            let places: Vec<&str> = places.iter().map(String::as_str).collect();
            let picture = Picture::read(&self.hub.client().await?).await?;
            let (gateway, from) = picture.vantage(self.at.as_deref(), &places)?;
            let asked = picture.ask((&host, &path), &places, &from);
            let Some(asked) = asked else {
                bail!(
                    "nobody serves {host}{path}; kubectl get globalingresses -A shows what is served"
                );
            };
            print(&asked, &gateway);
            let Some(file) = &self.file else { return Ok(()) };
            let policy: TrafficPolicy = serde_json::from_value(read_manifest(file)?)
                .with_context(|| format!("{} is no TrafficPolicy", file.display()))?;
            let changed = picture.with_policy(&asked.global, &policy.spec.policy);
            let changed = changed.map_err(anyhow::Error::msg)?;
            let after = changed.ask((&host, &path), &places, &from);
            println!("\nunder {}:", file.display());
            print_change(&asked, after.as_ref());
            Ok(())
        })
    }

    /// Where the client is.
    fn places(&self) -> Result<Vec<String>> {
        let Some(from) = &self.from else { return Ok(Vec::new()) };
        let Ok(address) = from.parse::<IpAddr>() else { return Ok(vec![from.clone()]) };
        let Some(file) = &self.geography else {
            bail!("nobody knows where {address} is; give --geography FILE, or a region for --from");
        };
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let table: Geography = text.parse().with_context(|| file.display().to_string())?;
        Ok(table.places(address).to_vec())
    }
}

fn print(asked: &Asked, gateway: &str) {
    let rule = if asked.rule.is_empty() { "the default" } else { &asked.rule };
    println!("{rule} of {}, backend {}, as seen by {gateway}", asked.global, asked.backend);
    for step in &asked.explanation.steps {
        println!("  {}: {}", step.rule, step.detail);
        println!("    keeps {}", listed(&step.kept));
        for dropped in &step.dropped {
            println!("    drops {}: {}", dropped.cluster, dropped.reason);
        }
    }
    let Some(cluster) = &asked.explanation.cluster else {
        return println!("nothing can serve it");
    };
    println!("goes to {cluster}");
    let row = |odds: &limen_core::decide::Odds| {
        let group = odds.group.clone().unwrap_or_else(|| "-".to_owned());
        vec![odds.cluster.clone(), group, percent(odds.share)]
    };
    let rows: Vec<_> = asked.explanation.odds.iter().map(row).collect();
    table::print(&["CLUSTER", "GROUP", "SHARE"], &rows);
}

fn print_change(before: &Asked, after: Option<&Asked>) {
    let share = |asked: Option<&Asked>, name: &str| -> f64 {
        let odds = asked.into_iter().flat_map(|asked| &asked.explanation.odds);
        odds.filter(|odds| odds.cluster == name).map(|odds| odds.share).sum()
    };
    let both = [Some(before), after].into_iter().flatten();
    let mut names: Vec<&str> =
        both.flat_map(|asked| &asked.explanation.odds).map(|odds| odds.cluster.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let row = |name: &&str| {
        let (old, new) = (share(Some(before), name), share(after, name));
        vec![(*name).to_owned(), percent(old), percent(new), format!("{:+.1}", (new - old) * 100.0)]
    };
    let rows: Vec<_> = names.iter().map(row).collect();
    table::print(&["CLUSTER", "NOW", "THEN", "CHANGE"], &rows);
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

fn percent(share: f64) -> String {
    // A sum of nothing is a negative zero.
    format!("{:.1}%", share * 100.0 + 0.0)
}

/// A time in seconds: 90s, 5m, 1h.
fn seconds(text: &str) -> Result<u32, String> {
    let (number, unit) = text.split_at(text.trim_end_matches(char::is_alphabetic).len());
    let factor = match unit {
        "s" | "" => 1,
        "m" => 60,
        "h" => 3600,
        _ => 0,
    };
    let seconds = number.parse::<u32>().ok().and_then(|number| number.checked_mul(factor));
    seconds
        .filter(|_| factor > 0)
        .ok_or_else(|| format!("{text:?} is no time such as 90s, 5m or 1h"))
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn times_are_read_with_their_unit() {
        for (text, expected) in [("90s", 90), ("5m", 300), ("1h", 3600), ("7", 7)] {
            assert_eq!(seconds(text), Ok(expected));
        }
        for text in ["", "m", "5d", "-1s", "4294967295h"] {
            assert!(seconds(text).is_err(), "{text:?}");
        }
    }
}
