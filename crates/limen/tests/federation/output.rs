//! What commands print for programs, and for people who keep watching.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use k8s_openapi::api::networking::v1::Ingress;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::processes::{ApiServer, Said, eventually};

/// A command that goes on, and the lines that it prints.
struct Watching {
    process: Child,
    lines: Receiver<String>,
}

impl Watching {
    fn start(hub: &ApiServer, arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_limen"))
            .args(arguments)
            .env("KUBECONFIG", hub.kubeconfig())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                let Ok(line) = line else { return };
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Self { process, lines }
    }

    /// Waits for a line that has these words, and says which lines came before.
    fn wait_for(&self, words: &[&str]) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(120));
            let line = line.unwrap_or_else(|_| panic!("no {words:?} among {before:?}"));
            if words.iter().all(|word| line.contains(word)) {
                return before;
            }
            before.push(line);
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn parsed(said: &Said) -> Value {
    serde_json::from_str(&said.out()).unwrap_or_else(|error| panic!("{error}: {}", said.all()))
}

async fn web(hub: &ApiServer) -> Api<Ingress> {
    let roots: Api<Ingress> = Api::default_namespaced(hub.client().await);
    let root = json!({
        "metadata": {"name": "web"},
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}});
    roots.create(&PostParams::default(), &serde_json::from_value(root).unwrap()).await.unwrap();
    roots
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_get_objects_and_those_who_watch_get_changes() {
    let (hub, a, b) = (ApiServer::hub(), ApiServer::member(), ApiServer::member());
    hub.join(&[&a]).await;
    let clusters = Watching::start(&hub, &["clusters", "-w"]);
    clusters.wait_for(&["NAME", "API", "MESSAGE"]);
    clusters.wait_for(&["a ", "Healthy"]);
    hub.join(&[&a, &b]).await;
    let before = clusters.wait_for(&["b ", "Healthy"]);
    assert!(before.iter().all(|line| !line.contains("NAME")), "the head is there once: {before:?}");

    // The forms of the members.
    assert_eq!(hub.limen(&["clusters", "-o", "name"]).out(), "cluster/a\ncluster/b\n");
    let list = parsed(&hub.limen(&["clusters", "-o", "json"]));
    assert_eq!((&list["kind"], &list["items"][1]["kind"]), (&json!("List"), &json!("Cluster")));
    assert_eq!(list["items"][0]["status"]["verdicts"]["api"]["verdict"], "Healthy");
    assert!(list["items"][0]["metadata"]["managedFields"].is_null(), "{list}");
    let yaml: Value =
        serde_saphyr::from_str(&hub.limen(&["clusters", "-o", "yaml"]).out()).unwrap();
    assert_eq!(yaml["items"][1]["metadata"]["name"], "b");
    let (plain, wide) =
        (hub.limen(&["clusters"]).out(), hub.limen(&["clusters", "-o", "wide"]).out());
    assert!(!plain.contains("ADDRESS") && wide.contains("ADDRESS"), "{plain}{wide}");
    assert!(wide.contains("https://127.0.0.1:"), "{wide}");

    // A root, watched while its placement changes.
    let roots = web(&hub).await;
    eventually("the root is everywhere", async || {
        let said = hub.limen(&["status", "ingress/web"]);
        (said.out().contains("synced 2/2"), said.all())
    })
    .await;
    let status = Watching::start(&hub, &["status", "ingress/web", "--watch"]);
    status.wait_for(&["└─ b", "Synced"]);
    let selector = json!([{"key": "name", "operator": "in", "values": ["a"]}]).to_string();
    let only_a = json!({"metadata": {"annotations": {
        "federation.alpha.kubernetes.io/cluster-selector": selector}}});
    roots.patch("web", &PatchParams::default(), &Patch::Merge(only_a)).await.unwrap();
    status.wait_for(&["synced 1/1"]);

    let record = parsed(&hub.limen(&["status", "ingress/web", "-o", "json"]));
    assert_eq!(record["kind"], "FederatedStatus");
    assert_eq!(record["spec"]["clusters"][0]["cluster"], "a");
    assert_eq!(hub.limen(&["status", "ingress/web", "-o", "name"]).out(), "cluster/a\n");
    let wide = hub.limen(&["status", "ingress/web", "-o", "wide"]).out();
    assert!(wide.starts_with("CLUSTER") && wide.contains("Synced"), "{wide}");

    let placement = ["explain", "placement", "ingress/web", "-o"];
    let explained = parsed(&hub.limen(&[&placement[..], &["json"]].concat()));
    assert_eq!(explained["root"]["kind"], "Ingress");
    assert_eq!(explained["clusters"][1]["selected"], false);
    assert!(explained["clusters"][1]["reason"].is_string(), "{explained}");
    assert_eq!(hub.limen(&[&placement[..], &["name"]].concat()).out(), "cluster/a\n");

    let drained = parsed(&hub.limen(&["drain", "b", "--dry-run", "-o", "json"]));
    let expected = json!({"cluster": "b", "dryRun": true, "overSeconds": 0, "backends": 0,
        "already": null, "objections": [], "refused": false});
    assert_eq!(drained, expected);
    assert_eq!(hub.limen(&["drain", "b", "--dry-run", "-o", "name"]).out(), "cluster/b\n");
    assert!(parsed(&hub.limen(&["clusters", "-o", "json"]))["items"][1]["spec"]["drain"].is_null());
}
