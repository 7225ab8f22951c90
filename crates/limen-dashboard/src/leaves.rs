//! Every root with its leaves: where they are, and what is the matter with them.

use kube::ResourceExt;
use limen_api::{FederatedStatus, LeafReport, LeafState};
use serde::Serialize;

/// So many roots are shown.
const MOST: usize = 200;

/// Roots with their leaves.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spreads {
    /// Those that something is the matter with come first.
    shown: Vec<Spread>,
    /// How many there are besides.
    more: usize,
}

/// One root with its leaves.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spread {
    namespace: String,
    kind: String,
    name: String,
    /// How many members hold it as it shall be: `3/5`.
    synced: String,
    message: String,
    /// Something that a person should look at.
    trouble: bool,
    leaves: Vec<Leaf>,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Leaf {
    cluster: String,
    state: LeafState,
    /// This is what was last known.
    stale: bool,
    message: String,
}

/// The roots that the hub keeps records of. Their order does not matter.
pub(crate) fn spreads(records: &[&FederatedStatus]) -> Spreads {
    let mut ranked = records.to_vec();
    ranked.sort_by_key(|record| {
        let (root, namespace) = (&record.spec.root, record.metadata.namespace.as_deref());
        (!troubled(record), namespace, root.kind.as_str(), root.name.as_str())
    });
    let more = ranked.len().saturating_sub(MOST);
    let shown = ranked.into_iter().take(MOST).map(Spread::new).collect();
    Spreads { shown, more }
}

/// Whether a person should look at it.
fn troubled(record: &FederatedStatus) -> bool {
    let bad = |leaf: &LeafReport| {
        matches!(leaf.state, LeafState::Failed | LeafState::Conflict | LeafState::Held)
    };
    record.spec.clusters.iter().any(bad) || !record.spec.message.is_empty()
}

impl Spread {
    fn new(record: &FederatedStatus) -> Self {
        let spec = &record.spec;
        Self {
            namespace: record.namespace().unwrap_or_default(),
            kind: spec.root.kind.clone(),
            name: spec.root.name.clone(),
            synced: spec.synced.clone(),
            message: spec.message.clone(),
            trouble: troubled(record),
            leaves: spec.clusters.iter().map(Leaf::new).collect(),
        }
    }
}

impl Leaf {
    fn new(report: &LeafReport) -> Self {
        let LeafReport { cluster, state, stale, message, .. } = report;
        Self { cluster: cluster.clone(), state: *state, stale: *stale, message: message.clone() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(name: &str, state: &str, message: &str) -> FederatedStatus {
        serde_json::from_value(json!({
            "apiVersion": "limen.dev/v1alpha1", "kind": "FederatedStatus",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {
                "root": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "synced": "1/2", "message": message,
                "clusters": [{"cluster": "asia", "state": "Synced"},
                             {"cluster": "europe", "state": state, "message": message}]}}))
        .unwrap()
    }

    #[test]
    fn roots_with_trouble_come_first() {
        let records = [
            record("a", "Synced", ""),
            record("b", "Waiting", ""),
            record("z", "Conflict", "there is one already"),
        ];
        let found = spreads(&records.iter().collect::<Vec<_>>());
        let names: Vec<(&str, bool)> =
            found.shown.iter().map(|one| (one.name.as_str(), one.trouble)).collect();
        assert_eq!(names, [("z", true), ("a", false), ("b", false)]);
        assert_eq!(found.shown[0].leaves[1].message, "there is one already");
        assert_eq!(found.more, 0);
    }

    #[test]
    fn so_many_are_shown_and_the_others_counted() {
        let records: Vec<_> =
            (0..MOST + 7).map(|number| record(&format!("r{number}"), "Synced", "")).collect();
        let found = spreads(&records.iter().collect::<Vec<_>>());
        assert_eq!((found.shown.len(), found.more), (MOST, 7));
    }
}
