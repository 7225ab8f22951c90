//! Members: their clients, and what they tell.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use limen_api::{LeafState, Tombstone};
use limen_core::federated::{Kind, ObjectId, OnDelete};
use limen_core::global::Verdict;
use limen_core::lifecycle::{Reason, Standing};
use limen_core::merge::{is_finite, is_terminal};
use limen_sync::{
    Desired, MemberEvent, MemberNews, ObjectApi, Observation, Report, Syncer, SyncerOptions,
};
use tokio::task::JoinSet;

use super::Federation;
use super::tombstones::{last_desire, leaf_of};
use crate::clusters::{Member, Observer};
use crate::connect::{SecretData, made_from, member_client};
use crate::outbox::Record;
use crate::roots::Root;

/// A client for a member, or why there is none.
pub(crate) struct Connected {
    pub(super) cluster: Arc<str>,
    pub(super) connection: u64,
    pub(super) client: Result<Arc<ObjectApi>, String>,
}

impl Federation {
    /// Does what is due after news: plans what is dirty, connects members that have changed.
    pub(crate) fn settle(&mut self, complete: bool, connections: &mut JoinSet<Connected>) {
        if self.started.is_none() {
            if !complete || self.records_before.is_none() {
                return;
            }
            self.started = Some(Instant::now());
            self.remember_records();
            self.count_terminating();
            // Held leaves are presumed to be there until their members have listed them.
            for root in self.roots.values_mut() {
                let held = self.holds.clusters(root.uid());
                // Leaves that wait because of a deletion were to go with their root.
                let indirect = self.holds.is_indirect(root.uid());
                if !held.is_empty() && !indirect && root.being_deleted() {
                    root.deleting = Some(OnDelete::Cascade);
                }
                root.memory.holders.extend(held);
            }
            self.holds.retain(|uid, id| {
                let known = self.roots.get(id).is_some_and(|root| root.uid() == uid);
                let buried = |stone: &Tombstone| stone.root_uid == uid;
                let buried = |member: &Member| member.tombstones.iter().any(buried);
                known || self.members.values().any(buried)
            });
            self.write_holds();
        }
        if std::mem::take(&mut self.reconnect) {
            self.connect(connections);
        }
        self.plan_dirty();
        self.give_permits();
        self.end_returns();
    }

    /// Makes a client for each member whose address or credential has changed.
    pub(super) fn connect(&mut self, connections: &mut JoinSet<Connected>) {
        for (name, member) in &mut self.members {
            let secret = member
                .cluster
                .spec
                .credentials
                .as_ref()
                .and_then(|credentials| self.secrets.get(&credentials.name));
            let with = made_from(&member.cluster, secret);
            if member.connected_with.as_ref() == Some(&with) {
                continue;
            }
            let (name, cluster) = (name.clone(), member.cluster.clone());
            let secret: Option<SecretData> = secret.cloned();
            let connector = self.options.connector.clone();
            self.connections += 1;
            let connection = self.connections;
            (member.connected_with, member.awaited) = (Some(with), connection);
            connections.spawn(async move {
                let client = match connector {
                    Some(connector) => connector(&cluster, secret.as_ref()),
                    None => member_client(&cluster, secret.as_ref()).await,
                };
                let client = client.map(|client| Arc::new(ObjectApi::new(client)));
                let client = client.map_err(|error| error.to_string());
                Connected { cluster: name, connection, client }
            });
        }
    }

    pub(crate) fn connected(&mut self, made: Connected) {
        let kinds = self.leaf_kinds();
        let desired = |(id, root): (&Arc<ObjectId>, &Root)| {
            Some((self.leaf_of(id), root.desired.get(&made.cluster)?.clone()))
        };
        let desired: Vec<_> = self.roots.iter().filter_map(desired).collect();
        let Some(member) = self.members.get_mut(&made.cluster) else { return };
        // Two may be under way, and the older one may take longer.
        if member.awaited != made.connection {
            return;
        }
        // A new client is a new look at everything: what the old one saw is seen again.
        (member.syncer, member.observer) = (None, None);
        member.connection = made.connection;
        member.client = None;
        member.renewal_error = None;
        member.listed.clear();
        member.relisted.clear();
        member.unowned.clear();
        (member.described, member.identity) = (None, None);
        match made.client {
            Err(error) => member.connect_error = Some(error),
            Ok(client) => {
                member.connect_error = None;
                let options = SyncerOptions {
                    cluster: made.cluster.clone(),
                    connection: made.connection,
                    hub: self.hub.clone(),
                    kinds,
                    probe_every: self.options.probe_every,
                    beat_from: self.started.unwrap_or_else(Instant::now),
                    concurrency: self.options.concurrency,
                    fence: self.options.fence.clone(),
                };
                member.client = Some(client.clone());
                let syncer = Syncer::start((*client).clone(), options, self.notices.clone());
                let observing = limen_sync::observe(
                    (*client).clone(),
                    made.cluster.clone(),
                    made.connection,
                    self.observations.clone(),
                );
                member.observer = Some(Observer::start(observing));
                for kind in &self.used {
                    syncer.watch(kind.clone());
                }
                for (leaf, desired) in desired {
                    syncer.desire(Arc::new(leaf), Some(desired));
                }
                member.syncer = Some(syncer);
            }
        }
        self.record_member(&made.cluster);
        self.all_dirty();
    }

    /// Whether an observation comes from the present connection to its member.
    pub(crate) fn is_present(&self, observation: &Observation) -> bool {
        let member = self.members.get(&observation.cluster);
        member.is_some_and(|member| member.connection == observation.connection)
    }

    pub(crate) fn notice(&mut self, notice: MemberEvent) {
        let cluster = notice.cluster;
        let heard = |member: &Member| member.connection == notice.connection;
        if !self.members.get(&cluster).is_some_and(heard) {
            return;
        }
        match notice.what {
            MemberNews::Leaf(leaf, report) => self.leaf_reported(&cluster, leaf, report),
            MemberNews::Changed(leaf, did) => {
                if let Some(root) = self.root_of(&leaf) {
                    root.did(&cluster, &leaf, &did);
                    self.record_owner(&leaf);
                }
            }
            MemberNews::Failed(leaf, fault) => {
                if let Some(root) = self.root_of(&leaf) {
                    let deleting = matches!(
                        root.desired.get(&cluster).map(|sent| &sent.desired),
                        Some(Desired::Nothing | Desired::Orphan)
                    );
                    let held =
                        root.reports.get(&cluster).is_some_and(|known| known.held_for.is_some());
                    let reason = match (deleting, held) {
                        (true, _) => "DeleteInClusterFailed",
                        (false, true) => "UpdateInClusterFailed",
                        (false, false) => "CreateInClusterFailed",
                    };
                    root.draft(true, reason, fault.message, Some(&cluster));
                    self.record_owner(&leaf);
                }
            }
            MemberNews::Api(verdict) => {
                let Some(member) = self.members.get_mut(&cluster) else { return };
                let was = member.away();
                match verdict.judged.verdict {
                    Verdict::Healthy => {
                        let absence = member.absence(verdict.judged.since);
                        member.returned_after = absence.or(member.returned_after);
                        (member.absent_since, member.unhealthy_from) = (None, None);
                    }
                    Verdict::Unhealthy => {
                        member.unhealthy_from.get_or_insert_with(Instant::now);
                    }
                    Verdict::Unknown => {}
                }
                member.verdict = Some(verdict);
                if member.is_unreachable() {
                    member.identity = None;
                    member.relisted.clear();
                }
                if member.away() != was {
                    self.presence_changed(&cluster);
                }
                self.record_member(&cluster);
            }
            MemberNews::Described(probed) => {
                self.described(&cluster, probed);
            }
            MemberNews::Inventory { leaves, missing } => {
                let Some(member) = self.members.get_mut(&cluster) else { return };
                (member.leaves, member.missing) = (Some(leaves), missing);
                self.record_member(&cluster);
            }
            MemberNews::Listed(kind) => self.kind_listed(&cluster, &kind, true),
            MemberNews::Unserved(kind) => self.kind_listed(&cluster, &kind, false),
            MemberNews::Mark(mark) => self.note_mark(&cluster, mark),
            // The member has been let go of; nothing follows for the hub.
            MemberNews::ClaimReleased => {}
            MemberNews::Claimed(claim) => self.claimed(&cluster, &claim),
            MemberNews::Lost(kind, error) => {
                let Some(member) = self.members.get_mut(&cluster) else { return };
                tracing::warn!(%cluster, kind = kind.kind, error, "cannot watch a kind");
                member.lost.insert(kind.clone());
                let concerned = self.roots.keys().filter(|id| self.leaf_of(id).kind == kind);
                let concerned: Vec<_> = concerned.cloned().collect();
                for id in concerned {
                    self.record_later(&id);
                }
                self.record_member(&cluster);
            }
        }
    }

    /// A member is away or back: what it holds is stale now, or fresh again; deletions may go on.
    pub(super) fn presence_changed(&mut self, cluster: &Arc<str>) {
        let concerned = self.roots.iter().filter(|(_, root)| {
            root.reports.contains_key(cluster)
                || root.desired.contains_key(cluster)
                || root.is_going()
        });
        let concerned: Vec<_> = concerned.map(|(id, _)| id.clone()).collect();
        self.dirty.extend(concerned);
    }

    /// All leaves of a kind that a member holds are known. Leaves of a kind that it does not serve
    /// any more are presumed to come back with it.
    fn kind_listed(&mut self, cluster: &Arc<str>, kind: &Arc<Kind>, served: bool) {
        let Some(member) = self.members.get_mut(cluster) else { return };
        match served {
            true => drop(member.missing.remove(kind)),
            false => drop(member.missing.insert(kind.clone())),
        }
        member.listed.insert(kind.clone());
        member.relisted.insert(kind.clone());
        let regained = member.lost.remove(kind);
        if member.leaving().is_some() {
            self.record_member(cluster);
        }
        self.hold_tombstones(cluster);
        self.obey_tombstones(cluster, kind);
        // Deletions wait until it is certain what the member holds.
        let mut roots = std::mem::take(&mut self.roots);
        for (id, root) in &mut roots {
            let of_kind = *self.leaf_kind(id) == *kind;
            let held = root.reports.get(cluster).is_some_and(|report| report.held_for.is_some());
            let presumed = match served {
                // The listing replaces the presumption.
                true => {
                    let presumed = of_kind && root.memory.holders.remove(cluster);
                    if presumed && !held && is_finite(kind) {
                        // A Job that went while no hub was there may have finished.
                        root.memory.ended_in.insert(cluster.clone());
                    }
                    presumed
                }
                false => of_kind && held && root.memory.holders.insert(cluster.clone()),
            };
            if root.is_going() || presumed || (regained && of_kind) {
                self.dirty.insert(id.clone());
            }
        }
        self.roots = roots;
        if *kind == self.scaler_kind {
            self.all_scaled_dirty();
        }
    }

    fn leaf_reported(&mut self, cluster: &Arc<str>, leaf: Arc<ObjectId>, report: Report) {
        let owner = self.owners.get(&*leaf).cloned();
        let Some((id, root)) = owner.and_then(|id| Some((id.clone(), self.roots.get_mut(&id)?)))
        else {
            return self.unowned_reported(cluster, leaf, report);
        };
        let before = root.is_synced();
        let nothing = report.state.is_none() && report.held_for.is_none();
        let waves = root.federated.as_ref().is_ok_and(|federated| !federated.waves.is_empty());
        let presence = root.reports.get(cluster).is_some_and(|before| before.held_for.is_some());
        let sent = root.desired.get(cluster);
        let wanted = sent.is_some_and(|sent| matches!(sent.desired, Desired::Leaf { .. }));
        let ended = report.status.as_ref().is_some_and(|status| is_terminal(&leaf.kind, status));
        let ended = ended && report.held_for.as_deref() == Some(root.uid());
        // The syncer creates it no more: it went unwatched, and may have finished.
        let went = is_finite(&leaf.kind)
            && report.state == Some(LeafState::Synced)
            && report.held_for.is_none()
            && sent.is_some_and(|sent| matches!(sent.desired, Desired::Leaf { create: true, .. }));
        let ended = (ended || went) && root.memory.ended_in.insert(cluster.clone());
        let is_scaler = leaf.kind == self.scaler_kind;
        let rescaled = is_scaler && presence != report.held_for.is_some();
        // A leaf that came or went unasked, the end of a deletion, and any progress of a wave may
        // change what is wished.
        let of_another = report.held_for.as_deref().is_some_and(|uid| *uid != *root.uid());
        if waves
            || ended
            || of_another
            || root.being_deleted()
            || (presence != report.held_for.is_some() && !wanted)
            || sent.is_none()
            || nothing
        {
            self.dirty.insert(id.clone());
        }
        match nothing {
            true => {
                root.reports.remove(cluster);
                let sent = root.desired.get(cluster);
                if sent.is_some_and(|sent| !matches!(sent.desired, Desired::Leaf { .. })) {
                    root.desired.remove(cluster);
                    let over = |member: &Member| {
                        member.leaving().is_some() || !member.missing.contains(&leaf.kind)
                    };
                    if self.members.get(cluster).is_some_and(over) {
                        root.memory.holders.remove(cluster);
                    }
                }
            }
            false => drop(root.reports.insert(cluster.clone(), report)),
        }
        if rescaled {
            self.scaler_reported(&id);
        }
        let Some(root) = self.roots.get(&id) else { return };
        // What is under way is worth a record only if it takes long; what is done is, at once.
        match (before, root.is_synced()) {
            (false, true) => self.record_now(&id),
            (true, true) => self.record_soon(&id),
            (_, false) => self.record_later(&id),
        }
        let about = |member: &Member| {
            member.leaving().is_some()
                || member.tombstones.iter().any(|tombstone| leaf_of(tombstone) == *leaf)
        };
        if nothing && self.members.get(cluster).is_some_and(about) {
            self.tombstones_obeyed(cluster, &leaf);
        }
    }

    /// Says again what shall become of leaves whose roots are gone, now that it is known what the
    /// member holds. A leaf of another root is none of their business.
    fn obey_tombstones(&self, cluster: &Arc<str>, kind: &Kind) {
        let Some(member) = self.members.get(cluster).filter(|member| !member.away()) else {
            return;
        };
        let Some(syncer) = &member.syncer else { return };
        for tombstone in &member.tombstones {
            let leaf = leaf_of(tombstone);
            let elses = self.owners.contains_key(&leaf) || member.unowned.contains_key(&leaf);
            if *leaf.kind == *kind && !elses && !self.is_held(tombstone, cluster) {
                syncer.desire(Arc::new(leaf), Some(last_desire(tombstone)));
            }
        }
    }

    /// Whether a person has to release a tombstone in a member first.
    pub(super) fn is_held(&self, tombstone: &Tombstone, cluster: &Arc<str>) -> bool {
        let there = BTreeSet::from([cluster.clone()]);
        self.holds.standing(&tombstone.root_uid, &there).holds(cluster)
    }

    /// A member that returns from a long absence with many tombstones is not emptied unasked.
    fn hold_tombstones(&mut self, cluster: &Arc<str>) {
        let Some(member) = self.members.get(cluster) else { return };
        let stones: Vec<_> = member.tombstones.iter().filter(|stone| !stone.release).collect();
        if !member.returned_unjudged() || stones.len() <= self.options.limits.always {
            return;
        }
        let reason = Reason::MemberReturned(cluster.clone());
        let now = limen_sync::clock::now_seconds();
        for stone in stones {
            let there = BTreeSet::from([cluster.clone()]);
            if self.holds.standing(&stone.root_uid, &there) == Standing::default() {
                self.holds.hold(&reason, (&leaf_of(stone), &stone.root_uid), there, now);
            }
        }
        self.write_holds();
    }

    /// Sends what tombstones say that a person has released.
    pub(super) fn obey_released_tombstones(&self) {
        for (name, member) in &self.members {
            for kind in &member.relisted {
                self.obey_tombstones(name, kind);
            }
        }
    }

    /// A leaf of this hub that no root claims: deleted only where a tombstone says so.
    fn unowned_reported(&mut self, cluster: &Arc<str>, leaf: Arc<ObjectId>, report: Report) {
        let Some(member) = self.members.get_mut(cluster) else { return };
        let Some(root_uid) = report.held_for.clone() else {
            member.unowned.remove(&leaf);
            // A creation without an answer may still arrive: only the end of a removal is certain.
            if report.state.is_none() {
                self.tombstones_obeyed(cluster, &leaf);
            }
            return;
        };
        let waits = |stone: &&Tombstone| leaf_of(stone) == *leaf && *stone.root_uid == *root_uid;
        let buried = self.recent_tombstones.of(&root_uid).filter(waits);
        if let Some(tombstone) = member.tombstones.iter().find(waits).or(buried) {
            let there = BTreeSet::from([cluster.clone()]);
            let held = self.holds.standing(&root_uid, &there).holds(cluster);
            if let (None, Some(syncer), false) = (report.state, &member.syncer, held) {
                syncer.desire(leaf, Some(last_desire(tombstone)));
            }
            return;
        }
        member.unowned.insert(leaf, report);
        self.record_member(cluster);
    }

    /// A member holds nothing in the place of a leaf: tombstones for it are obeyed.
    fn tombstones_obeyed(&mut self, cluster: &Arc<str>, leaf: &ObjectId) {
        let Some(member) = self.members.get_mut(cluster) else { return };
        // It may come back with its kind.
        let served = !member.missing.contains(&leaf.kind);
        let is_about = |tombstone: &mut Tombstone| served && leaf_of(tombstone) == *leaf;
        for tombstone in member.tombstones.extract_if(.., is_about) {
            self.holds.leaf_gone(&tombstone.root_uid, cluster);
            self.recent_tombstones.add(tombstone, Instant::now());
        }
        self.write_holds();
        self.record_member(cluster);
    }

    pub(super) fn record_member(&mut self, name: &Arc<str>) {
        let due = Instant::now() + Duration::from_millis(100);
        self.records.push_later(Record::Member(name.clone()), due);
    }

    fn root_of(&mut self, leaf: &ObjectId) -> Option<&mut Root> {
        let owner = self.owners.get(leaf)?.clone();
        self.roots.get_mut(&owner)
    }

    fn record_owner(&mut self, leaf: &ObjectId) {
        if let Some(owner) = self.owners.get(leaf).cloned() {
            self.record_later(&owner);
        }
    }
}
