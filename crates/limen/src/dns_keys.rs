//! `limen dns ds` and `limen dns roll`: the keys of signed zones.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use clap::Args;
use limen_dns::{KeyFolder, KeyState, Rolled};

/// Print the DS records that the parent of a signed zone should have
#[derive(Args)]
#[command(after_help = "\
Example:
  limen dns ds --zone example.com --dnssec-keys ./keys")]
pub(crate) struct DnsDs {
    #[command(flatten)]
    keys: ZoneKeys,
}

/// Take the next step towards a new key of a signed zone; run it again when it says so
#[derive(Args)]
#[command(after_help = "\
Three steps, each of which leaves every cache with a way from the parent to the answers:
  1. a new key is published; tell the parent its DS record, beside the old one
  2. an hour later, and when the parent has it: the new key signs, the old one has stopped;
     tell the parent to drop the old DS record
  3. two days later: the old key is removed
Running servers read the folder every few seconds.

Example:
  limen dns roll --zone example.com --dnssec-keys ./keys")]
pub(crate) struct DnsRoll {
    #[command(flatten)]
    keys: ZoneKeys,

    /// Do not wait for caches, because somebody else may have the key; answers fail for a while
    #[arg(long)]
    now: bool,
}

#[derive(Args)]
struct ZoneKeys {
    /// The zone
    #[arg(long, value_name = "NAME")]
    zone: String,

    /// The folder with its keys
    #[arg(long, value_name = "DIR")]
    dnssec_keys: PathBuf,
}

impl DnsDs {
    pub(crate) fn run(&self) -> Result<()> {
        self.keys.print_ds()
    }
}

impl ZoneKeys {
    fn folder(&self) -> KeyFolder {
        KeyFolder::new(&self.dnssec_keys)
    }

    fn print_ds(&self) -> Result<()> {
        let keys = self.folder().list(&self.zone)?;
        if keys.is_empty() {
            let (zone, folder) = (&self.zone, self.dnssec_keys.display());
            bail!("{folder} has no key of {zone}; a server that is started with it makes one");
        }
        for key in keys.iter().filter(|key| key.state != KeyState::Retired) {
            println!("{}", key.ds);
        }
        Ok(())
    }
}

impl DnsRoll {
    pub(crate) fn run(&self) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        match self.keys.folder().roll(&self.keys.zone, now, self.now)? {
            Rolled::Published(tag) => {
                println!("The key {tag} can be seen and does not sign yet.");
                println!("Give the parent zone both records, then run this again in an hour:");
            }
            Rolled::Activated(tag) => {
                println!("The key {tag} signs; the old one has stopped.");
                println!("Leave the parent zone only this record, and run this again in two days:");
            }
            Rolled::Removed(tag) => {
                println!("The key {tag} is gone. The parent zone should have only:");
            }
        }
        self.keys.print_ds()
    }
}
