//! The command line of Limen.

/// As in the standard library, except that it does not panic when nobody reads.
macro_rules! println {
    () => { $crate::stdout::write(format_args!("\n")) };
    ($($text:tt)*) => { $crate::stdout::write(format_args!("{}\n", format_args!($($text)*))) };
}

/// As in the standard library, except that it does not panic when nobody reads.
macro_rules! print {
    ($($text:tt)*) => { $crate::stdout::write(format_args!($($text)*)) };
}

mod called;
mod clusters;
mod colour;
mod connection;
mod coredns;
mod crds;
mod dns;
mod dns_keys;
mod doctor;
#[cfg(test)]
mod documented;
mod gateway;
mod holds;
mod hub;
mod ingress;
mod join;
mod manual;
mod output;
mod play;
mod publish;
mod resume;
mod roots;
mod simulate;
mod stdout;
mod table;
mod traffic;
mod tsig_key;
mod up;
mod version;
mod watch;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One front door for an application that runs in many Kubernetes clusters.
#[derive(Parser)]
#[command(
    name = "limen",
    version,
    propagate_version = true,
    after_help = "\
Exit codes: 0 when it is done; 1 when it could not be done, or limen doctor has found a fault;
2 when the command line is wrong. What went wrong is on standard error, with what to do about it.

Environment: KUBECONFIG names the kubeconfig of the hub, as for kubectl; NO_COLOR=1 means no
colours, which only terminals get; LIMEN_LOG=debug says more of what goes on.

Examples:
  limen up                                    # a whole federation on this machine
  limen clusters --kubeconfig hub.yaml        # the members of a federation
  limen status ingress/web -n shop -o json    # one root, for a program"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the hub: a Kubernetes API that people submit their objects to.
    Hub(Box<hub::Hub>),
    /// Join a cluster to the federation.
    Join(join::Join),
    /// Unjoin a cluster from the federation.
    Unjoin(join::Unjoin),
    /// Show the members of the federation.
    Clusters(clusters::Clusters),
    /// Show a root with its leaves: where they are, how far, and what is wrong.
    Status(roots::Status),
    /// Show the removals that wait for a person.
    Holds(holds::Holds),
    /// Let a held removal go on.
    Release(holds::Release),
    /// Let a hub that was restored from a backup write to members again.
    Resume(resume::Resume),
    /// Take traffic away from a cluster.
    Drain(traffic::Drain),
    /// Give traffic back to a cluster.
    Undrain(traffic::Undrain),
    /// Check a hub, its members, edges, names and roots, and say what is wrong.
    Doctor(doctor::Doctor),
    /// One Ingress over many clusters, by the commands of kubemci.
    #[command(subcommand)]
    Ingress(ingress::Ingress),
    /// Explain a decision.
    #[command(subcommand)]
    Explain(roots::Explain),
    /// Print the definitions that an existing Kubernetes needs to be a hub.
    Crds(crds::Crds),
    /// Show what would happen: a day of clients, clusters and failures, decided as gateways decide.
    Simulate(simulate::Simulate),
    /// Run a gateway: the proxy that clients connect to.
    Gateway(Box<gateway::Gateway>),
    /// Run a whole federation in this process: hub, clusters, gateway and a sample application.
    Up(up::Up),
    /// Play a story on a federation of `limen up`, and see whether it ends well.
    Play(play::Play),
    /// Run a DNS server: names that lead to the nearest healthy cluster.
    Dns(Box<dns::Dns>),
    /// Publish the names of roots in DNS that others run.
    Publish(Box<publish::Publish>),
    /// Print what a shell needs to complete this command line.
    Completion(manual::Completion),
    /// Write manual pages, one for each command.
    Man(manual::Manual),
    /// Say which version of Limen this is.
    Version(version::Version),
}

fn main() -> ExitCode {
    let command = called::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_env("LIMEN_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(logged(&command)));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colour::on_stderr())
        .with_writer(std::io::stderr)
        .init();
    match run(command).and_then(|()| stdout::finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may be listening, and then there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "limen: {}", advised(said(&error)));
            ExitCode::FAILURE
        }
    }
}

/// What is logged unless somebody says otherwise. A story tells itself what it breaks, and draws
/// pictures that no other line may come between.
fn logged(command: &Command) -> &'static str {
    match command {
        Command::Play(_) => "error,kube_client=off",
        Command::Up(_) => "warn,kube_client=off,limen_gateway=error",
        _ => "warn,kube_client=off",
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Hub(hub) => hub.run(),
        Command::Join(join) => join.run(),
        Command::Unjoin(unjoin) => unjoin.run(),
        Command::Clusters(clusters) => clusters.run(),
        Command::Status(status) => status.run(),
        Command::Holds(holds) => holds.run(),
        Command::Release(release) => release.run(),
        Command::Resume(resume) => resume.run(),
        Command::Drain(drain) => drain.run(),
        Command::Undrain(undrain) => undrain.run(),
        Command::Explain(explain) => explain.run(),
        Command::Crds(crds) => crds.run(),
        Command::Simulate(simulate) => simulate.run(),
        Command::Gateway(gateway) => gateway.run(),
        Command::Up(up) => up.run(),
        Command::Play(play) => play.run(),
        Command::Dns(dns) => dns.run(),
        Command::Publish(publish) => publish.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Ingress(ingress) => ingress.run(),
        Command::Completion(completion) => completion.run(),
        Command::Man(manual) => manual.run(),
        Command::Version(version) => version.run(),
    }
}

/// An error with its causes; of what an API server has said, only its own words.
fn said(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let answer = cause.downcast_ref::<kube::Error>();
        let words = answer.map_or_else(|| cause.to_string(), limen_api::error_text);
        let already = text.contains(&words);
        match text.is_empty() {
            true => text = words,
            false if already => {}
            false => text = format!("{text}: {words}"),
        }
        if answer.is_some() {
            break;
        }
    }
    text
}

/// What went wrong, with what to do about it where the error itself cannot know.
fn advised(error: String) -> String {
    match error.contains("is forbidden: User") {
        true => format!(
            "{error}; ask whoever runs the hub for that right (kubectl auth can-i --list shows yours)"
        ),
        false => error,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Every command that does something, with its path.
    fn leaves(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Command)>) {
        let path = format!("{path} {}", command.get_name());
        let mut children = command.get_subcommands().peekable();
        if children.peek().is_none() {
            found.push((path, command.clone()));
            return;
        }
        for child in children {
            leaves(child, &path, found);
        }
    }

    #[test]
    fn every_command_has_an_example_in_its_help() {
        let mut command = Cli::command();
        command.build();
        let mut found = Vec::new();
        leaves(&command, "", &mut found);
        let found = found.into_iter().filter(|(path, _)| !path.contains(" help"));
        for (path, command) in found {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "the help of{path} has no example");
        }
    }

    #[test]
    fn the_command_line_has_no_contradictions() {
        Cli::command().debug_assert();
    }
}
