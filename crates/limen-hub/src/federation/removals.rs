//! The gate: removals pass, wait for a person, or wait for the ledger.

use std::collections::BTreeSet;
use std::sync::Arc;

use limen_core::federated::ObjectId;
use limen_core::lifecycle::{Cause, Ledger, Removal, Standing, judge};
use limen_sync::clock;
use serde_json::Value;

use super::Federation;
use super::planning::Outlook;
use crate::clusters::Member;
use crate::outbox::Record;
use crate::roots::{Clearance, Root};

/// The ConfigMap in limen-system that keeps the ledger.
pub(crate) const LEDGER: &str = "limen-removals";

/// The ledger, and how much of it is on disk.
pub(super) struct LedgerState {
    pub(super) ledger: Ledger,
    /// Grows with every entry.
    pub(super) version: u64,
    /// The version that is on disk.
    pub(super) written: u64,
    /// Roots whose removal waits for a version.
    waiting: Vec<(u64, Arc<ObjectId>)>,
    /// The wall clock when this hub started, in seconds, and the machine's clock then.
    started: (i64, u64),
}

impl Default for LedgerState {
    fn default() -> Self {
        Self {
            ledger: Ledger::default(),
            version: 0,
            written: 0,
            waiting: Vec::new(),
            started: (clock::now_seconds(), clock::boot_nanos()),
        }
    }
}

impl LedgerState {
    /// The time of entries, in seconds since 1970. A window stays as long as it is when somebody sets
    /// the wall clock while this hub runs.
    pub(super) fn now(&self) -> i64 {
        let (wall, boot) = self.started;
        let passed = clock::boot_nanos().saturating_sub(boot) / 1_000_000_000;
        wall.saturating_add_unsigned(passed)
    }

    /// Takes the ledger of an earlier hub.
    pub(super) fn read(&mut self, object: &Value) {
        let text = object["data"]["ledger"].as_str().unwrap_or_default();
        match serde_json::from_str(text) {
            Ok(ledger) => {
                self.ledger = ledger;
                self.ledger.redate(self.now());
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read ConfigMap {LEDGER}; starting a new ledger");
            }
        }
    }
}

impl Federation {
    /// For each outlook, the members whose leaves may go now.
    pub(super) fn gate(
        &mut self,
        outlooks: &[(Arc<ObjectId>, Outlook)],
    ) -> Vec<BTreeSet<Arc<str>>> {
        let now = self.ledger.now();
        let mut going = Vec::with_capacity(outlooks.len());
        let mut pending: Vec<(usize, BTreeSet<Arc<str>>)> = Vec::new();
        for (at, (id, outlook)) in outlooks.iter().enumerate() {
            let (goes, rest) = self.stand(id, outlook);
            going.push(goes);
            if !rest.is_empty() {
                pending.push((at, rest));
            }
        }
        if pending.is_empty() {
            self.write_holds();
            return going;
        }
        let removals: Vec<Removal> = pending
            .iter()
            .map(|(at, rest)| self.removal(&outlooks[*at].0, &outlooks[*at].1, rest))
            .collect();
        let all = self.leaves_in_all();
        let window = self.options.limits.window;
        self.ledger.ledger.prune(now, window);
        let verdicts = judge(&removals, &self.ledger.ledger, all, self.options.limits, now);
        let version = self.ledger.version + 1;
        for (((at, rest), removal), verdict) in pending.into_iter().zip(removals).zip(verdicts) {
            let id = &outlooks[at].0;
            let Some(root) = self.roots.get_mut(id) else { continue };
            // A root that waits already stays in its hold, which a person may have seen.
            if verdict.is_some() && self.holds.of_removal(root.uid()).is_some() {
                self.holds.follow(root.uid(), &outlooks[at].1.outstanding());
                root.hold = self.holds.of_removal(root.uid());
                continue;
            }
            if let Some(reason) = verdict {
                // A person is asked about absent members as well.
                let cleared = root.cleared.as_ref().map(|cleared| &cleared.clusters);
                let asked = &outlooks[at].1.outstanding() - cleared.unwrap_or(&BTreeSet::new());
                self.holds.hold(&reason, (id, root.uid()), asked, clock::now_seconds());
                root.hold = self.holds.of_removal(root.uid());
                if let Some((name, _)) = &root.hold {
                    let how = format!("{reason}; limen release {name} carries it out");
                    root.draft(true, "Held", how, None);
                }
                continue;
            }
            match removal.cause {
                Cause::Indirect => self.ledger.ledger.remove(now, rest.len()),
                Cause::Named | Cause::Namespace { .. } => {
                    self.ledger.ledger.delete(now, &removal.namespace, 1);
                }
            }
            self.ledger.version = version;
            self.ledger.waiting.push((version, id.clone()));
            let cleared = root.cleared.get_or_insert_default();
            cleared.clusters.extend(rest);
            cleared.ledger = version;
        }
        if self.ledger.version > self.ledger.written {
            self.records.push(Record::Ledger);
        }
        self.write_holds();
        going
    }

    /// Removals of a root that are to be judged.
    pub(super) fn removal(
        &self,
        id: &ObjectId,
        outlook: &Outlook,
        losing: &BTreeSet<Arc<str>>,
    ) -> Removal {
        let kind = self.leaf_kind(id);
        let unjudged = |member: &Member| member.is_unjudged(kind);
        let returned = losing.iter().filter(|name| self.members.get(*name).is_some_and(unjudged));
        Removal {
            namespace: id.namespace.as_ref().unwrap_or(&id.name).as_str().into(),
            cause: outlook.cause,
            losing: losing.clone(),
            keeping: outlook.keeping,
            returned: returned.cloned().collect(),
        }
    }

    /// How a root's removals stand: the members that go now, and those to be judged.
    pub(super) fn stand(
        &mut self,
        id: &Arc<ObjectId>,
        outlook: &Outlook,
    ) -> (BTreeSet<Arc<str>>, BTreeSet<Arc<str>>) {
        let Some(root) = self.roots.get_mut(id) else { return Default::default() };
        let outstanding = outlook.outstanding();
        root.losing.clone_from(&outlook.losing);
        let uid = root.uid().to_owned();
        // A person who deletes a held root by name, or with its Namespace, means it.
        let by_name = outlook.cause != Cause::Indirect && root.being_deleted();
        let leaves_hold = by_name && self.holds.is_indirect(&uid);
        let held = self.holds.clusters(&uid);
        let can_be_told = |name: &Arc<str>| {
            // An absent member gets a tombstone.
            let away = || self.members.get(name).is_some_and(Member::away);
            !outlook.blocked.contains(name) || (by_name && away())
        };
        if let Some(cleared) = &mut root.cleared {
            cleared.clusters.retain(|name| outstanding.contains(name) && can_be_told(name));
        }
        root.cleared = root.cleared.take().filter(|cleared| !cleared.clusters.is_empty());
        let none = BTreeSet::new();
        let cleared = root.cleared.as_ref().map_or(&none, |cleared| &cleared.clusters);
        let judged = |name: &&Arc<str>| !cleared.contains(*name) && can_be_told(name);
        let mut rest: BTreeSet<_> = outlook.losing.iter().filter(judged).cloned().collect();
        let mut unjudged: BTreeSet<_> = outstanding.difference(cleared).cloned().collect();
        if leaves_hold {
            unjudged.retain(|name| held.contains(name) && outlook.losing.contains(name));
        }
        self.holds.follow(&uid, &unjudged);
        let mut goes = match &root.cleared {
            Some(Clearance { clusters, ledger })
                if *ledger <= self.ledger.written && !self.holds.is_on_hub(&uid) =>
            {
                outlook.losing.intersection(clusters).cloned().collect()
            }
            _ => BTreeSet::new(),
        };
        let standing = match leaves_hold {
            true => Standing::default(),
            false => self.holds.standing(&uid, &rest),
        };
        root.hold = self.holds.of_removal(&uid).filter(|_| standing.waits);
        rest.retain(|name| !standing.waits && !standing.released.contains(name));
        let released = standing.released.into_iter();
        goes.extend(released.filter(|name| !outlook.blocked.contains(name)));
        (goes, rest)
    }

    /// The ledger is on disk up to a version: removals that waited for it are carried out.
    pub(super) fn ledger_written(&mut self, version: u64) {
        self.ledger.written = self.ledger.written.max(version);
        let done = self.ledger.waiting.extract_if(.., |(waiting, _)| *waiting <= version);
        self.dirty.extend(done.map(|(_, id)| id));
        if self.ledger.version > self.ledger.written {
            self.records.push(Record::Ledger);
        }
    }

    /// Queues the objects of holds that have changed.
    pub(super) fn write_holds(&mut self) {
        for name in std::mem::take(&mut self.holds.changed) {
            self.records.push(Record::Hold(name));
        }
    }

    pub(super) fn kept_is_released(&self, root_uid: &str) -> bool {
        self.holds.kept_is_released(root_uid)
    }

    /// Notes what a root whose policy is gone would gain, and keeps its placement until released.
    pub(super) fn follow_kept(
        &mut self,
        id: &ObjectId,
        root: &mut Root,
        gaining: BTreeSet<Arc<str>>,
    ) {
        let uid = root.uid().to_owned();
        self.holds.follow_kept(&uid, &gaining);
        if !gaining.is_empty() && self.holds.of_kept(&uid).is_none() {
            let policy = root.memory.governed.as_ref().map_or("", |governed| &governed.policy);
            self.holds.keep(policy, (id, &uid), gaining, clock::now_seconds());
            if let Some((name, accident)) = self.holds.of_kept(&uid) {
                let how = format!("{accident}; limen release {name} lets it");
                root.draft(true, "Held", how, None);
            }
        }
        root.kept = self.holds.of_kept(&uid);
        self.write_holds();
    }

    pub(super) fn forget_holds(&mut self, root_uid: &str) {
        self.holds.forget(root_uid);
        self.write_holds();
    }

    /// Members that returned from a long absence have been judged once all that they hold is known.
    pub(super) fn end_returns(&mut self) {
        let waits = |member: &Member| member.returned_unjudged() || !member.unjudged.is_empty();
        if !self.members.values().any(waits) || !self.holds.is_written() {
            return;
        }
        for member in self.members.values_mut() {
            member.unjudged.retain(|kind| !member.relisted.contains(kind));
        }
        let kinds = self.leaf_kinds();
        let judged = |member: &Member| {
            kinds.iter().all(|kind| {
                member.relisted.contains(kind)
                    || member.missing.contains(kind)
                    || member.has_lost(kind)
            })
        };
        for member in self.members.values_mut().filter(|member| member.returned_unjudged()) {
            if judged(member) {
                member.unjudged.extend(member.lost.iter().cloned());
                member.returned_after = None;
            }
        }
    }
}
