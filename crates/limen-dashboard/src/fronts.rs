//! The front doors: each root with its backends, and what of the traffic each target has.

use std::collections::HashMap;

use kube::ResourceExt;
use limen_api::{GlobalIngress, TrafficPolicy};
use limen_core::compile::Progress;
use limen_core::edge::{Demand, Sent};
use limen_core::global::{Split, Target, Verdict};
use serde::Serialize;

use crate::traffic::Traffic;

/// So many roots are shown.
const MOST: usize = 200;

/// Roots that clients come in by.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Fronts {
    /// Those that clients want most, by name.
    pub(crate) shown: Vec<Root>,
    /// How many there are besides.
    more: usize,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Root {
    namespace: String,
    name: String,
    kind: String,
    hosts: Vec<String>,
    split: Option<Split>,
    /// How far the canary of its policy is.
    pub(crate) canary: Option<Progress>,
    pub(crate) backends: Vec<BackendView>,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BackendView {
    name: String,
    pub(crate) targets: Vec<TargetView>,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TargetView {
    cluster: String,
    group: Option<String>,
    ready_endpoints: Option<u32>,
    capacity: Option<f64>,
    drained_percent: u8,
    api: Verdict,
    edge: Verdict,
    endpoints: Verdict,
    pub(crate) traffic: Traffic,
}

/// What all edges say of roots and their backends, found by name.
#[derive(Default)]
struct Wanted<'a> {
    rates: HashMap<&'a str, f64>,
    sent: HashMap<(&'a str, &'a str), Vec<&'a Sent>>,
}

impl<'a> Wanted<'a> {
    fn new(demand: impl Iterator<Item = &'a Demand>) -> Self {
        let mut wanted = Self::default();
        for of in demand {
            *wanted.rates.entry(&of.global_ingress).or_default() += of.requests_per_second;
            let sent = wanted.sent.entry((&of.global_ingress, &of.backend)).or_default();
            sent.extend(&of.clusters);
        }
        wanted
    }
}

/// How far canaries are, by the namespace, kind and name of the root that their policy is for.
type Canaries<'a> = HashMap<(Option<&'a str>, &'a str, &'a str), &'a Progress>;

fn canaries<'a>(policies: &[&'a TrafficPolicy]) -> Canaries<'a> {
    let mut found = Canaries::new();
    for policy in policies {
        let canary = policy.status.as_ref().and_then(|status| status.canary.as_ref());
        if let (Some(target), Some(canary)) = (&policy.spec.policy.target_ref, canary) {
            let namespace = policy.metadata.namespace.as_deref();
            found.entry((namespace, &target.kind, &target.name)).or_insert(canary);
        }
    }
    found
}

/// The roots, and the one of them that clients want most; of those that they want alike, the first
/// by name.
pub(crate) fn fronts<'a, 'b>(
    globals: &[&'a GlobalIngress],
    policies: &[&TrafficPolicy],
    demand: impl Iterator<Item = &'b Demand>,
) -> (Fronts, Option<&'a GlobalIngress>) {
    let (wanted, canaries) = (Wanted::new(demand), canaries(policies));
    let mut ranked: Vec<(f64, String, &GlobalIngress)> = globals
        .iter()
        .map(|global| {
            let id = format!("{}/{}", global.namespace().unwrap_or_default(), global.name_any());
            (wanted.rates.get(id.as_str()).copied().unwrap_or_default(), id, *global)
        })
        .collect();
    ranked.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    let busiest = ranked.first().map(|(_, _, global)| *global);
    let more = ranked.len().saturating_sub(MOST);
    let shown = ranked.iter().take(MOST);
    let mut shown: Vec<Root> =
        shown.map(|(_, id, global)| Root::new(id, global, &canaries, &wanted)).collect();
    shown.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    (Fronts { shown, more }, busiest)
}

impl Root {
    fn new(id: &str, global: &GlobalIngress, canaries: &Canaries<'_>, wanted: &Wanted<'_>) -> Self {
        let spec = &global.spec.global;
        let backends = spec.backends.iter().map(|backend| {
            let sent = wanted.sent.get(&(id, backend.name.as_str())).map_or(&[][..], Vec::as_slice);
            let targets = backend.targets.iter().map(|target| TargetView::new(target, sent));
            BackendView { name: backend.name.clone(), targets: targets.collect() }
        });
        let namespace = global.metadata.namespace.as_deref();
        let canary = spec.root.as_ref().and_then(|root| {
            canaries.get(&(namespace, root.kind.as_str(), root.name.as_str())).copied()
        });
        Self {
            namespace: namespace.unwrap_or_default().to_owned(),
            name: global.name_any(),
            kind: spec.root.as_ref().map_or_else(String::new, |root| root.kind.clone()),
            hosts: spec.rules.iter().map(|rule| rule.host.clone()).collect(),
            split: spec.traffic.split.clone(),
            canary: canary.cloned(),
            backends: backends.collect(),
        }
    }
}

impl TargetView {
    fn new(target: &Target, sent: &[&Sent]) -> Self {
        let to = |sent: &&Sent| sent.cluster == target.cluster && sent.group == target.group;
        Self {
            cluster: target.cluster.clone(),
            group: target.group.clone(),
            ready_endpoints: target.ready_endpoints,
            capacity: target.capacity.requests_per_second,
            drained_percent: target.drained_percent,
            api: target.verdicts.api,
            edge: target.verdicts.edge,
            endpoints: target.verdicts.endpoints,
            traffic: Traffic::of(sent.iter().copied().filter(to)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn so_many_are_shown_with_those_that_clients_want_and_the_others_are_counted() {
        let globals: Vec<GlobalIngress> = (0..MOST + 7)
            .map(|number| {
                serde_json::from_value(json!({
                    "apiVersion": "limen.dev/v1alpha1", "kind": "GlobalIngress",
                    "metadata": {"name": format!("r{number:03}"), "namespace": "shop"},
                    "spec": {}}))
                .unwrap()
            })
            .collect();
        let last = format!("r{:03}", MOST + 6);
        let demand: Demand = serde_json::from_value(json!({
            "globalIngress": format!("shop/{last}"), "backend": "web", "requestsPerSecond": 1.0}))
        .unwrap();
        let globals: Vec<&GlobalIngress> = globals.iter().collect();
        let (found, busiest) = fronts(&globals, &[], std::iter::once(&demand));
        assert_eq!((found.shown.len(), found.more), (MOST, 7));
        assert_eq!(busiest.map(ResourceExt::name_any), Some(last.clone()));
        assert!(found.shown.is_sorted_by_key(|root| root.name.clone()));
        assert_eq!(found.shown[MOST - 1].name, last, "it would not be shown by its name");
    }
}
