//! Events about roots.

use std::sync::Arc;

use limen_core::federated::ObjectId;
use serde_json::{Value, json};

use crate::roots::Draft;

pub(crate) fn event_kind() -> Arc<limen_core::federated::Kind> {
    limen_api::kind(("v1", "Event", "events", true))
}

pub(crate) fn event(id: &ObjectId, object: &Value, draft: &Draft) -> Value {
    let namespace = id.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let now = limen_sync::clock::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let places = match draft.clusters.len() {
        0 => String::new(),
        1 => format!("cluster {}", names(draft)),
        count if count <= 10 => format!("clusters {}", names(draft)),
        count => format!("{count} clusters"),
    };
    // What went well ends with where; what a cluster refused is in its own words.
    let message = match (places.is_empty(), draft.warning) {
        (true, _) => draft.message.clone(),
        (false, true) => format!("{places}: {}", draft.message),
        (false, false) => format!("{} {places}", draft.message),
    };
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"generateName": format!("{}.", id.name), "namespace": namespace},
        "involvedObject": {
            "apiVersion": id.kind.api_version, "kind": id.kind.kind, "name": id.name,
            "namespace": id.namespace, "uid": object["metadata"]["uid"],
            "resourceVersion": object["metadata"]["resourceVersion"]},
        "reason": draft.reason, "message": message,
        "type": if draft.warning { "Warning" } else { "Normal" },
        "source": {"component": "limen"},
        "firstTimestamp": now, "lastTimestamp": now, "count": 1})
}

fn names(draft: &Draft) -> String {
    draft.clusters.iter().map(|name| &**name).collect::<Vec<_>>().join(", ")
}
