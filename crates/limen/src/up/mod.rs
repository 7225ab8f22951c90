//! `limen up`: a whole federation on one machine.

mod dashboard;
mod dns;
mod folder;
mod format;
pub(crate) mod http_client;
mod kubeconfig;
mod ports;
mod sample;
mod whole;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use limen_playground::Topology;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use self::folder::Folder;
pub(crate) use self::ports::Ports;
pub(crate) use self::sample::{NAME as SAMPLE, PODS};
pub(crate) use self::whole::{Whole, WholeOptions};

/// Where ports count up from unless told otherwise.
pub(crate) const PORT_BASE: u16 = 7400;

/// Run a whole federation in this process: hub, clusters, gateway and a sample application.
#[derive(Args)]
#[command(after_help = "\
Ports count up from --port-base: hub, dashboard, gateway HTTP, gateway HTTPS, DNS (UDP and
TCP), admin; then the API and the ingress of each cluster. With --port-base 0 they are picked.

A topology file has the clusters:
  clusters:
  - {name: berlin, region: europe-west10, zone: europe-west10-a, latitude: 52.52, longitude: 13.40}
  - {name: tokyo, region: asia-northeast1, zone: asia-northeast1-a, latitude: 35.68, longitude: 139.69}

Examples:
  limen up
  limen up --clusters 3 --data-dir ./demo    # go on there the next time")]
pub(crate) struct Up {
    /// How many clusters
    #[arg(long, value_name = "N", default_value_t = 5, conflicts_with = "topology")]
    clusters: usize,

    /// A file that says which clusters there are, and where
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,

    /// Keep everything here, and go on from there; otherwise nothing is kept
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// The first port; the others follow
    #[arg(long, value_name = "N", default_value_t = PORT_BASE)]
    port_base: u16,

    /// Do not submit the sample application
    #[arg(long)]
    no_sample: bool,
}

impl Up {
    pub(crate) fn run(self) -> Result<()> {
        // It goes last, when nothing runs any more that could write to it.
        let mut folder = None;
        crate::connection::block_on(self.serve(&mut folder))
    }

    async fn serve(self, folder: &mut Option<Folder>) -> Result<()> {
        let start = Instant::now();
        // From here on, so that no signal can end the process before it has tidied up.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let stopped = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        tokio::pin!(stopped);
        let topology = match &self.topology {
            Some(file) => Topology::read(file)?,
            None => Topology::of(self.clusters)?,
        };
        let ports = Ports::plan(self.port_base, topology.clusters.len())?;
        let folder = folder.insert(Folder::open(self.data_dir.as_deref())?);
        ports.check(&topology)?;
        println!("Starting a hub and {} clusters ...", topology.clusters.len());
        let options = WholeOptions {
            topology,
            ports,
            folder: folder.path().to_owned(),
            sample: !self.no_sample,
            say: |line: &str| println!("  {line}"),
        };
        let whole = tokio::select! {
            () = &mut stopped => return Ok(()),
            whole = Whole::start(options) => whole?,
        };
        whole.write_files().context("the federation runs, and cannot be written down")?;
        print!("{}", format::welcome(&whole, start.elapsed(), self.data_dir.as_deref()));
        stopped.await;
        println!("Stopping ...");
        whole.stop().await;
        Ok(())
    }
}
