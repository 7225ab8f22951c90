//! The command line of Limen.

mod clusters;
mod connection;
mod dns;
mod dns_keys;
mod gateway;
mod hub;
mod join;
mod play;
mod roots;
mod simulate;
mod table;
mod traffic;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One front door for an application that runs in many Kubernetes clusters.
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the hub: a Kubernetes API that people submit their objects to.
    Hub(Box<hub::Hub>),
    /// Let a cluster into the federation.
    Join(join::Join),
    /// Let a cluster out of the federation.
    Unjoin(join::Unjoin),
    /// Show the members of the federation.
    Clusters(clusters::Clusters),
    /// Show a root with its leaves: where they are, how far, and what is wrong.
    Status(roots::Status),
    /// Let a deletion go on that was held back.
    Release(roots::Release),
    /// Take traffic away from a cluster.
    Drain(traffic::Drain),
    /// Give traffic back to a cluster.
    Undrain(traffic::Undrain),
    /// Explain a decision.
    #[command(subcommand)]
    Explain(roots::Explain),
    /// Print the definitions that an existing Kubernetes needs to be a hub.
    Crds(roots::Crds),
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
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_env("LIMEN_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn,kube_client=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let outcome = match cli.command {
        Command::Hub(hub) => hub.run(),
        Command::Join(join) => join.run(),
        Command::Unjoin(unjoin) => unjoin.run(),
        Command::Clusters(clusters) => clusters.run(),
        Command::Status(status) => status.run(),
        Command::Release(release) => release.run(),
        Command::Drain(drain) => drain.run(),
        Command::Undrain(undrain) => undrain.run(),
        Command::Explain(explain) => explain.run(),
        Command::Crds(crds) => crds.run(),
        Command::Simulate(simulate) => simulate.run(),
        Command::Gateway(gateway) => gateway.run(),
        Command::Up(up) => up.run(),
        Command::Play(play) => play.run(),
        Command::Dns(dns) => dns.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("limen: {error:#}");
            ExitCode::FAILURE
        }
    }
}
