//! Every manifest is applied to a hub, with unknown fields refused, as `kubectl apply` does it.

use std::collections::BTreeSet;

use http::Request;
use limen_api::dialect::check_policy;
use limen_api::{PlacementPolicy, TrafficPolicy};
use limen_sync::ObjectApi;
use limen_testbed::ApiServer;
use serde_json::{Value, json};

use crate::pages::{blocks, files, name};

/// The clusters that examples speak of.
const CLUSTERS: [&str; 3] = ["europe", "asia", "america"];

/// A hub that has its definitions and federates nothing.
struct Hub(ApiServer);

impl Hub {
    async fn start() -> Self {
        let server = ApiServer::start().await;
        limen_hub::set_up(&ObjectApi::new(server.client.clone())).await.unwrap();
        Self(server)
    }

    async fn get(&self, path: &str) -> Result<Value, String> {
        let request = Request::get(path).body(Vec::new()).unwrap();
        self.0.client.request(request).await.map_err(|error| error.to_string())
    }

    /// Where objects of this kind are, by what the hub says of itself.
    async fn path(&self, manifest: &Value) -> Result<String, String> {
        let text = |value: &Value, what: &str| {
            value.as_str().map(str::to_owned).ok_or_else(|| format!("it has no {what}"))
        };
        let version = text(&manifest["apiVersion"], "apiVersion")?;
        let kind = text(&manifest["kind"], "kind")?;
        let object = text(&manifest["metadata"]["name"], "metadata.name")?;
        let group = if version.contains('/') { "apis" } else { "api" };
        let served = self.get(&format!("/{group}/{version}")).await?;
        let resources = served["resources"].as_array().cloned().unwrap_or_default();
        let resource = resources
            .iter()
            .find(|one| one["kind"] == kind && !text(&one["name"], "").unwrap().contains('/'))
            .ok_or_else(|| format!("the hub has no kind {kind} in {version}"))?;
        let plural = resource["name"].as_str().unwrap();
        let namespace = manifest["metadata"]["namespace"].as_str();
        match (resource["namespaced"] == true, namespace) {
            (true, namespace) => {
                let namespace = namespace.unwrap_or("default");
                Ok(format!("/{group}/{version}/namespaces/{namespace}/{plural}/{object}"))
            }
            (false, None) => Ok(format!("/{group}/{version}/{plural}/{object}")),
            (false, Some(_)) => Err(format!("a {kind} is in no namespace, and this one says so")),
        }
    }

    async fn apply(&self, manifest: &Value) -> Result<(), String> {
        let path = self.path(manifest).await?;
        let request =
            Request::patch(format!("{path}?fieldManager=reader&fieldValidation=Strict&force=true"))
                .header("content-type", "application/apply-patch+yaml")
                .body(manifest.to_string().into_bytes())
                .unwrap();
        self.0.client.request::<Value>(request).await.map_err(|error| error.to_string())?;
        understood(manifest)
    }

    /// Applies every object of a text.
    async fn apply_all(&self, text: &str) -> Result<usize, String> {
        let manifests = manifests(text)?;
        for manifest in &manifests {
            let name = manifest["metadata"]["name"].as_str().unwrap_or("?");
            self.apply(manifest)
                .await
                .map_err(|error| format!("{} {name}: {error}", manifest["kind"]))?;
        }
        Ok(manifests.len())
    }
}

fn manifests(text: &str) -> Result<Vec<Value>, String> {
    let parts = text.split("\n---").filter(|part| {
        part.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
    });
    parts.map(|part| serde_saphyr::from_str(part).map_err(|error| error.to_string())).collect()
}

/// What the hub says about a policy only after it has taken it.
fn understood(manifest: &Value) -> Result<(), String> {
    let read = |error: serde_json::Error| error.to_string();
    match manifest["kind"].as_str() {
        Some("PlacementPolicy") => {
            let policy: PlacementPolicy = serde_json::from_value(manifest.clone()).map_err(read)?;
            check_policy(&policy).map_err(|error| error.to_string())
        }
        Some("TrafficPolicy") => {
            let policy: TrafficPolicy = serde_json::from_value(manifest.clone()).map_err(read)?;
            policy.spec.policy.check(CLUSTERS.into_iter()).map_err(|error| error.to_string())
        }
        _ => Ok(()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_manifest_in_the_pages_and_examples_is_taken_by_a_hub() {
    let hub = Hub::start().await;
    let shown = blocks().into_iter().filter(|block| block.language == "yaml");
    let shown = shown.filter(|block| block.mark.is_none()).map(|block| (block.place, block.text));
    let kept = files("examples", "yaml").into_iter().filter_map(|path| {
        let text = std::fs::read_to_string(&path).unwrap();
        text.contains("apiVersion:").then(|| (name(&path), text))
    });
    let mut problems = Vec::new();
    let mut kinds = BTreeSet::new();
    for (place, text) in shown.chain(kept) {
        match hub.apply_all(&text).await {
            Ok(0) => problems.push(format!("{place}: there is no object in it")),
            Ok(_) => kinds.extend(
                manifests(&text)
                    .unwrap()
                    .iter()
                    .map(|one| one["kind"].clone())
                    .filter_map(|kind| kind.as_str().map(str::to_owned)),
            ),
            Err(error) => problems.push(format!("{place}: {error}")),
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let missing: Vec<_> = limen_api::crds()
        .into_iter()
        .map(|definition| definition.spec.names.kind)
        .filter(|kind| !kinds.contains(kind))
        .collect();
    assert!(missing.is_empty(), "no page shows an example of {missing:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manifest_that_is_wrong_is_noticed() {
    let hub = Hub::start().await;
    let policy = |spec: Value| {
        json!({"apiVersion": "limen.dev/v1alpha1", "kind": "TrafficPolicy",
            "metadata": {"name": "web"}, "spec": spec})
    };
    for (manifest, reason) in [
        (policy(json!({"wieghts": {}})), "wieghts: field not declared"),
        (policy(json!({"panicPercent": 101})), "panicPercent"),
        (policy(json!({"failover": ["mars"]})), "mars, which has not joined"),
        (
            json!({"apiVersion": "limen.dev/v1alpha1", "kind": "Klaster",
            "metadata": {"name": "a"}}),
            "the hub has no kind Klaster",
        ),
        (json!({"kind": "Ingress", "metadata": {"name": "a"}}), "it has no apiVersion"),
    ] {
        let error = hub.apply(&manifest).await.unwrap_err();
        assert!(error.contains(reason), "{manifest}: {error}");
    }
}
