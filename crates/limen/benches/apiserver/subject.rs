//! The two API servers under test, each new and empty in a folder of its own.

use std::env;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use limen_testbed::{ControlPlane, Etcd};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::client::Target;
use crate::process::cpu_seconds;

pub(crate) struct Subject {
    pub(crate) target: Target,
    server: Server,
}

enum Server {
    Limen(Box<Hub>),
    Real(Box<ControlPlane>),
}

impl Subject {
    pub(crate) async fn limen() -> Result<Self> {
        let hub = Hub::start().await?;
        let target = Target::from_kubeconfig(&hub.folder.path().join("kubeconfig")).await?;
        Ok(Self { target, server: Server::Limen(Box::new(hub)) })
    }

    pub(crate) async fn real() -> Result<Self> {
        let plane = ControlPlane::start().await?;
        let target = Target::from_kubeconfig(plane.kubeconfig_path()).await?;
        Ok(Self { target, server: Server::Real(Box::new(plane)) })
    }

    /// The processes that answer: the API server first, then its etcd if it has one.
    pub(crate) fn processes(&self) -> Vec<u32> {
        match &self.server {
            Server::Limen(hub) => hub.process.id().into_iter().collect(),
            Server::Real(plane) => {
                [plane.apiserver_pid()].into_iter().chain(Etcd::pid(plane.etcd())).collect()
            }
        }
    }

    /// CPU time used so far by everything behind the API.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        self.processes().into_iter().map(cpu_seconds).sum()
    }
}

struct Hub {
    process: Child,
    folder: TempDir,
}

impl Hub {
    async fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut process = hub_command(folder.path()).spawn()?;
        let output = process.stdout.take().context("the output is a pipe")?;
        let mut lines = BufReader::new(output).lines();
        let said = lines.next_line().await?.unwrap_or_default();
        ensure!(said.starts_with("The hub is ready"), "{said}");
        // Later output must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { process, folder })
    }
}

fn hub_command(folder: &Path) -> Command {
    let binary = env::var_os("LIMEN").unwrap_or_else(|| env!("CARGO_BIN_EXE_limen").into());
    let mut command = Command::new(binary);
    command.args(["hub", "--api-only", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder);
    command.stdout(Stdio::piped()).kill_on_drop(true);
    command
}
