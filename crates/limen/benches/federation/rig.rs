//! A hub process and its members.

use std::collections::HashSet;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use limen_core::federated::Kind;
use limen_sync::{ObjectApi, Seen, follow};
use limen_testbed::{ApiServer, ControlPlane};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use crate::settle::settle;

/// A hub process and its members.
pub(crate) struct Rig {
    pub(crate) hub: ObjectApi,
    /// The APIs of the members, for whoever writes to them without the hub.
    pub(crate) direct: Vec<ObjectApi>,
    pub(crate) process: u32,
    child: Child,
    folder: TempDir,
    _members: Vec<ApiServer>,
    held: Vec<Watched>,
}

/// The Ingresses that one member holds.
struct Watched {
    names: HashSet<String>,
    seen: mpsc::Receiver<(Arc<Kind>, Seen)>,
}

impl Rig {
    pub(crate) async fn in_process(count: usize) -> Result<Self> {
        let mut members = Vec::new();
        let mut configs = Vec::new();
        for _ in 0..count {
            let member = ApiServer::start().await;
            configs.push(member.server().kubeconfig().to_owned());
            members.push(member);
        }
        Self::with(members, configs).await
    }

    pub(crate) async fn real(planes: &[ControlPlane]) -> Result<Self> {
        let configs = planes.iter().map(|plane| plane.kubeconfig_path().to_owned()).collect();
        Self::with(Vec::new(), configs).await
    }

    async fn with(members: Vec<ApiServer>, kubeconfigs: Vec<PathBuf>) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (process, client) = start(folder.path()).await?;
        let hub = ObjectApi::new(client);
        // The hub makes its own kinds after it is ready; joining needs the last of them.
        let types =
            limen_api::kind(("limen.dev/v1alpha1", "FederatedType", "federatedtypes", false));
        while hub.list(&types, "").await.map_or(0, |(types, _)| types.len())
            < limen_api::NATIVE.len()
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let (mut held, mut direct) = (Vec::new(), Vec::new());
        for (index, kubeconfig) in kubeconfigs.iter().enumerate() {
            let joined = Command::new(limen())
                .args(["join", &format!("member-{index}"), "--kubeconfig"])
                .arg(kubeconfig)
                .arg("--hub-kubeconfig")
                .arg(folder.path().join("kubeconfig"))
                .output()
                .await?;
            ensure!(joined.status.success(), "{}", String::from_utf8_lossy(&joined.stderr));
            let (tell, seen) = mpsc::channel(4096);
            let member = ObjectApi::new(client_of(kubeconfig).await?);
            tokio::spawn(follow(member.clone(), ingress_kind(), String::new(), tell));
            direct.push(member);
            held.push(Watched { names: HashSet::new(), seen });
        }
        let id = process.id().context("the hub runs")?;
        let rig =
            Self { hub, direct, process: id, child: process, folder, _members: members, held };
        settle(&rig.hub).await?;
        Ok(rig)
    }

    /// Kills the hub and starts it on what it left.
    pub(crate) async fn restart(&mut self) -> Result<()> {
        self.child.kill().await?;
        let (process, client) = start(self.folder.path()).await?;
        self.process = process.id().context("the hub runs")?;
        (self.child, self.hub) = (process, ObjectApi::new(client));
        Ok(())
    }

    pub(crate) fn members(&self) -> usize {
        self.held.len()
    }

    /// Waits until every member holds that many Ingresses whose names start so.
    pub(crate) async fn all_hold(&mut self, prefix: &str, count: usize) {
        for member in &mut self.held {
            let holds = |names: &HashSet<String>| {
                names.iter().filter(|name| name.starts_with(prefix)).count() >= count
            };
            let mut since_count = 0;
            while !holds(&member.names) {
                // Counting names is not free: with many still to come it waits for some more.
                let missing = count.saturating_sub(since_count).min(20);
                for _ in 0..missing.max(1) {
                    let Some((_, seen)) = member.seen.recv().await else { return };
                    let objects = match seen {
                        Seen::State(objects, _) => objects,
                        Seen::Changed(object) => vec![object],
                        _ => Vec::new(),
                    };
                    for object in objects {
                        let name = object["metadata"]["name"].as_str().unwrap_or_default();
                        since_count += usize::from(name.starts_with(prefix));
                        member.names.insert(name.to_owned());
                    }
                    if since_count >= count {
                        break;
                    }
                }
            }
        }
    }
}

/// Starts a hub in a folder and waits until it answers.
async fn start(folder: &Path) -> Result<(Child, Client)> {
    let mut process = Command::new(limen())
        .args(["hub", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = process.stdout.take().context("the output is a pipe")?;
    let mut lines = BufReader::new(output).lines();
    let said = lines.next_line().await?.unwrap_or_default();
    ensure!(said.starts_with("The hub is ready"), "{said}");
    // Later output must not fill the pipe.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok((process, client_of(&folder.join("kubeconfig")).await?))
}

/// The binary under test; a build of another commit is measured by the same rig.
fn limen() -> OsString {
    env::var_os("LIMEN").unwrap_or_else(|| env!("CARGO_BIN_EXE_limen").into())
}

async fn client_of(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let options = KubeConfigOptions::default();
    Ok(Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &options).await?)?)
}

pub(crate) fn ingress_kind() -> Arc<Kind> {
    limen_api::kind(("networking.k8s.io/v1", "Ingress", "ingresses", true))
}

pub(crate) fn ingress(name: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"rules": [{"host": format!("{name}.example.com"), "http": {"paths": [{
            "path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}})
}

pub(crate) fn rate(many: usize, time: Duration) -> f64 {
    count(many) / time.as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "counts of leaves are far below 2^52")]
pub(crate) fn count(many: usize) -> f64 {
    many as f64
}
