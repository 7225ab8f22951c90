//! `limen drain` and `limen undrain`

use anyhow::{Result, bail};
use clap::Args;
use limen_core::compile::{NextDrain, Objection};
use limen_hub::Drained;
use serde_json::json;

use crate::connection::{HubConnection, block_on};
use crate::output::{Format, Output, print_value};

/// Take traffic away from a cluster.
#[derive(Args)]
#[command(after_help = "\
New requests go to other clusters; those under way finish. It is refused when a backend would have
fewer than --keep other clusters, or less room than its clients want. A cluster that is drained, or
will be sooner, stays so: asked again, a drain only gets faster.

-o json has cluster, dryRun, overSeconds, backends (how many leave), already (Drained, Draining when
it ends sooner as it is, or null), objections (what speaks against it, each with globalIngress,
backend and reason) and refused. Refused, it ends with code 1.

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
    output: Output,

    #[command(flatten)]
    hub: HubConnection,
}

impl Drain {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let hub = self.hub.client().await?;
            let looking = limen_hub::Drain {
                cluster: self.cluster.clone(),
                over_seconds: self.over,
                keep: self.keep,
                force: true,
                dry_run: true,
            };
            let outlook = limen_hub::drain(&hub, &looking).await?;
            let refused = !outlook.objections.is_empty() && !self.force;
            if !self.dry_run && !refused {
                let acting =
                    limen_hub::Drain { force: self.force, dry_run: false, ..looking.clone() };
                limen_hub::drain(&hub, &acting).await?;
            }
            self.print(&outlook, refused)?;
            if refused {
                let found: String =
                    outlook.objections.iter().take(10).map(|one| format!("\n  {one}")).collect();
                let more = match outlook.objections.len().saturating_sub(10) {
                    0 => String::new(),
                    more => format!("\n  and {more} more"),
                };
                bail!(
                    "{} must not be drained (--force does it anyway):{found}{more}",
                    self.cluster
                );
            }
            Ok(())
        })
    }

    fn print(&self, outlook: &Drained, refused: bool) -> Result<()> {
        let (cluster, backends) = (&self.cluster, outlook.backends);
        match self.output.format {
            Format::Json | Format::Yaml => {
                let objection = |one: &Objection| {
                    let (whole, head) =
                        (one.to_string(), format!("{} ({}): ", one.global, one.backend));
                    let reason = whole.strip_prefix(&head).unwrap_or(&whole);
                    json!({"globalIngress": one.global, "backend": one.backend, "reason": reason})
                };
                let objections: Vec<_> = outlook.objections.iter().map(objection).collect();
                let already = match outlook.next {
                    NextDrain::Schedule(_) => None,
                    NextDrain::AlreadyGone => Some("Drained"),
                    NextDrain::EndsSooner { .. } => Some("Draining"),
                };
                let value = json!({
                    "cluster": cluster, "dryRun": self.dry_run, "overSeconds": self.over,
                    "backends": backends, "already": already, "objections": objections, "refused": refused});
                print_value(self.output.format, &value)?;
            }
            Format::Name => println!("cluster/{cluster}"),
            Format::Table | Format::Wide if refused => {}
            Format::Table | Format::Wide => {
                for objection in &outlook.objections {
                    println!("warning: {objection}");
                }
                let how = match self.over {
                    0 => "at once".to_owned(),
                    over => format!("in {over} s"),
                };
                let what = match backends {
                    1 => "the traffic of 1 backend".to_owned(),
                    many => format!("the traffic of {many} backends"),
                };
                match outlook.next {
                    NextDrain::AlreadyGone => {
                        println!("{cluster} is drained already, and stays so.");
                        return Ok(());
                    }
                    NextDrain::EndsSooner { seconds } => {
                        println!(
                            "{cluster} is being drained already, loses the last of its traffic in {seconds} s, and goes on so."
                        );
                        return Ok(());
                    }
                    NextDrain::Schedule(_) => {}
                }
                match self.dry_run {
                    true => println!("{cluster} would lose {what} {how}."),
                    false => println!(
                        "{cluster} loses {what} {how}; limen undrain {cluster} brings it back."
                    ),
                }
            }
        }
        Ok(())
    }
}

/// Give traffic back to a cluster.
#[derive(Args)]
#[command(after_help = "Example:\n  limen undrain gce-europe-west1b")]
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
