//! Every root and every member, and the leaves that members shall hold.
//!
//! Events come from the hub's own watches, the syncers, and finished writes. Each makes some roots or
//! members *dirty*; a dirty root is planned anew and its desired leaves are sent, records that are to
//! be written are marked. Nothing here waits for the network.

mod deletion;
mod effects;
mod events;
mod holds;
mod interpret;
mod members;
mod permits;
mod planning;
mod preview;
mod removals;
mod scaling;
#[cfg(test)]
mod tests;
mod tombstones;
mod writes;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use limen_api::PlacementPolicy;
use limen_core::federated::{Kind, ObjectId};
use limen_core::mark::Mark;
use limen_core::placement::Clusters;
use limen_core::selector::Labels;
use limen_sync::{MemberEvent, ObjectApi, Observation};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub(crate) use self::effects::Answer;
use self::holds::Holds;
pub(crate) use self::members::Connected;
use self::permits::Newer;
pub(crate) use self::preview::{Preview, Step};
pub(crate) use self::removals::LEDGER;
use self::removals::LedgerState;
use self::scaling::Scaling;
use self::tombstones::RecentTombstones;
use crate::clusters::Members;
use crate::connect::SecretData;
use crate::hub::HubOptions;
use crate::kinds::{Source, Sources, sources_of};
use crate::outbox::Marks;
use crate::roots::Root;
use crate::traffic::Front;

/// How long records wait for more news before they are written.
const GATHER: Duration = Duration::from_millis(50);
/// How long records of what is under way wait to become records of what is done.
const UNDER_WAY: Duration = Duration::from_millis(300);
/// How long members may take for what was wished before a record says that it is not done.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long members may take, after a start, to be looked at before what was known is replaced.
const FIRST_LOOK: Duration = Duration::from_secs(10);
/// Members are connected and probed first.
const FIRST_RENEWAL: Duration = Duration::from_secs(2);

/// Everything that federating needs: roots, members, and the rules that are in force for them.
pub(crate) struct Federation {
    options: Arc<HubOptions>,
    /// The hub's API, for as long as this hub leads.
    pub(crate) api: ObjectApi,
    hub: String,
    sources: Sources,
    /// Kinds that leaves of some root have, or had: members are watched for them.
    used: BTreeSet<Arc<Kind>>,
    /// Kinds that nobody watches yet.
    pub(crate) to_watch: Vec<Arc<Kind>>,
    /// When everything that the hub holds had been read.
    started: Option<Instant>,
    /// Kinds that are being made ready to be federated.
    effects: JoinSet<()>,
    notices: mpsc::UnboundedSender<MemberEvent>,
    observations: mpsc::Sender<Observation>,

    front: Arc<Front>,
    members: Members,
    /// The labels of members, as planning wants them.
    clusters: Clusters,
    secrets: BTreeMap<String, SecretData>,
    /// A member or a Secret has changed since members were last connected.
    reconnect: bool,
    /// How many connections to members have been made.
    connections: u64,
    namespaces: BTreeMap<String, Labels>,
    policies: BTreeMap<(String, String), PlacementPolicy>,
    /// Placements and overrides of the form in three objects, by their ids.
    parts: BTreeMap<ObjectId, Arc<Value>>,
    roots: BTreeMap<Arc<ObjectId>, Root>,
    /// Which root a leaf belongs to; the first that claims it.
    owners: BTreeMap<ObjectId, Arc<ObjectId>>,
    /// Who else claims a leaf, and may have it when its owner is no root any more.
    rivals: BTreeMap<ObjectId, BTreeSet<Arc<ObjectId>>>,
    scaling: Scaling,
    /// The kind of autoscalers.
    scaler_kind: Arc<Kind>,
    /// Policies that cannot be read, with the error.
    unreadable_policies: BTreeMap<(String, String), String>,
    /// Namespaces that are being deleted, with the number of roots that were in them.
    terminating: BTreeMap<String, usize>,
    /// Kinds that planning depends on and that cannot be read: nothing is planned meanwhile.
    lost_inputs: BTreeSet<Arc<Kind>>,

    dirty: BTreeSet<Arc<ObjectId>>,
    /// Roots that were deleted perhaps unseen.
    unsure: Vec<Arc<ObjectId>>,
    next_renewal: Instant,
    /// Records to be written.
    pub(crate) records: Marks,
    /// What an earlier hub wrote about roots, until roots know it.
    records_before: Option<BTreeMap<ObjectId, Box<str>>>,
    holds: Holds,
    ledger: LedgerState,
    /// The highest revision of the hub's store that was seen.
    revision: u64,
    /// State that members carry and this hub does not have: nothing is written to members.
    newer: Option<Newer>,
    /// The newest mark that a person has decided to overrule.
    resumed: Option<Mark>,
    /// Members whose permit is to be considered.
    permits_due: BTreeSet<Arc<str>>,
    recent_tombstones: RecentTombstones,
}

impl Federation {
    pub(crate) fn new(
        options: Arc<HubOptions>,
        hub: String,
        notices: mpsc::UnboundedSender<MemberEvent>,
        observations: mpsc::Sender<Observation>,
    ) -> Self {
        let mut made = Self {
            api: options.api.clone().with_fence(options.fence.clone()),
            options,
            hub,
            sources: Sources::new(),
            used: BTreeSet::new(),
            to_watch: Vec::new(),
            started: None,
            records_before: None,
            effects: JoinSet::new(),
            notices,
            observations,
            front: Arc::default(),
            members: Members::new(),
            clusters: Clusters::new(),
            secrets: BTreeMap::new(),
            reconnect: true,
            connections: 0,
            namespaces: BTreeMap::new(),
            policies: BTreeMap::new(),
            parts: BTreeMap::new(),
            roots: BTreeMap::new(),
            owners: BTreeMap::new(),
            rivals: BTreeMap::new(),
            scaling: Scaling::default(),
            scaler_kind: limen_api::kind((
                "autoscaling/v2",
                "HorizontalPodAutoscaler",
                "horizontalpodautoscalers",
                true,
            )),
            unreadable_policies: BTreeMap::new(),
            terminating: BTreeMap::new(),
            lost_inputs: BTreeSet::new(),
            dirty: BTreeSet::new(),
            unsure: Vec::new(),
            next_renewal: Instant::now() + FIRST_RENEWAL,
            records: Marks::default(),
            holds: Holds::default(),
            ledger: LedgerState::default(),
            revision: 0,
            newer: None,
            resumed: None,
            permits_due: BTreeSet::new(),
            recent_tombstones: RecentTombstones::default(),
        };
        for row in limen_api::NATIVE {
            made.federate_kind(&limen_api::kind(row));
        }
        made
    }

    /// Whether everything had been read, so that records can be written.
    pub(crate) fn is_started(&self) -> bool {
        self.started.is_some()
    }

    /// When credentials are to be looked at.
    pub(crate) fn next_renewal(&self) -> Option<Instant> {
        self.started.map(|_| self.next_renewal.max(Instant::now() + GATHER))
    }

    /// Kinds whose objects are roots, or parts of roots.
    pub(crate) fn source_kinds(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.sources.keys()
    }

    /// Lets go of every member at once: the hub that leads next decides about them from now on.
    pub(crate) fn let_go(&mut self) {
        self.members.clear();
        self.effects.abort_all();
    }

    /// Starts to federate a kind, in all its forms.
    fn federate_kind(&mut self, leaf: &Arc<Kind>) {
        for (kind, source) in sources_of(leaf) {
            // Kinds of one name in two groups share the names of their other forms: those stay with
            // the kind that had them first.
            if let Entry::Vacant(vacant) = self.sources.entry(kind.clone()) {
                vacant.insert(source);
                self.to_watch.push(kind);
            }
        }
        for member in self.members.values() {
            if let Some(syncer) = &member.syncer {
                syncer.watch(leaf.clone());
            }
        }
    }

    /// Has members watched for a kind that roots have.
    fn use_kind(&mut self, leaf: &Arc<Kind>) {
        if !self.used.contains(leaf) {
            self.used.insert(leaf.clone());
            for syncer in self.members.values().filter_map(|member| member.syncer.as_ref()) {
                syncer.watch(leaf.clone());
            }
        }
    }

    fn leaf_kinds(&self) -> Vec<Arc<Kind>> {
        let native = |(kind, source): (&Arc<Kind>, &Source)| {
            (*source == Source::Native).then(|| kind.clone())
        };
        self.sources.iter().filter_map(native).collect()
    }
}
