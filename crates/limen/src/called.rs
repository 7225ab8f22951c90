//! What the command line is depends on the name that it was called by.
//!
//! kubectl runs `kubectl-limen` when somebody types `kubectl limen`; scripts for kubemci go on as
//! they are where `kubemci` is a link to this program.

use std::path::Path;

use clap::{CommandFactory, FromArgMatches, Subcommand};

use crate::ingress::Ingress;
use crate::{Cli, Command};

/// Reads the command line, or ends with help or an error.
pub(crate) fn parse() -> Command {
    let program = std::env::args_os().next();
    let name = program.as_deref().and_then(name_of);
    let mut matches = command(name).get_matches();
    let read = match name {
        Some("kubemci") => Ingress::from_arg_matches_mut(&mut matches).map(Command::Ingress),
        _ => Cli::from_arg_matches_mut(&mut matches).map(|cli| cli.command),
    };
    read.unwrap_or_else(|error| error.exit())
}

fn name_of(program: &std::ffi::OsStr) -> Option<&str> {
    Path::new(program).file_stem()?.to_str()
}

fn command(name: Option<&str>) -> clap::Command {
    match name {
        Some("kubectl-limen") => Cli::command().bin_name("kubectl limen"),
        Some("kubemci") => Ingress::augment_subcommands(
            clap::Command::new("kubemci")
                .about("One Ingress over many clusters, on a hub of Limen")
                .subcommand_required(true)
                .arg_required_else_help(true),
        ),
        _ => Cli::command(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_calls_itself_what_people_type() {
        for (program, expected) in [
            ("/usr/bin/kubectl-limen", "kubectl limen"),
            ("kubectl-limen.exe", "kubectl limen"),
            ("/usr/bin/limen", "limen"),
            ("kubemci", "kubemci"),
        ] {
            let mut command = command(name_of(program.as_ref()));
            let usage = command.render_usage().to_string();
            assert!(usage.contains(&format!("Usage: {expected} <")), "{usage}");
        }
    }

    #[test]
    fn as_kubemci_it_has_the_commands_of_kubemci() {
        let command = command(Some("kubemci"));
        let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(names, ["create", "delete", "get-status", "list", "remove-clusters"]);
    }
}
