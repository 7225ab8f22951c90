//! What the page shows, from the objects of the hub.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use limen_api::{Cluster, Edge, FederatedStatus, GlobalIngress, TrafficPolicy};
use limen_core::compile::Progress;
use limen_core::edge::{Demand, EdgeKind, Sent};
use limen_core::global::{Split, Target, Verdict};
use limen_core::locality::Coordinates;
use serde::Serialize;

use crate::clients::{ClientRegion, client_regions};
use crate::leaves::{Spreads, spreads};
use crate::timeline::{Happening, happenings};

/// An edge that has said nothing for so many seconds is shown as away.
const EDGE_SILENT_AFTER: i64 = 30;

/// The objects that a view is made of.
#[derive(Default)]
pub struct Objects {
    /// The members.
    pub clusters: Vec<Cluster>,
    /// The gateways and DNS servers.
    pub edges: Vec<Edge>,
    /// The compiled roots.
    pub globals: Vec<GlobalIngress>,
    /// How traffic to roots is to be shared.
    pub policies: Vec<TrafficPolicy>,
    /// What the hub keeps of roots and their leaves.
    pub records: Vec<FederatedStatus>,
    /// What happened.
    pub events: Vec<Event>,
}

/// What the page shows.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    clusters: Vec<Member>,
    edges: Vec<EdgeView>,
    flows: Vec<Flow>,
    /// Where clients are sent for the root that has most traffic.
    clients: Vec<ClientRegion>,
    roots: Vec<Root>,
    leaves: Spreads,
    events: Vec<Happening>,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    name: String,
    region: Option<String>,
    zone: Option<String>,
    coordinates: Option<Coordinates>,
    version: Option<String>,
    leaves: usize,
    draining: bool,
    api: Verdict,
    edge: Verdict,
    endpoints: Verdict,
    /// Why it is not well.
    trouble: Option<String>,
    traffic: Traffic,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct EdgeView {
    name: String,
    kind: EdgeKind,
    region: Option<String>,
    coordinates: Option<Coordinates>,
    addresses: Vec<String>,
    silent: bool,
    traffic: Traffic,
}

/// What one edge sends to one member.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Flow {
    edge: String,
    cluster: String,
    traffic: Traffic,
}

/// Requests in a second, and how they went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Traffic {
    rate: f64,
    success_percent: Option<f64>,
    p99_milliseconds: Option<f64>,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Root {
    namespace: String,
    name: String,
    kind: String,
    hosts: Vec<String>,
    split: Option<Split>,
    /// How far the canary of its policy is.
    canary: Option<Progress>,
    backends: Vec<BackendView>,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct BackendView {
    name: String,
    targets: Vec<TargetView>,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct TargetView {
    cluster: String,
    group: Option<String>,
    ready_endpoints: Option<u32>,
    capacity: Option<f64>,
    drained_percent: u8,
    api: Verdict,
    edge: Verdict,
    endpoints: Verdict,
    traffic: Traffic,
}

impl Traffic {
    /// This and that together. Success is weighed by requests; the slower is the p99.
    fn and(self, more: &Sent) -> Self {
        let rate = self.rate + more.requests_per_second;
        let success_percent = match (self.success_percent, more.success_percent) {
            (Some(one), Some(other)) if rate > 0.0 => {
                Some((one * self.rate + other * more.requests_per_second) / rate)
            }
            (one, other) => one.or(other),
        };
        let p99_milliseconds = match (self.p99_milliseconds, more.p99_milliseconds) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        };
        Self { rate, success_percent, p99_milliseconds }
    }

    fn of<'a>(sent: impl Iterator<Item = &'a Sent>) -> Self {
        sent.fold(Self::default(), Self::and)
    }
}

impl View {
    /// What to show at `now`, in seconds since 1970. The order of the objects does not matter.
    pub fn new(objects: &Objects, now: i64) -> Self {
        let reports: Vec<(&Edge, &[Demand], bool)> = objects
            .edges
            .iter()
            .map(|edge| {
                let report = edge.status.as_ref();
                let heard = report.and_then(|report| report.observed_at).unwrap_or_default();
                let silent = now - heard > EDGE_SILENT_AFTER;
                // What a silent edge said last is not what it does now.
                let demand = report.filter(|_| !silent).map_or(&[][..], |report| &report.demand);
                (edge, demand, silent)
            })
            .collect();
        let sent = || reports.iter().flat_map(|(_, demand, _)| demand.iter());

        let mut clusters: Vec<Member> = objects
            .clusters
            .iter()
            .map(|cluster| {
                let to = |sent: &&Sent| sent.cluster == cluster.name_any();
                Member::new(cluster, Traffic::of(sent().flat_map(|of| &of.clusters).filter(to)))
            })
            .collect();
        clusters.sort_by(|one, other| one.name.cmp(&other.name));
        let mut edges: Vec<EdgeView> = reports
            .iter()
            .map(|(edge, demand, silent)| EdgeView::new(edge, demand, *silent))
            .collect();
        edges.sort_by(|one, other| one.name.cmp(&other.name));
        let mut roots: Vec<Root> =
            objects.globals.iter().map(|one| Root::new(one, &objects.policies, &sent())).collect();
        roots.sort_by(|one, other| {
            (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name))
        });
        let flows = reports.iter().flat_map(|(edge, demand, _)| flows(edge, demand)).collect();
        let events = happenings(&objects.events, &objects.clusters);
        let clients = client_regions(&objects.clusters, busiest(&objects.globals, &sent()));
        let leaves = spreads(&objects.records);
        Self { clusters, edges, flows, clients, roots, leaves, events }
    }
}

/// The root that has most traffic; of those that have the same, the first by name.
fn busiest<'a, 'b>(
    globals: &'a [GlobalIngress],
    demand: &(impl Iterator<Item = &'b Demand> + Clone),
) -> Option<&'a GlobalIngress> {
    let id = |global: &GlobalIngress| {
        format!("{}/{}", global.namespace().unwrap_or_default(), global.name_any())
    };
    let rate = |id: &str| -> f64 {
        let of = demand.clone().filter(|of| of.global_ingress == *id);
        of.map(|of| of.requests_per_second).sum()
    };
    let ranked = globals.iter().map(|global| (id(global), global));
    let ranked = ranked.map(|(id, global)| (rate(&id), id, global));
    ranked
        .max_by(|one, other| one.0.total_cmp(&other.0).then_with(|| other.1.cmp(&one.1)))
        .map(|(_, _, global)| global)
}

impl Member {
    fn new(cluster: &Cluster, traffic: Traffic) -> Self {
        let status = cluster.status.clone().unwrap_or_default();
        let verdicts = status.verdicts.unwrap_or_default();
        let trouble = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Ready" && condition.status != "True")
            .map(|condition| condition.message.clone());
        Self {
            name: cluster.name_any(),
            region: status.region.or_else(|| cluster.spec.region.clone()),
            zone: status.zone.or_else(|| cluster.spec.zone.clone()),
            coordinates: cluster.spec.coordinates,
            version: status.version,
            leaves: status.leaves,
            draining: cluster.spec.drain,
            api: verdicts.api.verdict,
            edge: verdicts.edge.verdict,
            endpoints: verdicts.endpoints.verdict,
            trouble,
            traffic,
        }
    }
}

impl EdgeView {
    fn new(edge: &Edge, demand: &[Demand], silent: bool) -> Self {
        Self {
            name: edge.name_any(),
            kind: edge.spec.kind,
            region: edge.spec.locality.region.clone(),
            coordinates: edge.spec.locality.coordinates,
            addresses: edge.spec.addresses.clone(),
            silent,
            traffic: Traffic::of(demand.iter().flat_map(|of| &of.clusters)),
        }
    }
}

fn flows(edge: &Edge, demand: &[Demand]) -> Vec<Flow> {
    let mut sums: BTreeMap<&str, Traffic> = BTreeMap::new();
    for sent in demand.iter().flat_map(|of| &of.clusters) {
        let sum = sums.entry(&sent.cluster).or_default();
        *sum = sum.and(sent);
    }
    let flow = |(cluster, traffic): (&str, Traffic)| Flow {
        edge: edge.name_any(),
        cluster: cluster.to_owned(),
        traffic,
    };
    sums.into_iter().map(flow).collect()
}

impl Root {
    fn new<'a>(
        global: &GlobalIngress,
        policies: &[TrafficPolicy],
        demand: &(impl Iterator<Item = &'a Demand> + Clone),
    ) -> Self {
        let namespace = global.namespace().unwrap_or_default();
        let id = format!("{namespace}/{}", global.name_any());
        let spec = &global.spec.global;
        let backends = spec
            .backends
            .iter()
            .map(|backend| {
                let sent = demand
                    .clone()
                    .filter(|of| of.global_ingress == id && of.backend == backend.name)
                    .flat_map(|of| &of.clusters);
                let target = |target: &Target| TargetView::new(target, sent.clone());
                let targets = backend.targets.iter().map(target).collect();
                BackendView { name: backend.name.clone(), targets }
            })
            .collect();
        let hosts = spec.rules.iter().map(|rule| rule.host.clone()).collect();
        Self {
            namespace,
            name: global.name_any(),
            kind: spec.root.as_ref().map_or_else(String::new, |root| root.kind.clone()),
            hosts,
            split: spec.traffic.split.clone(),
            canary: canary(global, policies),
            backends,
        }
    }
}

/// How far the canary of a root's own policy is.
fn canary(global: &GlobalIngress, policies: &[TrafficPolicy]) -> Option<Progress> {
    let root = global.spec.global.root.as_ref()?;
    let of = |policy: &&TrafficPolicy| {
        let target = policy.spec.policy.target_ref.as_ref();
        policy.namespace() == global.namespace()
            && target.is_some_and(|target| target.kind == root.kind && target.name == root.name)
    };
    let mut own = policies.iter().filter(of).filter_map(|policy| policy.status.as_ref());
    own.find_map(|status| status.canary.clone())
}

impl TargetView {
    fn new<'a>(target: &Target, sent: impl Iterator<Item = &'a Sent>) -> Self {
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
            traffic: Traffic::of(sent.filter(to)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn edge(name: &str, observed_at: i64, rate: f64, success: f64) -> Edge {
        object(json!({
            "apiVersion": "limen.dev/v1alpha1", "kind": "Edge", "metadata": {"name": name},
            "spec": {"kind": "Gateway", "region": "asia"},
            "status": {"observedAt": observed_at, "demand": [{
                "globalIngress": "shop/web", "backend": "web:80", "requestsPerSecond": rate,
                "clusters": [{"cluster": "one", "requestsPerSecond": rate, "successPercent": success,
                              "p99Milliseconds": rate}],
            }]},
        }))
    }

    fn objects() -> Objects {
        let cluster: Cluster = object(json!({
            "apiVersion": "limen.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "one"},
            "spec": {"region": "asia", "coordinates": {"latitude": 24.0, "longitude": 121.0}},
        }));
        let global: GlobalIngress = object(json!({
            "apiVersion": "limen.dev/v1alpha1", "kind": "GlobalIngress",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "rules": [{"host": "shop.example", "paths": []}],
                "backends": [{"name": "web:80", "targets": [{"cluster": "one"}, {"cluster": "two"}]}],
            },
        }));
        Objects {
            clusters: vec![cluster],
            edges: vec![edge("a", 1000, 30.0, 100.0), edge("b", 1000, 10.0, 60.0)],
            globals: vec![global],
            ..Objects::default()
        }
    }

    #[test]
    fn traffic_of_all_edges_adds_up_and_success_is_weighed() {
        let view = View::new(&objects(), 1005);
        let expected =
            Traffic { rate: 40.0, success_percent: Some(90.0), p99_milliseconds: Some(30.0) };
        assert_eq!(view.clusters[0].traffic, expected);
        assert_eq!(view.roots[0].backends[0].targets[0].traffic, expected);
        assert_eq!(view.roots[0].backends[0].targets[1].traffic, Traffic::default());
        assert_eq!(view.flows.len(), 2);
    }

    #[test]
    fn an_edge_that_is_silent_sends_nothing() {
        let view = View::new(&objects(), 1000 + EDGE_SILENT_AFTER + 1);
        assert!(view.edges.iter().all(|edge| edge.silent));
        assert_eq!(view.clusters[0].traffic, Traffic::default());
        assert!(view.flows.is_empty());
    }

    #[test]
    fn a_root_shows_how_far_its_own_canary_is() {
        let mut objects = objects();
        let policy = |name: &str, root: &str| -> TrafficPolicy {
            object(json!({
                "apiVersion": "limen.dev/v1alpha1", "kind": "TrafficPolicy",
                "metadata": {"name": name, "namespace": "shop"},
                "spec": {"targetRef": {"kind": "Ingress", "name": root}},
                "status": {"canary": {"phase": "Watching", "step": 0, "percent": 20, "since": 1}}}))
        };
        objects.policies = vec![policy("other", "other"), policy("web", "web")];
        let shown = |objects: &Objects| {
            View::new(objects, 1005).roots[0].canary.as_ref().map(|canary| canary.percent)
        };
        assert_eq!(shown(&objects), None, "it was not made from a root");
        objects.globals[0].spec.global.root = Some(object(
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "web"}),
        ));
        assert_eq!(shown(&objects), Some(20));
    }

    #[test]
    fn the_order_of_objects_does_not_matter() {
        let mut other = objects();
        other.edges.reverse();
        let names =
            |view: &View| view.edges.iter().map(|edge| edge.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&View::new(&objects(), 1000)), names(&View::new(&other, 1000)));
    }
}
