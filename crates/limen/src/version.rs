//! `limen version`

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::output::{Format, Output, print_value};

/// Say which version of Limen this is.
#[derive(Args)]
#[command(after_help = "\
-o json has version, commit (null unless it was built with LIMEN_COMMIT set) and target.

Examples:
  limen version
  limen version -o json")]
pub(crate) struct Version {
    #[command(flatten)]
    output: Output,
}

/// What this program is.
#[derive(Serialize)]
struct This {
    version: &'static str,
    commit: Option<&'static str>,
    target: String,
}

impl Version {
    pub(crate) fn run(self) -> Result<()> {
        let this = This {
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("LIMEN_COMMIT"),
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        };
        match self.output.format {
            Format::Json | Format::Yaml => print_value(self.output.format, &this)?,
            Format::Name => println!("{}", this.version),
            Format::Table | Format::Wide => {
                let commit = this.commit.map(|commit| format!(", commit {commit}"));
                println!("limen {} ({}{})", this.version, this.target, commit.unwrap_or_default());
            }
        }
        Ok(())
    }
}
