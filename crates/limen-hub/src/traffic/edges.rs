//! What edges say, and what follows for people who look at roots and clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use limen_api::{ClusterStatus, Edge, TimedVerdict};
use limen_core::compile::{EdgeLiveness, Key, quorum, reachable, remember};
use limen_core::edge::{EdgeKind, EdgeReport};
use limen_core::federated::ObjectId;
use limen_core::global::Verdict;
use limen_core::serving::GatewayLiveness;
use serde_json::{Value, json};

use super::{RootKind, Traffic, now, root_kind};
use crate::outbox::Record;

/// For so many seconds a way in stays well although no edge speaks of it any more: a gateway that
/// is restarted is no news of the clusters, and every compiled root would be written twice.
const REMEMBERED: i64 = 120;

/// Where clients reach roots, and how members are as edges and endpoints show it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Front {
    /// Names and addresses of the gateways.
    addresses: BTreeSet<String>,
    /// Ingresses that gateways serve, with the host that was made for them.
    roots: Arc<BTreeMap<Key, Option<String>>>,
    /// What people should know of Ingresses.
    troubled: Arc<BTreeMap<Key, String>>,
    /// Whether ways in answer, and whether anything is ready behind them.
    verdicts: BTreeMap<String, (TimedVerdict, TimedVerdict)>,
}

impl Front {
    fn addresses_of(&self, key: &Key) -> Option<Vec<Value>> {
        let host = self.roots.get(key).filter(|_| !self.addresses.is_empty())?;
        let address = |text: &String| match text.parse::<std::net::IpAddr>() {
            Ok(address) => json!({"ip": address}),
            Err(_) => json!({"hostname": text}),
        };
        Some(self.addresses.iter().map(address).chain(host.iter().map(address)).collect())
    }

    /// The status of a root as people shall see it: with gateways, theirs are the addresses.
    pub(crate) fn shown(&self, id: &ObjectId, mut status: Value) -> Value {
        if RootKind::of(&id.kind) == Some(RootKind::Ingress)
            && let Some(addresses) = self.addresses_of(&key(id))
        {
            status["loadBalancer"] = json!({"ingress": addresses});
        }
        status
    }

    /// Why clients of an Ingress are not served, or not as it asks for.
    pub(crate) fn trouble(&self, id: &ObjectId) -> Option<&str> {
        let is_ingress = RootKind::of(&id.kind) == Some(RootKind::Ingress);
        self.troubled.get(&key(id)).filter(|_| is_ingress).map(String::as_str)
    }

    pub(crate) fn same_for(&self, other: &Self, id: &ObjectId) -> bool {
        let key = key(id);
        self.addresses_of(&key) == other.addresses_of(&key) && self.trouble(id) == other.trouble(id)
    }

    /// Adds what edges and endpoints show to the status of a member.
    pub(crate) fn judge(&self, name: &str, status: &mut ClusterStatus) {
        if let (Some((edge, endpoints)), Some(verdicts)) =
            (self.verdicts.get(name), &mut status.verdicts)
        {
            (verdicts.edge, verdicts.endpoints) = (edge.clone(), endpoints.clone());
        }
    }
}

/// A verdict with the time since when it has been so.
fn timed(verdict: Verdict, old: Option<&TimedVerdict>, since: i64) -> TimedVerdict {
    match old.filter(|old| old.verdict == verdict) {
        Some(old) => old.clone(),
        None => TimedVerdict { verdict, since: jiff::Timestamp::from_second(since).ok().map(Time) },
    }
}

fn key(id: &ObjectId) -> Key {
    (id.namespace.clone().unwrap_or_default(), id.name.clone())
}

/// What edges have said lately.
pub(super) fn fresh_reports<'a>(
    edges: &'a BTreeMap<String, Edge>,
    heard: &'a BTreeMap<String, EdgeLiveness>,
    time: i64,
) -> impl Iterator<Item = &'a EdgeReport> {
    let fresh = move |name: &String| heard.get(name).is_some_and(|heard| heard.is_fresh(time));
    edges.iter().filter(move |(name, _)| fresh(name)).filter_map(|(_, edge)| edge.status.as_ref())
}

impl Traffic {
    pub(super) fn edge_changed(&mut self, name: String, edge: Edge) {
        let before = self.edges.get(&name);
        self.publish |= before.is_none_or(|before| before.spec != edge.spec);
        let said = |edge: &Edge| edge.status.as_ref().and_then(|status| status.observed_at);
        if before.is_none_or(|before| said(before) != said(&edge)) {
            let heard = match before {
                None => EdgeLiveness::found(said(&edge), now()),
                Some(_) => EdgeLiveness::again(now()),
            };
            self.heard.insert(name.clone(), heard);
        }
        self.edges.insert(name, edge);
        self.see_who_lives();
    }

    /// Gateways that are about to end, or have not been heard of for long, are not shown to clients,
    /// unless there are no others. To be wrong costs little: such a gateway serves whoever comes,
    /// and others have its part.
    pub(super) fn see_who_lives(&mut self) {
        let time = now();
        let gateways = self.edges.iter().filter(|(_, edge)| edge.spec.kind == EdgeKind::Gateway);
        let stopping = |edge: &Edge| edge.status.as_ref().is_some_and(|status| status.stopping);
        let heard = |name: &str| self.heard.get(name).is_none_or(|heard| heard.is_alive(time));
        let (live, lost): (Vec<_>, Vec<_>) =
            gateways.partition(|(name, edge)| heard(name) && !stopping(edge));
        let gateways = match (live.is_empty(), lost.is_empty()) {
            (false, _) => GatewayLiveness::Alive,
            (true, false) => GatewayLiveness::Silent,
            (true, true) => GatewayLiveness::Unused,
        };
        let names = if live.is_empty() { lost } else { live };
        let names: BTreeSet<String> = names.into_iter().map(|(name, _)| name.clone()).collect();
        if names != self.live {
            self.live = names;
            self.publish = true;
        }
        if gateways != self.gateways {
            self.gateways = gateways;
            self.all_dirty();
        }
    }

    /// Looks at what the edges say: a verdict changes only after several equal looks.
    pub(super) fn judge_edges(&mut self) {
        self.see_who_lives();
        let time = now();
        let reports = fresh_reports(&self.edges, &self.heard, time);
        let mut judged = quorum(&self.judged, reports, time);
        remember(&self.judged, &mut judged, &mut self.unspoken, REMEMBERED, time);
        let verdict_of = |all: &BTreeMap<_, limen_core::health::Judged>, way| {
            all.get(way).map(|judged: &limen_core::health::Judged| judged.verdict)
        };
        let mut changed: BTreeSet<String> = BTreeSet::new();
        for way in self.judged.keys().chain(judged.keys()) {
            if verdict_of(&self.judged, way) != verdict_of(&judged, way) {
                changed.insert(way.0.clone());
            }
        }
        self.judged = judged;
        if changed.is_empty() {
            return;
        }
        self.publish = true;
        for cluster in &changed {
            let Some(member) = self.members.get_mut(cluster.as_str()) else { continue };
            let here = self.judged.iter().filter(|((name, _), _)| name == cluster);
            member.edge =
                here.map(|((_, address), judged)| (address.clone(), judged.verdict)).collect();
        }
        let concerned = self.roots.iter().filter(|(_, known)| {
            let backends = known.compiled.iter().flat_map(|global| &global.backends);
            backends.flat_map(|backend| &backend.targets).any(|at| changed.contains(&at.cluster))
        });
        let concerned: Vec<_> = concerned.map(|(id, _)| id.clone()).collect();
        self.dirty.extend(concerned);
    }

    /// The front, if it has changed since it was last asked for and nothing is dirty.
    pub(super) fn publish_front(&mut self) -> Option<Arc<Front>> {
        if !self.dirty.is_empty() || !std::mem::take(&mut self.publish) {
            return None;
        }
        let before = self.front.clone();
        let live = self.live.iter().filter_map(|name| self.edges.get(name));
        let addresses: BTreeSet<_> = live.flat_map(|edge| edge.spec.addresses.clone()).collect();
        if addresses != before.addresses {
            let listed = self.roots.keys().filter(|id| root_kind(id) == RootKind::FederatedIngress);
            listed.for_each(|id| self.records.push(Record::Route(id.clone())));
        }
        let verdicts = self.clusters.keys().map(|name| {
            let old = before.verdicts.get(&**name).cloned().or_else(|| self.written_verdicts(name));
            let edge = reachable(&self.judged, name);
            let edge = timed(edge.verdict, old.as_ref().map(|old| &old.0), edge.since);
            let ready = self.endpoints.verdict(name);
            let ready = timed(ready, old.as_ref().map(|old| &old.1), now());
            (name.to_string(), (edge, ready))
        });
        let front = Arc::new(Front {
            addresses,
            roots: self.served.clone(),
            troubled: self.troubled.clone(),
            verdicts: verdicts.collect(),
        });
        if *front == *before {
            return None;
        }
        self.front = front.clone();
        Some(front)
    }

    /// The verdicts that were written last, perhaps by a hub before this one.
    fn written_verdicts(&self, name: &str) -> Option<(TimedVerdict, TimedVerdict)> {
        let verdicts = self.clusters.get(name)?.status.as_ref()?.verdicts.clone()?;
        Some((verdicts.edge, verdicts.endpoints))
    }

    /// Where clients reach what gateways serve.
    pub(super) fn gateway_addresses(&self) -> BTreeSet<String> {
        self.front.addresses.clone()
    }
}
