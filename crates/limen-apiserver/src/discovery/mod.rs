//! What the server tells clients about its types.
//!
//! The same rows make both forms: the older one, a document per group and version, and the
//! aggregated one, everything in two documents.

mod rows;

use serde_json::{Value, json};

pub(crate) use rows::{Review, review_types, reviews};

use self::rows::{Row, rows};
use crate::registry::{Types, Version};

/// The media type of the aggregated form, as the answer names it.
pub(crate) const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Whether a client takes the aggregated form.
pub(crate) fn wants_aggregated(accept: &str) -> bool {
    accept.split(',').any(|entry| {
        let has = |wanted: &str| entry.split(';').any(|part| part.trim() == wanted);
        has("application/json")
            && has("as=APIGroupDiscoveryList")
            && has("g=apidiscovery.k8s.io")
            && has("v=v2")
    })
}

/// `/api`
pub(crate) fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// Every group but the core one, with its versions: those of types and those of reviews.
fn named_groups(types: &Types) -> Vec<(String, Vec<String>)> {
    let mut groups: Vec<(String, Vec<String>)> = types
        .groups()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, versions)| {
            (group.to_owned(), versions.iter().map(|version| version.name.clone()).collect())
        })
        .collect();
    for review in reviews() {
        if !groups.iter().any(|(group, _)| group == review.group) {
            groups.push((review.group.to_owned(), vec!["v1".to_owned()]));
        }
    }
    let place = |group: &str| GROUPS.iter().position(|known| *known == group);
    groups.sort_by_key(|(group, _)| place(group).unwrap_or(GROUPS.len()));
    groups
}

/// Clients that look for a kind in all groups take the first that has it, so their order matters:
/// it is that of Kubernetes, with the groups of custom resources after these.
const GROUPS: [&str; 12] = [
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "apiextensions.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
];

/// The paths of `/apis` and all that is below it, down to versions.
pub(crate) fn group_paths(types: &Types) -> Vec<String> {
    let mut paths = vec!["/apis".to_owned(), "/apis/".to_owned()];
    for (group, versions) in named_groups(types) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths
}

fn group_document(group: &str, versions: &[String]) -> Value {
    let version = |version: &String| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    json!({
        "name": group,
        "versions": versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(version),
    })
}

/// `/apis`
pub(crate) fn group_list(types: &Types) -> Value {
    let groups = named_groups(types);
    let groups: Vec<Value> =
        groups.iter().map(|(group, versions)| group_document(group, versions)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`
pub(crate) fn group(types: &Types, wanted: &str) -> Option<Value> {
    let groups = named_groups(types);
    let (group, versions) = groups.iter().find(|(group, _)| group == wanted)?;
    let mut document = group_document(group, versions);
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    Some(document)
}

/// `/api/v1` and `/apis/GROUP/VERSION`
pub(crate) fn resource_list(types: &Types, group: &str, version: &str) -> Option<Value> {
    let rows = all_rows(types, group, version);
    if rows.is_empty() {
        return None;
    }
    let group_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut document = json!({
        "kind": "APIResourceList",
        "groupVersion": group_version,
        "resources": rows.iter().map(Row::resource).collect::<Vec<_>>(),
    });
    if !group.is_empty() {
        document["apiVersion"] = "v1".into();
    }
    Some(document)
}

/// The aggregated form of `/api` (the core group) or `/apis` (the others).
pub(crate) fn aggregated(types: &Types, core: bool) -> Value {
    let groups =
        if core { vec![(String::new(), vec!["v1".to_owned()])] } else { named_groups(types) };
    let items: Vec<Value> = groups
        .iter()
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    json!({
                        "version": version,
                        "resources": rows::aggregated(&all_rows(types, group, version)),
                        "freshness": "Current",
                    })
                })
                .collect();
            let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn all_rows(types: &Types, group: &str, version: &str) -> Vec<Row> {
    let stored = types.version(group, version);
    let mut all: Vec<Row> =
        stored.map(|Version { types, .. }| rows(types.values())).unwrap_or_default();
    if version == "v1" {
        let reviews = reviews().iter().filter(|review| review.group == group);
        all.extend(reviews.map(Review::row));
    }
    all.sort_by(|a, b| a.resource_name().cmp(b.resource_name()));
    all
}
