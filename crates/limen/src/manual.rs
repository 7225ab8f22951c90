//! `limen completion` and `limen man`: what shells and readers of manuals need.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory, ValueEnum};

use crate::Cli;

/// Print what a shell needs to complete this command line.
#[derive(Args)]
#[command(after_help = "\
Examples:
  source <(limen completion bash)
  limen completion zsh > \"${fpath[1]}/_limen\"
  limen completion fish > ~/.config/fish/completions/limen.fish")]
pub(crate) struct Completion {
    /// The shell
    shell: Shell,
}

/// A shell.
#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Completion {
    pub(crate) fn run(self) -> Result<()> {
        let shell = match self.shell {
            Shell::Bash => clap_complete::Shell::Bash,
            Shell::Zsh => clap_complete::Shell::Zsh,
            Shell::Fish => clap_complete::Shell::Fish,
        };
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "limen", &mut text);
        print!("{}", String::from_utf8_lossy(&text));
        Ok(())
    }
}

/// Write manual pages, one for each command.
#[derive(Args)]
#[command(after_help = "\
Example:
  limen man /usr/local/share/man/man1 && man limen-drain")]
pub(crate) struct Manual {
    /// The folder to write them to; it is made if need be
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Manual {
    pub(crate) fn run(self) -> Result<()> {
        let folder = &self.folder;
        let context = || format!("cannot write manual pages to {}", folder.display());
        std::fs::create_dir_all(folder).with_context(context)?;
        clap_mangen::generate_to(Cli::command(), folder).with_context(context)?;
        println!("The manual pages are in {}.", folder.display());
        Ok(())
    }
}
