//! The objects that people write.

use serde_json::{Value, json};

use crate::hub::endpoint;
use crate::scenario::Placement;

/// A kind that shares its name with a kind of the core group, as the simulator calls it.
pub const TWIN: &str = "Service.serving.knative.dev";

/// The resource of that kind.
pub const TWIN_RESOURCE: &str = "services.serving.knative.dev";

/// API version of a kind that people write.
fn api_version(kind: &str) -> &'static str {
    match kind {
        "Ingress" => "networking.k8s.io/v1",
        "Deployment" => "apps/v1",
        "Job" => "batch/v1",
        "HorizontalPodAutoscaler" => "autoscaling/v2",
        TWIN => "serving.knative.dev/v1",
        _ => "v1",
    }
}

/// An object of a kind; each revision differs. Every third revision of a Deployment has an image
/// that never becomes available.
pub fn object(kind: &str, namespace: &str, name: &str, revision: u32) -> Value {
    let mut object = json!({"apiVersion": api_version(kind), "kind": kind.split('.').next(), "metadata": {"name": name}});
    if kind != "Namespace" {
        object["metadata"]["namespace"] = json!(namespace);
    }
    match kind {
        "ConfigMap" => object["data"] = json!({"revision": revision.to_string()}),
        "Secret" => {
            object["type"] = json!("Opaque");
            object["data"] = json!({"revision": "MQ==".repeat(1 + revision as usize % 3)});
        }
        "Service" => {
            object["spec"] = json!({"selector": {"app": name, "revision": revision.to_string()},
                "ports": [{"port": 80}]});
        }
        TWIN => object["spec"] = json!({"template": {"revision": revision.to_string()}}),
        "Ingress" => {
            object["spec"] = json!({"rules": [{"host": format!("r{revision}.example.com")}]});
        }
        "Deployment" => {
            let quality = if revision % 3 == 2 { "bad" } else { "good" };
            object["spec"] = json!({"replicas": 4, "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [
                    {"name": "app", "image": format!("app:{quality}-{revision}")}]}}});
        }
        "Job" => {
            object["spec"] = json!({"template": {"spec": {"containers": [
                {"name": "job", "image": format!("job:{revision}")}], "restartPolicy": "Never"}}});
            if revision % 2 == 1 {
                object["spec"]["ttlSecondsAfterFinished"] = json!(30);
            }
        }
        "HorizontalPodAutoscaler" => {
            object["spec"] = json!({"minReplicas": 2, "maxReplicas": 5 + revision,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}});
        }
        _ => {}
    }
    object
}

/// The type that federates the kind that shares its name with another.
pub fn federated_type() -> Value {
    json!({"apiVersion": "limen.dev/v1alpha1", "kind": "FederatedType",
        "metadata": {"name": TWIN_RESOURCE},
        "spec": {"apiVersion": api_version(TWIN), "kind": "Service", "plural": "services",
            "scope": "Namespaced"}})
}

/// A policy.
pub fn policy(
    namespace: &str,
    name: &str,
    placement: &Placement,
    orphan: bool,
    conflict: Option<&str>,
    waves: &[Vec<String>],
) -> Value {
    let named = |names: &[String]| {
        let names: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"clusters": names})
    };
    let placement = match placement {
        Placement::Everywhere => json!({"clusterSelector": {}}),
        Placement::Only(names) => named(names),
        Placement::Region(region) => {
            json!({"clusterSelector": {"matchLabels": {"region": region}}})
        }
        Placement::Malformed => json!("everywhere"),
        Placement::Broken => json!({"clusterSelector": {"matchExpressions": [
            {"key": "region", "operator": "Resembles", "values": ["eu"]}]}}),
    };
    let mut spec =
        json!({"placement": placement, "onDelete": if orphan { "Orphan" } else { "Cascade" }});
    if let Some(conflict) = conflict {
        spec["onConflict"] = json!(conflict);
    }
    if !waves.is_empty() {
        let waves: Vec<_> = waves.iter().map(|wave| named(wave)).collect();
        spec["rollout"] = json!({"waves": waves});
    }
    json!({"apiVersion": "limen.dev/v1alpha1", "kind": "PlacementPolicy",
        "metadata": {"namespace": namespace, "name": name}, "spec": spec})
}

/// A Cluster that leads to an API.
pub fn cluster(name: &str, server: &str, uid: &str) -> Value {
    json!({"apiVersion": "limen.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name, "labels": {"region": name}},
        "spec": {"endpoint": endpoint(server), "credentials": {"name": format!("cluster-{name}")},
            "mode": "Push", "uid": uid}})
}

/// The Secret with the credential of a Cluster.
pub fn credential(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"namespace": "limen-system", "name": format!("cluster-{name}")},
        "data": {"token": "c2ltdWxhdGVk"}})
}
