//! What the page shows, from the objects of the hub.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use limen_api::{Cluster, Edge, FederatedStatus, GlobalIngress, TrafficPolicy};
use limen_core::edge::{Demand, EdgeKind};
use limen_core::global::Verdict;
use limen_core::locality::Coordinates;
use serde::Serialize;

use crate::clients::{ClientRegion, client_regions};
use crate::fronts::{Fronts, fronts};
use crate::leaves::{Spreads, spreads};
use crate::timeline::{Happening, happenings};
use crate::traffic::Traffic;

/// The objects that a view is made of.
#[derive(Default)]
pub struct Objects<'a> {
    /// The members.
    pub clusters: Vec<&'a Cluster>,
    /// The gateways and DNS servers.
    pub edges: Vec<&'a Edge>,
    /// The compiled roots.
    pub globals: Vec<&'a GlobalIngress>,
    /// How traffic to roots is to be shared.
    pub policies: Vec<&'a TrafficPolicy>,
    /// What the hub keeps of roots and their leaves.
    pub records: Vec<&'a FederatedStatus>,
    /// What happened.
    pub events: Vec<&'a Event>,
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
    roots: Fronts,
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

impl View {
    /// What to show at `now`, in seconds since 1970. The order of the objects does not matter.
    pub fn new(objects: &Objects<'_>, now: i64) -> Self {
        let reports: Vec<(&Edge, &[Demand], bool)> = objects
            .edges
            .iter()
            .map(|&edge| {
                let report = edge.status.as_ref();
                let silent = !edge.heard(now).is_fresh(now);
                // What a silent edge said last is not what it does now.
                let demand = report.filter(|_| !silent).map_or(&[][..], |report| &report.demand);
                (edge, demand, silent)
            })
            .collect();
        let sent = || reports.iter().flat_map(|(_, demand, _)| demand.iter());

        let to = by_cluster(sent());
        let member = |cluster: &&Cluster| {
            let traffic = to.get(cluster.name_any().as_str()).copied().unwrap_or_default();
            Member::new(cluster, traffic)
        };
        let mut clusters: Vec<Member> = objects.clusters.iter().map(member).collect();
        clusters.sort_by(|one, other| one.name.cmp(&other.name));
        let mut edges: Vec<EdgeView> = reports
            .iter()
            .map(|(edge, demand, silent)| EdgeView::new(edge, demand, *silent))
            .collect();
        edges.sort_by(|one, other| one.name.cmp(&other.name));
        let (roots, busiest) = fronts(&objects.globals, &objects.policies, sent());
        let flows = reports.iter().flat_map(|(edge, demand, _)| flows(edge, demand)).collect();
        let events = happenings(&objects.events, &objects.clusters);
        let clients = client_regions(&objects.clusters, busiest);
        let leaves = spreads(&objects.records);
        Self { clusters, edges, flows, clients, roots, leaves, events }
    }
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

/// What is sent to each member.
fn by_cluster<'a>(demand: impl Iterator<Item = &'a Demand>) -> BTreeMap<&'a str, Traffic> {
    let mut sums: BTreeMap<&str, Traffic> = BTreeMap::new();
    for sent in demand.flat_map(|of| &of.clusters) {
        let sum = sums.entry(&sent.cluster).or_default();
        *sum = sum.and(sent);
    }
    sums
}

fn flows(edge: &Edge, demand: &[Demand]) -> Vec<Flow> {
    let flow = |(cluster, traffic): (&str, Traffic)| Flow {
        edge: edge.name_any(),
        cluster: cluster.to_owned(),
        traffic,
    };
    by_cluster(demand.iter()).into_iter().map(flow).collect()
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

    /// Objects as somebody has listed them.
    struct Listed {
        clusters: Vec<Cluster>,
        edges: Vec<Edge>,
        globals: Vec<GlobalIngress>,
        policies: Vec<TrafficPolicy>,
    }

    impl Listed {
        fn view(&self, now: i64) -> View {
            let objects = Objects {
                clusters: self.clusters.iter().collect(),
                edges: self.edges.iter().collect(),
                globals: self.globals.iter().collect(),
                policies: self.policies.iter().collect(),
                ..Objects::default()
            };
            View::new(&objects, now)
        }
    }

    fn objects() -> Listed {
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
        Listed {
            clusters: vec![cluster],
            edges: vec![edge("a", 1000, 30.0, 100.0), edge("b", 1000, 10.0, 60.0)],
            globals: vec![global],
            policies: Vec::new(),
        }
    }

    #[test]
    fn traffic_of_all_edges_adds_up_and_success_is_weighed() {
        let view = objects().view(1005);
        let expected =
            Traffic { rate: 40.0, success_percent: Some(90.0), p99_milliseconds: Some(30.0) };
        assert_eq!(view.clusters[0].traffic, expected);
        assert_eq!(view.roots.shown[0].backends[0].targets[0].traffic, expected);
        assert_eq!(view.roots.shown[0].backends[0].targets[1].traffic, Traffic::default());
        assert_eq!(view.flows.len(), 2);
    }

    #[test]
    fn an_edge_that_is_silent_sends_nothing() {
        let view = objects().view(1031);
        assert!(view.edges.iter().all(|edge| edge.silent));
        assert_eq!(view.clusters[0].traffic, Traffic::default());
        assert!(view.flows.is_empty());
    }

    #[test]
    fn the_clock_of_an_edge_does_not_make_it_silent_or_alive() {
        let mut objects = objects();
        let stored = |at: &str| {
            object(json!([{"manager": "gateway", "operation": "Update", "subresource": "status",
                "apiVersion": "limen.dev/v1alpha1", "time": at}]))
        };
        objects.edges = vec![edge("fast", 9999, 1.0, 100.0), edge("slow", 3, 1.0, 100.0)];
        objects.edges[0].metadata.managed_fields = stored("1970-01-01T00:10:00Z");
        objects.edges[1].metadata.managed_fields = stored("1970-01-01T00:16:40Z");
        let silent: Vec<bool> = objects.view(1005).edges.iter().map(|edge| edge.silent).collect();
        assert_eq!(silent, [true, false]);
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
        let shown = |objects: &Listed| {
            let view = objects.view(1005);
            view.roots.shown[0].canary.as_ref().map(|canary| canary.percent)
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
        assert_eq!(names(&objects().view(1000)), names(&other.view(1000)));
    }
}
