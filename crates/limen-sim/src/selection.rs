//! Which clusters a root selects, read from the hub's store by rules of the simulator's own.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::api::{Key, Server, annotation, finalizers, label};
use crate::truth::Fate;

/// The annotation of federation v1 that selects clusters.
pub const SELECTOR: &str = "federation.alpha.kubernetes.io/cluster-selector";

/// The clusters that a root selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// These.
    Clusters(BTreeSet<String>),
    /// Something that decides it cannot be read.
    Unknown,
}

/// Governor of a root.
pub struct Governance {
    /// The policy, if one governs it and can be read.
    pub policy: Option<Value>,
    /// A policy governs it that cannot be read.
    pub unreadable: bool,
    /// The clusters that it selects.
    pub selection: Selection,
    /// What becomes of leaves when it is deleted.
    pub fate: Fate,
    /// Whether it takes over foreign objects of its name in members.
    pub adopts: bool,
}

/// Governor of a root; `last` is the last readable policy that did.
pub fn governance(hub: &Server, key: &Key, object: &Value, last: Option<&Value>) -> Governance {
    let found = policy(hub, key);
    let policy = found.clone().or_else(|| last.cloned());
    let orphaned = finalizers(object).any(|name| name == "orphan");
    let orphan = policy.as_ref().is_some_and(|policy| policy["spec"]["onDelete"] == "Orphan");
    let fate = if orphan || orphaned { Fate::Orphan } else { Fate::Cascade };
    let selection = match (annotation(object, SELECTOR), &policy) {
        (Some(text), _) => by_annotation(hub, text),
        (None, Some(policy)) => by_placement(hub, &policy["spec"]["placement"]),
        (None, None) => Selection::Clusters(clusters(hub, |_| true)),
    };
    let wanted = found.as_ref().and_then(|policy| policy["spec"]["onConflict"].as_str());
    let adopts =
        wanted.map_or(&*key.resource == "ingresses.networking.k8s.io", |wanted| wanted == "Adopt");
    // A policy that cannot be read governs nothing, also if the object itself names its clusters.
    let readable =
        |policy: &Value| by_placement(hub, &policy["spec"]["placement"]) != Selection::Unknown;
    let unreadable = found.as_ref().is_some_and(|policy| !readable(policy));
    let policy = found.filter(|_| selection != Selection::Unknown && !unreadable);
    Governance { policy, unreadable, selection, fate, adopts }
}

/// The first policy by name that governs a root.
pub fn policy(hub: &Server, key: &Key) -> Option<Value> {
    let governs = |policy: &Value| {
        let selectors = policy["spec"]["roots"].as_array();
        selectors.is_none_or(|selectors| {
            selectors.is_empty()
                || selectors.iter().any(|selector| {
                    selector["name"].as_str().is_none_or(|name| name == key.name)
                        && selector["kind"]
                            .as_str()
                            .is_none_or(|kind| plural(kind) == &*key.resource)
                })
        })
    };
    hub.of("placementpolicies.limen.dev")
        .filter(|(policy, _)| policy.namespace == key.namespace && !key.namespace.is_empty())
        .find(|(_, policy)| governs(policy))
        .map(|(_, policy)| policy.clone())
}

/// The resource of a kind that people create.
pub fn plural(kind: &str) -> &'static str {
    match kind {
        "Namespace" => "namespaces",
        "ConfigMap" => "configmaps",
        "Secret" => "secrets",
        "Service" => "services",
        "Ingress" => "ingresses.networking.k8s.io",
        "Deployment" => "deployments.apps",
        "Job" => "jobs.batch",
        "HorizontalPodAutoscaler" => "horizontalpodautoscalers.autoscaling",
        crate::people::TWIN => crate::people::TWIN_RESOURCE,
        _ => "",
    }
}

/// The clusters of the hub that fit.
fn clusters(hub: &Server, fits: impl Fn(&Value) -> bool) -> BTreeSet<String> {
    let all = hub.of("clusters.limen.dev").filter(|(_, cluster)| fits(cluster));
    all.map(|(key, _)| key.name.clone()).collect()
}

fn by_annotation(hub: &Server, text: &str) -> Selection {
    let Ok(Value::Array(terms)) = serde_json::from_str::<Value>(text) else {
        return Selection::Unknown;
    };
    let known = terms.iter().all(|term| {
        term["key"].is_string()
            && term["values"].is_array()
            && term["operator"].as_str().is_some_and(|name| name.eq_ignore_ascii_case("in"))
    });
    if !known {
        return Selection::Unknown;
    }
    let fits = |cluster: &Value| {
        terms.iter().all(|term| {
            let value = label(cluster, term["key"].as_str().unwrap_or_default());
            let wanted = term["values"].as_array();
            value
                .is_some_and(|value| wanted.is_some_and(|wanted| wanted.iter().any(|w| w == value)))
        })
    };
    Selection::Clusters(clusters(hub, fits))
}

/// The clusters of a placement.
pub fn by_placement(hub: &Server, placement: &Value) -> Selection {
    if let Some(names) = placement["clusters"].as_array() {
        let named =
            |cluster: &Value| names.iter().any(|name| name["name"] == cluster["metadata"]["name"]);
        return Selection::Clusters(clusters(hub, named));
    }
    if !placement.is_object() {
        return Selection::Unknown;
    }
    let selector = &placement["clusterSelector"];
    if selector["matchExpressions"].is_array() {
        return Selection::Unknown;
    }
    let wanted = selector["matchLabels"].as_object();
    let fits = |cluster: &Value| {
        wanted.into_iter().flatten().all(|(name, value)| label(cluster, name) == value.as_str())
    };
    Selection::Clusters(clusters(hub, |cluster| selector.is_object() && fits(cluster)))
}
