//! Everything that is known of one member, and which roots a piece of news can concern.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::losses::Losses;
use super::observed::{Key, Node, ObservedIngress, ObservedService, Slice};
use crate::global::{Address, Verdict};
use crate::locality::Locality;

/// Everything that is known of one member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Member {
    /// Where it is.
    pub locality: Locality,
    /// Edges reach its pods directly.
    pub pods_reachable: bool,
    /// The share of its traffic, in percent, that a drain has taken away.
    pub drained_percent: u8,
    /// Whether its API answers.
    pub api: Verdict,
    /// What the edges agree on about its ways in, by address.
    pub edge: HashMap<String, Verdict>,
    /// Which kinds have been listed since the hub started; what has not is not known to be gone.
    listed: BTreeSet<ObservedKind>,
    /// Kinds whose watch fails.
    losses: Losses,
    services: HashMap<Key, ObservedService>,
    slices: HashMap<Key, BTreeMap<String, Slice>>,
    /// The Service of each slice, by the slice.
    slice_of: HashMap<Key, String>,
    ingresses: HashMap<Key, ObservedIngress>,
    nodes: BTreeMap<String, Node>,
}

/// The kinds that are observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObservedKind {
    /// Services.
    Service,
    /// EndpointSlices.
    Slice,
    /// Ingresses.
    Ingress,
    /// Nodes.
    Node,
}

/// What is worth remembering of one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Digest {
    /// Of a Service.
    Service(ObservedService),
    /// Of an EndpointSlice.
    Slice(Slice),
    /// Of an Ingress.
    Ingress(ObservedIngress),
    /// Of a Node.
    Node(Node),
}

/// What a piece of news is about, when it is news at all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Touched {
    /// A Service or its endpoints.
    Service(Key),
    /// An Ingress.
    Ingress(Key),
    /// Nodes, and with them every node port.
    Nodes,
    /// It became known what the member holds.
    Everything,
}

impl ObservedKind {
    /// The name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::Slice => "EndpointSlice",
            Self::Ingress => "Ingress",
            Self::Node => "Node",
        }
    }
}

impl Digest {
    /// What is worth remembering of an object; nothing if it is of no use.
    pub fn of(kind: ObservedKind, object: &Value) -> Option<Self> {
        match kind {
            ObservedKind::Service => Some(Self::Service(ObservedService::of(object))),
            ObservedKind::Slice => Slice::of(object).map(Self::Slice),
            ObservedKind::Ingress => Some(Self::Ingress(ObservedIngress::of(object))),
            ObservedKind::Node => Some(Self::Node(Node::of(object))),
        }
    }

    fn kind(&self) -> ObservedKind {
        match self {
            Self::Service(_) => ObservedKind::Service,
            Self::Slice(_) => ObservedKind::Slice,
            Self::Ingress(_) => ObservedKind::Ingress,
            Self::Node(_) => ObservedKind::Node,
        }
    }
}

impl Member {
    /// Whether it is known what the member holds.
    pub fn complete(&self) -> bool {
        self.listed.len() == 4
    }

    /// All objects of a kind: what is not among them is gone.
    pub fn state(&mut self, kind: ObservedKind, objects: Vec<(Key, Digest)>) -> Vec<Touched> {
        let mut gone: BTreeSet<Key> = match kind {
            ObservedKind::Service => self.services.keys().cloned().collect(),
            ObservedKind::Slice => self.slice_of.keys().cloned().collect(),
            ObservedKind::Ingress => self.ingresses.keys().cloned().collect(),
            ObservedKind::Node => {
                self.nodes.keys().map(|name| (String::new(), name.clone())).collect()
            }
        };
        let mut touched = Vec::new();
        let recovered = self.losses.recover(kind);
        for (key, digest) in objects {
            gone.remove(&key);
            touched.extend(self.changed(key, digest));
        }
        for key in gone {
            touched.extend(self.gone(kind, &key));
        }
        if (self.listed.insert(kind) || recovered) && self.complete() {
            return vec![Touched::Everything];
        }
        touched
    }

    /// The watch of a kind fails. Its objects stay as they were last seen. Returns whether that
    /// changes what counts as stale.
    pub fn lose(&mut self, kind: ObservedKind, now: i64) -> bool {
        self.losses.add(kind, now)
    }

    /// Forgets losses that no report has confirmed for a while. Returns whether that changes what
    /// counts as stale.
    pub fn expire_losses(&mut self, now: i64) -> bool {
        self.losses.expire(now)
    }

    /// The kind whose objects count as stale although the API answers.
    pub fn stale_kind(&self) -> Option<ObservedKind> {
        self.losses.stale().filter(|_| self.api != Verdict::Unhealthy)
    }

    /// An object is new or changed.
    pub fn changed(&mut self, key: Key, digest: Digest) -> Vec<Touched> {
        let recovered = self.losses.recover(digest.kind());
        let mut touched = self.take(key, digest);
        touched.extend(recovered.then_some(Touched::Everything));
        touched
    }

    fn take(&mut self, key: Key, digest: Digest) -> Vec<Touched> {
        match digest {
            Digest::Service(service) => {
                let before = self.services.insert(key.clone(), service);
                match before.as_ref() == self.services.get(&key) {
                    true => Vec::new(),
                    false => vec![Touched::Service(key)],
                }
            }
            Digest::Ingress(ingress) => {
                let before = self.ingresses.insert(key.clone(), ingress);
                match before.as_ref() == self.ingresses.get(&key) {
                    true => Vec::new(),
                    false => vec![Touched::Ingress(key)],
                }
            }
            Digest::Node(node) => {
                let before = self.nodes.insert(key.1.clone(), node);
                match before.as_ref() == self.nodes.get(&key.1) {
                    true => Vec::new(),
                    false => vec![Touched::Nodes],
                }
            }
            Digest::Slice(slice) => self.slice_changed(key, slice),
        }
    }

    fn slice_changed(&mut self, key: Key, slice: Slice) -> Vec<Touched> {
        let service = (key.0.clone(), slice.service.clone());
        let mut touched = Vec::new();
        // A slice may change hands, if its label is edited.
        if self.slice_of.get(&key).is_some_and(|before| *before != slice.service) {
            touched.extend(self.gone(ObservedKind::Slice, &key));
        }
        self.slice_of.insert(key.clone(), slice.service.clone());
        let slices = self.slices.entry(service.clone()).or_default();
        if slices.get(&key.1) != Some(&slice) {
            slices.insert(key.1, slice);
            touched.push(Touched::Service(service));
        }
        touched
    }

    /// An object is gone.
    pub fn gone(&mut self, kind: ObservedKind, key: &Key) -> Vec<Touched> {
        match kind {
            ObservedKind::Service => self
                .services
                .remove(key)
                .map(|_| Touched::Service(key.clone()))
                .into_iter()
                .collect(),
            ObservedKind::Ingress => self
                .ingresses
                .remove(key)
                .map(|_| Touched::Ingress(key.clone()))
                .into_iter()
                .collect(),
            ObservedKind::Node => {
                self.nodes.remove(&key.1).map(|_| Touched::Nodes).into_iter().collect()
            }
            ObservedKind::Slice => {
                let Some(name) = self.slice_of.remove(key) else { return Vec::new() };
                let service = (key.0.clone(), name);
                if let Some(slices) = self.slices.get_mut(&service) {
                    slices.remove(&key.1);
                    if slices.is_empty() {
                        self.slices.remove(&service);
                    }
                }
                vec![Touched::Service(service)]
            }
        }
    }

    pub(super) fn service(&self, key: &Key) -> Option<&ObservedService> {
        self.services.get(key)
    }

    pub(super) fn ingress(&self, key: &Key) -> Option<&ObservedIngress> {
        self.ingresses.get(key)
    }

    /// How many endpoints of a Service are ready. A pod with addresses of both families counts
    /// once.
    pub(super) fn ready_endpoints(&self, service: &Key) -> u32 {
        let count = |v6: bool| {
            let slices = self.slices.get(service).into_iter().flat_map(BTreeMap::values);
            slices.filter(|slice| slice.v6 == v6).map(|slice| slice.ready.len()).sum::<usize>()
        };
        u32::try_from(count(false).max(count(true))).unwrap_or(u32::MAX)
    }

    /// The addresses of ready pods behind a port of a Service.
    pub(super) fn pods(&self, service: &Key, port: &str) -> Vec<Address> {
        let mut found = Vec::new();
        for slice in self.slices.get(service).into_iter().flat_map(BTreeMap::values) {
            let Some(number) = slice.ports.get(port) else { continue };
            found.extend(
                slice.ready.iter().map(|host| Address { host: host.clone(), port: *number }),
            );
        }
        found.sort();
        found.dedup();
        found
    }

    /// A port of every node that is ready.
    pub(super) fn node_ports(&self, port: u16) -> Vec<Address> {
        let mut found: Vec<_> = self
            .nodes
            .values()
            .filter_map(|node| node.address.clone())
            .map(|host| Address { host, port })
            .collect();
        found.sort();
        found.dedup();
        found
    }

    /// What the edges agree on about some addresses: well if one of them answers.
    pub(super) fn edge_verdict(&self, addresses: &[Address]) -> Verdict {
        let mut silent = false;
        if self.edge.is_empty() {
            return Verdict::Unknown;
        }
        for address in addresses {
            match self.edge.get(&reported(address)) {
                Some(Verdict::Healthy) => return Verdict::Healthy,
                Some(Verdict::Unhealthy) => silent = true,
                _ => return Verdict::Unknown,
            }
        }
        if silent { Verdict::Unhealthy } else { Verdict::Unknown }
    }
}

/// An address as edges report it.
fn reported(Address { host, port }: &Address) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}
