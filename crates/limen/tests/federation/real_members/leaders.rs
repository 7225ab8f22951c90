//! Two hubs on one Kubernetes, one of which leads and is stopped past its lease.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client};
use limen_core::leaf::EPOCH_ANNOTATION;
use limen_core::mark::Mark;
use limen_testbed::{ControlPlane, Lag};
use serde_json::{Value, json};

use super::history::{Change, History};
use super::member::{Member, apply, config_map, detour, kubectl, list, policy};
use crate::processes::{eventually, limen};

const ROOTS: usize = 30;
/// Roots that the member refuses at first; few enough to be deleted by name.
const LATE: usize = 30;
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
        if (change.gone && now.0.is_some()) || now.0 < before.0 || now.1 < before.1 {
            older.push(change);
        }
    }
    older
}

fn late() -> Vec<Value> {
    (0..LATE).map(|n| config_map("default", &format!("late-{n:02}"), "late")).collect()
}

impl Member {
    /// Lets no object be created that is late.
    async fn refuse_late_creations(&self) {
        let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["configmaps"]}]);
        let admission = "admissionregistration.k8s.io/v1";
        let policy = json!({"apiVersion": admission, "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "late"}, "spec": {
                "matchConstraints": {"resourceRules": rules},
                "validations": [{"expression": "!object.metadata.name.startsWith('late-')"}]}});
        let binding = json!({"apiVersion": admission, "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "late"},
            "spec": {"policyName": "late", "validationActions": ["Deny"]}});
        apply(self.plane.kubeconfig_path(), &[policy, binding]).await;
        self.eventually_creates("late-try", false).await;
    }

    async fn admit_late_creations(&self) {
        self.kubectl(&["delete", "validatingadmissionpolicybinding", "late"]).await;
        self.eventually_creates("late-try", true).await;
    }

    /// Waits until an object can be created, or cannot.
    async fn eventually_creates(&self, name: &str, possible: bool) {
        let attempt = serde_json::from_value(config_map("default", name, "")).unwrap();
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        eventually("the admission of objects", async || {
            let created = self.config_maps("default").create(&dry_run, &attempt).await;
            (created.is_ok() == possible, format!("{created:?}"))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_stopped_past_its_lease_writes_nothing_when_it_goes_on() {
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

    // The first one has creations to try again. They are due when it goes on, and only its lease
    // forbids them: nothing is there that they would conflict with.
    a.refuse_late_creations().await;
    apply(hub, &late()).await;
    for root in late() {
        let name = root["metadata"]["name"].as_str().unwrap();
        eventually(&format!("the status of {name}"), async || {
            let said = limen(hub, &["status", &format!("configmap/{name}")]);
            (said.out().contains("Failed"), said.all())
        })
        .await;
    }
    first.signal("-STOP");
    // It will go on with roots that are old, and hear of nothing but new leaves.
    to_home.set(Lag::Everything);
    a.admit_late_creations().await;
    kubectl(hub, &["delete", "--wait=false", "-f", "-"], &list(&late())).await;

    second.eventually_leads(&client).await;
    apply(hub, &roots(two)).await;
    for n in 0..ROOTS {
        a.eventually_has("default", &format!("root-{n:02}"), Some(two)).await;
    }
    kubectl(hub, &["wait", "--for=delete", "--timeout=60s", "-f", "-"], &list(&late())).await;
    let known = history.so_far().await.len();
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
    let is_late = |change: &&Change| change.name().starts_with("late-");
    let revived: Vec<&Change> = changes[known..].iter().filter(is_late).collect();
    assert!(revived.is_empty(), "{} leaves were revived: {:#?}", revived.len(), revived.first());
    let older = set_back(&changes);
    assert!(older.is_empty(), "{} leaves were set back: {:#?}", older.len(), older.first());
    assert!(changes.len() >= 2 * ROOTS, "the history lacks updates: {}", changes.len());
}
