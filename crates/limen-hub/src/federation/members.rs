//! Members: their clients, and what they tell.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use limen_api::Tombstone;
use limen_core::federated::{Kind, ObjectId};
use limen_core::global::Verdict;
use limen_sync::{
    Desired, Fence, MemberEvent, MemberNews, ObjectApi, Permit, Report, Syncer, SyncerOptions,
};
use tokio::task::JoinSet;

use super::planning::last_wish;
use super::{Record, World};
use crate::clusters::Member;
use crate::connect::SecretData;
use crate::connections::made_from;
use crate::roots::Root;

/// A client for a member, or why there is none.
pub(super) struct Connected {
    pub(super) cluster: Arc<str>,
    pub(super) connection: u64,
    pub(super) client: Result<Arc<ObjectApi>, String>,
}

impl World {
    /// Does what is due after news: plans what is dirty, connects members that have changed.
    pub(super) fn settle(&mut self, connections: &mut JoinSet<Connected>) {
        if self.started.is_none() {
            if !self.complete() {
                return;
            }
            self.started = Some(Instant::now());
            self.remember_records();
        }
        if std::mem::take(&mut self.reconnect) {
            self.connect(connections);
        }
        self.plan_dirty();
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
            let known = self.options.connections.clone();
            self.connections += 1;
            let connection = self.connections;
            (member.connected_with, member.awaited) = (Some(with), connection);
            connections.spawn(async move {
                let client = known.to(&cluster, secret.as_ref()).await;
                let client = client.map_err(|error| error.to_string());
                Connected { cluster: name, connection, client }
            });
        }
    }

    pub(super) fn connected(&mut self, made: Connected) {
        let kinds = self.leaf_kinds();
        let wished = |(id, root): (&Arc<ObjectId>, &Root)| {
            Some((self.leaf_of(id), root.wishes.get(&made.cluster)?.clone()))
        };
        let wishes: Vec<_> = self.roots.iter().filter_map(wished).collect();
        let Some(member) = self.members.get_mut(&made.cluster) else { return };
        // Two may be under way, and the older one may take longer.
        if member.awaited != made.connection {
            return;
        }
        // A new client is a new look at everything: what the old one saw is seen again.
        member.syncer = None;
        member.connection = made.connection;
        member.client = None;
        member.renewal_error = None;
        member.listed.clear();
        member.unowned.clear();
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
                    fence: Fence::open(),
                };
                member.client = Some(client.clone());
                let syncer = Syncer::start((*client).clone(), options, self.notices.clone());
                for kind in &self.used {
                    syncer.watch(kind.clone());
                }
                for (leaf, wish) in wishes {
                    syncer.desire(Arc::new(leaf), Some(wish));
                }
                member.syncer = Some(syncer);
            }
        }
        self.record_member(&made.cluster);
        self.all_dirty();
    }

    pub(super) fn notice(&mut self, notice: MemberEvent) {
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
                        root.wishes.get(&cluster).map(|wish| &wish.desired),
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
                let before = member.verdict.as_ref().map(|before| before.judged);
                if let Some(before) = before
                    && before.verdict == Verdict::Unhealthy
                    && verdict.judged.verdict == Verdict::Healthy
                {
                    member.returned_after = Some(verdict.judged.since - before.since);
                }
                member.verdict = Some(verdict);
                if member.away() != was {
                    // What it holds is stale now, or fresh again; deletions may go on.
                    let concerned = self.roots.iter().filter(|(_, root)| {
                        root.reports.contains_key(&cluster)
                            || root.wishes.contains_key(&cluster)
                            || root.is_going()
                    });
                    let concerned: Vec<_> = concerned.map(|(id, _)| id.clone()).collect();
                    self.dirty.extend(concerned);
                }
                self.record_member(&cluster);
            }
            MemberNews::Described(probed) => {
                let Some(member) = self.members.get_mut(&cluster) else { return };
                member.probed = Some(probed);
                if let Some(syncer) = &member.syncer {
                    let instance = self.hub.as_str().into();
                    syncer.permit(Some(Permit { instance, epoch: 1, revision: 0 }));
                }
                self.record_member(&cluster);
            }
            MemberNews::Inventory { leaves, missing } => {
                let Some(member) = self.members.get_mut(&cluster) else { return };
                (member.leaves, member.missing) = (Some(leaves), missing);
                self.record_member(&cluster);
            }
            MemberNews::Lost(..) | MemberNews::Mark(_) | MemberNews::Claimed(_) => {}
            MemberNews::Listed(kind) => {
                let Some(member) = self.members.get_mut(&cluster) else { return };
                member.listed.insert(kind.clone());
                if member.leaving().is_some() {
                    self.record_member(&cluster);
                }
                self.obey_tombstones(&cluster, &kind);
                // Deletions wait until it is certain what the member holds.
                let going = self.roots.iter().filter(|(_, root)| root.is_going());
                let going: Vec<_> = going.map(|(id, _)| id.clone()).collect();
                self.dirty.extend(going);
            }
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
        let wish = root.wishes.get(cluster);
        let wanted = wish.is_some_and(|wish| matches!(wish.desired, Desired::Leaf { .. }));
        // A leaf that came or went unasked, the end of a deletion, and any progress of a wave may
        // change what is wished.
        let of_another = report.held_for.as_deref().is_some_and(|uid| *uid != *root.uid());
        if waves
            || of_another
            || root.being_deleted()
            || (presence != report.held_for.is_some() && !wanted)
            || wish.is_none()
            || nothing
        {
            self.dirty.insert(id.clone());
        }
        match nothing {
            true => {
                root.reports.remove(cluster);
                if root
                    .wishes
                    .get(cluster)
                    .is_some_and(|wish| !matches!(wish.desired, Desired::Leaf { .. }))
                {
                    root.wishes.remove(cluster);
                }
            }
            false => drop(root.reports.insert(cluster.clone(), report)),
        }
        // What is under way is worth a record only if it takes long; what is done is, at once.
        match (before, root.is_synced()) {
            (false, true) => self.record_now(&id),
            (true, true) => self.record_soon(&id),
            (_, false) => self.record_later(&id),
        }
        if nothing && self.members.get(cluster).is_some_and(|member| member.leaving().is_some()) {
            self.record_member(cluster);
        }
    }

    /// Says again what shall become of leaves whose roots are gone, now that it is known what the
    /// member holds. A leaf of another root is none of their business.
    fn obey_tombstones(&self, cluster: &Arc<str>, kind: &Kind) {
        let Some(member) = self.members.get(cluster) else { return };
        let Some(syncer) = &member.syncer else { return };
        for tombstone in &member.tombstones {
            let leaf = stands_for(tombstone);
            let elses = self.owners.contains_key(&leaf) || member.unowned.contains_key(&leaf);
            if *leaf.kind == *kind && !elses {
                syncer.desire(Arc::new(leaf), Some(last_wish(tombstone)));
            }
        }
    }

    /// A leaf of this hub that no root claims: deleted only where a tombstone says so.
    fn unowned_reported(&mut self, cluster: &Arc<str>, leaf: Arc<ObjectId>, report: Report) {
        let Some(member) = self.members.get_mut(cluster) else { return };
        let Some(root_uid) = report.held_for.clone() else {
            let done = member.tombstones.extract_if(.., |tombstone| is_about(tombstone, &leaf));
            for tombstone in done {
                self.graves.bury(tombstone, Instant::now());
            }
            member.unowned.remove(&leaf);
            return self.record_member(cluster);
        };
        let waits =
            |tombstone: &&Tombstone| is_about(tombstone, &leaf) && *tombstone.root_uid == *root_uid;
        let buried = self.graves.of(&root_uid).filter(waits);
        if let Some(tombstone) = member.tombstones.iter().find(waits).or(buried) {
            if let (None, Some(syncer)) = (report.state, &member.syncer) {
                syncer.desire(leaf, Some(last_wish(tombstone)));
            }
            return;
        }
        member.unowned.insert(leaf, report);
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

/// The leaf that a tombstone stands for.
fn stands_for(tombstone: &Tombstone) -> ObjectId {
    let Tombstone { api_version, kind, plural, namespace, name, .. } = tombstone;
    ObjectId {
        kind: limen_api::kind((api_version, kind, plural, namespace.is_some())),
        namespace: namespace.clone(),
        name: name.clone(),
    }
}

/// Whether a tombstone stands for a leaf, of whichever root.
fn is_about(tombstone: &Tombstone, leaf: &ObjectId) -> bool {
    tombstone.kind == leaf.kind.kind
        && tombstone.api_version == leaf.kind.api_version
        && tombstone.namespace == leaf.namespace
        && tombstone.name == leaf.name
}
