//! Two hubs on one Kubernetes, one of which leads and is stopped past its lease.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use limen_core::leaf::EPOCH_ANNOTATION;
use limen_core::mark::Mark;
use limen_testbed::{ControlPlane, Lag};
use serde_json::{Value, json};

use super::history::{Change, History};
use super::member::{Member, apply, config_map, detour, policy};
use crate::processes::eventually;

const ROOTS: usize = 30;
/// What roots say, one after the other.
const VALUES: [&str; 3] = ["one", "two", "three"];

/// A hub on an existing Kubernetes, which ends with the test.
struct Candidate {
    process: Child,
    log: Arc<Mutex<String>>,
}

impl Candidate {
    fn start(kubeconfig: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_limen"))
            .args(["hub", "--kubeconfig"])
            .arg(kubeconfig)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let errors = BufReader::new(process.stderr.take().unwrap());
        let candidate = Self { process, log: Arc::default() };
        let log = candidate.log.clone();
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                eprintln!("{line}");
                *log.lock().unwrap() += &(line + "\n");
            }
        });
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(line.starts_with("Federating from"), "{line}");
        // What it says later must not fill the pipe.
        std::thread::spawn(move || output.read_to_string(&mut String::new()));
        candidate
    }

    fn signal(&self, signal: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Waits until it holds the lease.
    async fn eventually_leads(&self, home: &Client) {
        let leases: Api<Lease> = Api::namespaced(home.clone(), "limen-system");
        let process = format!("-{}-", self.process.id());
        eventually("the leader", async || {
            let lease = leases.get_opt("limen-hub").await.unwrap();
            let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
            (holder.contains(&process), holder)
        })
        .await;
    }

    async fn eventually_logs(&self, message: &str) {
        eventually(message, async || {
            let log = self.log.lock().unwrap().clone();
            (log.contains(message), log)
        })
        .await;
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Versions of leaves that are older than the one before, by value or by epoch.
fn set_back(changes: &[Change]) -> Vec<&Change> {
    let mut newest: BTreeMap<&str, (Option<usize>, u64)> = BTreeMap::new();
    let mut older = Vec::new();
    for change in changes {
        let value = VALUES.iter().position(|value| change.object["data"]["key"] == *value);
        let mark = change.object["metadata"]["annotations"][EPOCH_ANNOTATION].as_str();
        let mark: Mark = mark.unwrap_or_default().parse().unwrap_or_default();
        let now = (value, mark.epoch);
        let before = newest.insert(change.name(), now).unwrap_or_default();
        if change.gone || now.0 < before.0 || now.1 < before.1 {
            older.push(change);
        }
    }
    older
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_stopped_past_its_lease_sets_no_leaf_back() {
    let (home, a) = tokio::join!(ControlPlane::start(), Member::start());
    let home = home.unwrap();
    let hub = home.kubeconfig_path();
    let client = Client::try_from(limen_testbed::config_of(hub).await).unwrap();
    let (to_home, by_detour) = detour(&home).await;
    let first = Candidate::start(&by_detour);
    first.eventually_leads(&client).await;
    let second = Candidate::start(hub);
    a.join(hub, "a");
    let roots = |value: &str| -> Vec<Value> {
        (0..ROOTS).map(|n| config_map("default", &format!("root-{n:02}"), value)).collect()
    };
    let all = policy("default", "all", &json!({"placement": {"clusterSelector": {}}}));
    apply(hub, &[all]).await;
    let [one, two, three] = VALUES;
    apply(hub, &roots(one)).await;
    a.eventually_has_leaves("default", ROOTS).await;
    let history = History::start::<ConfigMap>(&a.client, json!({})).await;

    // The first one goes on with roots that are old, and hears of nothing but new leaves.
    to_home.set(Lag::Everything);
    first.signal("-STOP");
    second.eventually_leads(&client).await;
    apply(hub, &roots(two)).await;
    for n in 0..ROOTS {
        a.eventually_has("default", &format!("root-{n:02}"), Some(two)).await;
    }
    first.signal("-CONT");
    first.eventually_logs("stepping down").await;
    to_home.set(Lag::Nothing);

    // The second one leads on, and what it writes stays.
    apply(hub, &roots(three)).await;
    for n in 0..ROOTS {
        a.eventually_has("default", &format!("root-{n:02}"), Some(three)).await;
    }
    second.eventually_leads(&client).await;
    let changes = history.so_far().await;
    let older = set_back(&changes);
    assert!(older.is_empty(), "{} leaves were set back: {:#?}", older.len(), older.first());
    assert!(changes.len() >= 2 * ROOTS, "the history lacks updates: {}", changes.len());
}
