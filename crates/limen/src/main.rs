//! The command line of Limen.

mod gateway;
mod hub;

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
    /// Run a gateway: the proxy that clients connect to.
    Gateway(Box<gateway::Gateway>),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_env("LIMEN_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let outcome = match cli.command {
        Command::Hub(hub) => hub.run(),
        Command::Gateway(gateway) => gateway.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("limen: {error:#}");
            ExitCode::FAILURE
        }
    }
}
