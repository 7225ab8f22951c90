//! A real Kubernetes as a member, and kubectl for it and for hubs.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use limen_testbed::{ControlPlane, ControlPlaneBuilder, Detour};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::processes::{ApiServer, eventually, join};

/// The label of leaves that names their hub.
pub(super) const HUB_LABEL: &str = "limen.dev/hub";

/// A member: etcd and kube-apiserver as processes of their own.
pub(super) struct Member {
    pub(super) plane: ControlPlane,
    pub(super) client: Client,
}

impl Member {
    pub(super) async fn start() -> Self {
        Self::build(ControlPlane::builder()).await
    }

    pub(super) async fn build(builder: ControlPlaneBuilder) -> Self {
        let plane = builder.start().await.unwrap();
        let config = limen_testbed::config_of(plane.kubeconfig_path()).await;
        Self { client: Client::try_from(config).unwrap(), plane }
    }

    pub(super) fn config_maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(super) async fn kubectl(&self, arguments: &[&str]) -> String {
        kubectl(self.plane.kubeconfig_path(), arguments, "").await
    }

    /// Lets it in under a name.
    pub(super) fn join(&self, hub: &Path, name: &str) {
        join(hub, name, self.plane.kubeconfig_path());
    }

    /// Lets it in under a name, by way of a detour.
    pub(super) async fn join_by_detour(&self, hub: &Path, name: &str) -> Detour {
        let (detour, kubeconfig) = detour(&self.plane).await;
        join(hub, name, &kubeconfig);
        detour
    }

    /// Waits until a ConfigMap has this value, or is absent.
    pub(super) async fn eventually_has(&self, namespace: &str, name: &str, value: Option<&str>) {
        let maps = self.config_maps(namespace);
        eventually(&format!("ConfigMap {namespace}/{name}"), async || {
            let found = maps.get_opt(name).await;
            let key = |map: ConfigMap| map.data.unwrap_or_default().remove("key");
            let fits = match &found {
                Ok(found) => found.clone().map(key) == value.map(|value| Some(value.to_owned())),
                Err(_) => false,
            };
            (fits, format!("{found:?}"))
        })
        .await;
    }

    /// The names of all leaves of ConfigMaps in a namespace.
    pub(super) async fn leaves(&self, namespace: &str) -> Vec<String> {
        let leaves = kube::api::ListParams::default().labels(HUB_LABEL);
        let found = self.config_maps(namespace).list_metadata(&leaves).await.unwrap();
        found.items.into_iter().filter_map(|map| map.metadata.name).collect()
    }

    /// Waits until a namespace has so many leaves of ConfigMaps.
    pub(super) async fn eventually_has_leaves(&self, namespace: &str, count: usize) {
        eventually(&format!("leaves in {namespace}"), async || {
            let leaves = self.leaves(namespace).await;
            (leaves.len() == count, format!("{leaves:?}"))
        })
        .await;
    }
}

/// A detour to an API, and the kubeconfig that takes it.
pub(super) async fn detour(plane: &ControlPlane) -> (Detour, PathBuf) {
    let port = plane.url().rsplit_once(':').unwrap().1.parse().unwrap();
    let detour = Detour::to(port).await.unwrap();
    let url = format!("https://{}", detour.address());
    let kubeconfig = plane.data_dir().join(format!("kubeconfig-{}", detour.address().port()));
    std::fs::write(&kubeconfig, plane.kubeconfig().replace(plane.url(), &url)).unwrap();
    (detour, kubeconfig)
}

/// Runs kubectl, which must succeed, and returns its output.
pub(super) async fn kubectl(kubeconfig: &Path, arguments: &[&str], input: &str) -> String {
    let mut process = Command::new(limen_testbed::kubectl_binary().await.unwrap())
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .arg("--cache-dir")
        .arg(kubeconfig.with_file_name("kubectl-cache"))
        .args(arguments)
        .env("KUBERC", "off")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    process.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
    let output = process.wait_with_output().await.unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kubectl {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Applies objects to a hub.
pub(super) async fn apply(hub: &Path, objects: &[Value]) {
    kubectl(hub, &["apply", "-f", "-"], &list(objects)).await;
}

/// A manifest of several objects.
pub(super) fn list(objects: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

pub(super) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

pub(super) fn config_map(namespace: &str, name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace}, "data": {"key": value}})
}

pub(super) fn policy(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "limen.dev/v1alpha1", "kind": "PlacementPolicy",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec})
}

/// Waits until `limen status` says so of a ConfigMap.
pub(super) async fn eventually_synced(hub: &ApiServer, namespace: &str, name: &str, synced: &str) {
    eventually(&format!("the status of {namespace}/{name}"), async || {
        let said = hub.limen(&["status", &format!("configmap/{name}"), "-n", namespace]);
        (said.out().contains(&format!("synced {synced}")), said.all())
    })
    .await;
}

/// Waits until `limen holds` lists exactly one hold, and returns it.
pub(super) async fn eventually_held(hub: &ApiServer, roots: u64) -> Value {
    let mut hold = Value::Null;
    eventually(&format!("a hold of {roots} roots"), async || {
        let said = hub.limen(&["holds", "-o", "json"]);
        let listed: Value = serde_json::from_str(&said.out()).unwrap_or_default();
        let holds = listed["items"].as_array().cloned().unwrap_or_default();
        hold = holds.first().cloned().unwrap_or_default();
        let whole = hold["spec"]["rootCount"] == roots;
        (holds.len() == 1 && whole, hub.limen(&["holds"]).all())
    })
    .await;
    hold
}

/// Waits until nothing is held.
pub(super) async fn eventually_nothing_held(hub: &ApiServer) {
    eventually("the holds", async || {
        let said = hub.limen(&["holds"]);
        (said.out() == "Nothing is held.\n", said.all())
    })
    .await;
}
