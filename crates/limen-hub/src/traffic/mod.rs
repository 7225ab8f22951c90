//! From roots, policies and what members hold to `GlobalIngress` objects.
//!
//! An event makes those roots *dirty* that it can concern; a dirty root is compiled anew, and its
//! GlobalIngress is written if it has changed. Nothing is kept that cannot be read again: the last
//! compile is the GlobalIngress itself, and the part of a policy in force is in its status.

mod certificates;
mod compiling;
mod edges;
mod events;
mod host_proofs;
mod members;
mod policies;
mod root_id;
mod serving;
#[cfg(test)]
mod tests;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use limen_api::{Cluster, Edge};
use limen_core::compile::{Claims, EdgeLiveness, EndpointTotals, Key, Members};
use limen_core::federated::ObjectId;
use limen_core::global::Global;
use limen_core::health::Judged;
use limen_core::serving::GatewayLiveness;

pub(crate) use self::edges::Front;
pub(crate) use self::root_id::{RootKind, global_key};

use self::certificates::Certificates;
use self::compiling::RootEntry;
use self::policies::PolicyEntry;
use self::root_id::{root_kind, roots_of};
use crate::effects::host_verification::HostVerification;
use crate::outbox::Marks;

/// Roots that are compiled before anything else is listened to.
const BATCH: usize = 500;

/// A GlobalIngress of the hub's own, as it is on the hub.
struct Written {
    root_uid: String,
    uid: String,
    version: Option<String>,
    global: Arc<Global>,
    conditions: Vec<Condition>,
}

/// Everything that compiling needs, and everything that was compiled.
pub(crate) struct Traffic {
    /// The domain under which roots without a host get one.
    domain: Option<String>,
    /// Every kind that compiling needs has been listed.
    complete: bool,

    members: Members,
    clusters: BTreeMap<Arc<str>, Arc<Cluster>>,
    edges: BTreeMap<String, Edge>,
    /// When each was heard of last.
    heard: BTreeMap<String, EdgeLiveness>,
    /// Gateways whose addresses are shown.
    live: BTreeSet<String>,
    gateways: GatewayLiveness,
    /// What the edges agree on, by cluster and address.
    judged: BTreeMap<(String, String), Judged>,
    /// Since when no edge has spoken of a way in that is still remembered.
    unspoken: BTreeMap<(String, String), i64>,
    front: Arc<Front>,
    /// Something of what is published may have changed.
    publish: bool,
    /// Ingresses that gateways serve, with the host that was made for them.
    served: Arc<BTreeMap<Key, Option<String>>>,
    /// What people should know of Ingresses.
    troubled: Arc<BTreeMap<Key, String>>,
    /// Which clusters have ready endpoints.
    endpoints: EndpointTotals,
    policies: BTreeMap<Key, PolicyEntry>,
    roots: BTreeMap<Arc<ObjectId>, RootEntry>,
    claims: Claims,
    /// Proofs of hosts, where they are asked for.
    verification: Option<HostVerification>,
    /// Roots may need other proofs than before.
    prove: bool,
    /// Roots by the Services, and by the Ingresses, of members that they lead to.
    by_service: BTreeMap<Key, BTreeSet<Arc<ObjectId>>>,
    by_ingress: BTreeMap<Key, BTreeSet<Arc<ObjectId>>>,
    /// What is written, by namespace and name.
    globals: BTreeMap<Key, Written>,
    /// GlobalIngress objects that somebody else wrote: they are left alone.
    foreign: BTreeSet<Key>,

    certificates: Certificates,
    dirty: BTreeSet<Arc<ObjectId>>,
    /// Roots that there will be more to say about, and when.
    odd_until: BTreeSet<(i64, Arc<ObjectId>)>,
    /// Records to be written.
    pub(crate) records: Marks,
}

impl Traffic {
    pub(crate) fn new(domain: Option<String>, verification: Option<HostVerification>) -> Self {
        Self {
            domain,
            complete: false,
            members: Members::new(),
            clusters: BTreeMap::new(),
            edges: BTreeMap::new(),
            heard: BTreeMap::new(),
            live: BTreeSet::new(),
            gateways: GatewayLiveness::default(),
            judged: BTreeMap::new(),
            unspoken: BTreeMap::new(),
            front: Arc::default(),
            publish: true,
            served: Arc::default(),
            troubled: Arc::default(),
            endpoints: EndpointTotals::default(),
            policies: BTreeMap::new(),
            roots: BTreeMap::new(),
            claims: Claims::default(),
            verification,
            prove: false,
            by_service: BTreeMap::new(),
            by_ingress: BTreeMap::new(),
            globals: BTreeMap::new(),
            foreign: BTreeSet::new(),
            certificates: Certificates::default(),
            dirty: BTreeSet::new(),
            odd_until: BTreeSet::new(),
            records: Marks::default(),
        }
    }

    /// All kinds that compiling needs are listed, perhaps not for the first time.
    pub(crate) fn listed(&mut self) {
        self.complete = true;
        // Before anything is compiled: what edges said last is not news.
        self.judge_edges();
        self.judge_policies();
        self.drop_orphans();
        self.look_at_copies();
    }

    /// Compiles some of what is dirty. Returns the front if it has changed.
    pub(crate) fn settle(&mut self) -> Option<Arc<Front>> {
        if !self.complete {
            return None;
        }
        self.look_for_proofs();
        self.compile_dirty();
        self.publish_front()
    }

    /// Whether everything is listed.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether roots wait to be compiled.
    pub(crate) fn is_busy(&self) -> bool {
        self.complete && !self.dirty.is_empty()
    }

    fn all_dirty(&mut self) {
        self.dirty.extend(self.roots.keys().cloned());
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    limen_sync::clock::now_seconds()
}
