//! Holds: which removals wait for a person, in the hub's memory and as `Hold` objects.

mod entry;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use limen_api::{HeldRoot, Hold, HoldReason, HoldSpec};
use limen_core::federated::ObjectId;
use limen_core::lifecycle::{HeldEntry, HoldSet, Reason, Standing};

pub(super) use self::entry::HoldWrite;
use self::entry::{Entry, digest, names, numbered, short};

/// For so many seconds a hold takes in more of the same accident.
const GATHERS: i64 = 300;
/// Objects that are gone and remembered, at most.
const REMEMBERED: usize = 1000;
/// Leaves that one Hold object names at most, roughly: objects have a size limit.
const MOST: usize = 20_000;

/// All holds.
#[derive(Default)]
pub(super) struct Holds {
    sets: BTreeMap<Arc<str>, Entry>,
    /// The hold that removals of a root wait in, by the uid of the root.
    waiting: BTreeMap<Arc<str>, Arc<str>>,
    /// The hold from which removals of a root were released and are under way.
    released: BTreeMap<Arc<str>, Arc<str>>,
    /// The hold that keeps the placement of a root whose policy is gone.
    kept: BTreeMap<Arc<str>, Arc<str>>,
    /// Holds whose object is to be written.
    pub(super) changed: BTreeSet<Arc<str>>,
    /// Uids of objects that are gone: a watch may still tell of them. The oldest are forgotten.
    gone: VecDeque<String>,
}

impl Holds {
    /// The holds that removals of a root are in.
    fn of(&self, root_uid: &str) -> impl Iterator<Item = &Entry> {
        let names = [self.released.get(root_uid), self.waiting.get(root_uid)];
        names.into_iter().flatten().filter_map(|name| self.sets.get(name))
    }

    /// How the removals of a root stand.
    pub(super) fn standing(&self, root_uid: &str, losing: &BTreeSet<Arc<str>>) -> Standing {
        Standing::of(self.of(root_uid).map(|entry| &entry.set), root_uid, losing)
    }

    /// The members whose leaves of a root wait or were released.
    pub(super) fn clusters(&self, root_uid: &str) -> BTreeSet<Arc<str>> {
        let held = self.of(root_uid).filter_map(|entry| entry.set.roots.get(root_uid));
        held.flat_map(|held| held.clusters.iter().cloned()).collect()
    }

    /// Whether removals of a root wait because of something else than its deletion.
    pub(super) fn is_indirect(&self, root_uid: &str) -> bool {
        self.of(root_uid).any(|entry| {
            !matches!(entry.reason, HoldReason::MassDeletion | HoldReason::NamespaceDeleted)
        })
    }

    /// The hold that removals of a root wait in, and what it says.
    pub(super) fn of_removal(&self, root_uid: &str) -> Option<(Arc<str>, String)> {
        self.told(self.waiting.get(root_uid)?)
    }

    /// The hold that keeps a root's placement, and what it says.
    pub(super) fn of_kept(&self, root_uid: &str) -> Option<(Arc<str>, String)> {
        self.told(self.kept.get(root_uid)?)
    }

    fn told(&self, name: &Arc<str>) -> Option<(Arc<str>, String)> {
        Some((name.clone(), self.sets.get(name)?.accident.clone()))
    }

    /// Whether a person let a root spread whose policy is gone.
    pub(super) fn kept_is_released(&self, root_uid: &str) -> bool {
        let entry = self.kept.get(root_uid).and_then(|name| self.sets.get(name));
        entry.is_some_and(|entry| entry.set.released)
    }

    /// Notes what a root would lose by now. What was released waits nowhere else.
    pub(super) fn follow(&mut self, root_uid: &str, losing: &BTreeSet<Arc<str>>) {
        if let Some(name) = self.released.get(root_uid).cloned() {
            self.follow_in(&name, root_uid, losing);
        }
        if let Some(name) = self.waiting.get(root_uid).cloned() {
            let released = self.standing(root_uid, losing).released;
            self.follow_in(&name, root_uid, &(losing - &released));
        }
    }

    /// Notes what a root would gain by now.
    pub(super) fn follow_kept(&mut self, root_uid: &str, gaining: &BTreeSet<Arc<str>>) {
        let Some(name) = self.kept.get(root_uid).cloned() else { return };
        self.follow_in(&name, root_uid, gaining);
    }

    fn follow_in(&mut self, name: &Arc<str>, root_uid: &str, concerned: &BTreeSet<Arc<str>>) {
        let Some(entry) = self.sets.get_mut(name) else { return };
        if entry.set.follow(root_uid, concerned) {
            self.changed.insert(name.clone());
        }
        if !entry.set.roots.contains_key(root_uid) {
            entry.roots.remove(root_uid);
            let index = match (entry.reason, entry.set.released) {
                (HoldReason::PolicyGone, _) => &mut self.kept,
                (_, true) => &mut self.released,
                (_, false) => &mut self.waiting,
            };
            index.remove(root_uid);
        }
    }

    /// A leaf that a released or unreleased hold names is gone.
    pub(super) fn leaf_gone(&mut self, root_uid: &str, cluster: &Arc<str>) {
        let mut left = self.clusters(root_uid);
        left.remove(cluster);
        self.follow(root_uid, &left);
    }

    /// Makes removals of a root wait.
    pub(super) fn hold(
        &mut self,
        reason: &Reason,
        root: (&ObjectId, &str),
        losing: BTreeSet<Arc<str>>,
        now: i64,
    ) {
        let (kind, key) = match reason {
            Reason::MassDeletion { namespace, .. } => {
                (HoldReason::MassDeletion, namespace.to_string())
            }
            Reason::NamespaceDeleted { namespace, .. } => {
                (HoldReason::NamespaceDeleted, namespace.to_string())
            }
            Reason::NothingSelected => {
                let namespace = root.0.namespace.as_ref().unwrap_or(&root.0.name);
                (HoldReason::NothingSelected, namespace.clone())
            }
            Reason::LargeRemoval { .. } => (HoldReason::LargeRemoval, String::new()),
            Reason::MemberReturned(cluster) => (HoldReason::MemberReturned, cluster.to_string()),
        };
        let name = self.gathering(kind, &digest(&key), losing.len(), now);
        self.add(&name, &reason.to_string(), root, losing);
    }

    /// Makes a root whose policy is gone keep its placement.
    pub(super) fn keep(
        &mut self,
        policy: &str,
        root: (&ObjectId, &str),
        gaining: BTreeSet<Arc<str>>,
        now: i64,
    ) {
        let namespace = root.0.namespace.as_deref().unwrap_or_default();
        let accident = format!(
            "PlacementPolicy {namespace}/{policy} is gone or no longer selects objects that it placed, which would spread to more clusters"
        );
        let key = format!("{namespace}/{policy}");
        let name = self.gathering(HoldReason::PolicyGone, &digest(&key), gaining.len(), now);
        self.add(&name, &accident, root, gaining);
    }

    /// The hold that takes in more of an accident; a new one if there is none.
    fn gathering(
        &mut self,
        reason: HoldReason,
        accident: &str,
        clusters: usize,
        now: i64,
    ) -> Arc<str> {
        let prefix = format!("{}-{accident}", short(reason));
        let open = |(_, entry): &(&Arc<str>, &Entry)| {
            entry.reason == reason
                && !entry.set.released
                && entry.set.roots.len() * clusters.max(1) < MOST
                && now - entry.created <= GATHERS
        };
        let from: Arc<str> = prefix.as_str().into();
        let mut same = self.sets.range(from..).take_while(|(name, _)| name.starts_with(&prefix));
        if let Some((name, _)) = same.find(open) {
            return name.clone();
        }
        let mut names = (1..).map(|n| numbered(&prefix, n));
        let name = names.find(|name| !self.sets.contains_key(name)).unwrap_or_default();
        let entry = Entry {
            set: HoldSet::default(),
            reason,
            accident: String::new(),
            roots: BTreeMap::new(),
            created: now,
            object: None,
        };
        self.sets.insert(name.clone(), entry);
        name
    }

    fn add(
        &mut self,
        name: &Arc<str>,
        accident: &str,
        (id, uid): (&ObjectId, &str),
        clusters: BTreeSet<Arc<str>>,
    ) {
        let Some(entry) = self.sets.get_mut(name) else { return };
        let uid: Arc<str> = uid.into();
        accident.clone_into(&mut entry.accident);
        entry.roots.insert(uid.clone(), id.clone());
        entry.set.roots.entry(uid.clone()).or_default().clusters.extend(clusters);
        self.changed.insert(name.clone());
        let index = match entry.reason {
            HoldReason::PolicyGone => &mut self.kept,
            _ => &mut self.waiting,
        };
        // A root waits in one hold at a time.
        if let Some(before) =
            index.insert(uid.clone(), name.clone()).filter(|before| before != name)
            && let Some(entry) = self.sets.get_mut(&before)
        {
            entry.set.roots.remove(&uid);
            entry.roots.remove(&uid);
            self.changed.insert(before);
        }
    }

    /// An object was seen. Returns the roots that may go on now.
    pub(super) fn seen(
        &mut self,
        object: Hold,
        kind_of: impl Fn(&HeldRoot) -> ObjectId,
        now: i64,
    ) -> Vec<ObjectId> {
        let name: Arc<str> = object.metadata.name.clone().unwrap_or_default().into();
        if object.metadata.uid.as_ref().is_some_and(|uid| self.gone.contains(uid)) {
            return Vec::new();
        }
        if let Some(entry) = self.sets.get_mut(&name) {
            let waited: Vec<ObjectId> = match object.spec.release && !entry.set.released {
                true => entry.roots.values().cloned().collect(),
                false => Vec::new(),
            };
            let named =
                object.spec.roots.iter().map(|held| (held.uid.as_str().into(), names(held)));
            let released = (!waited.is_empty()).then(|| named.collect());
            let before = entry.object.replace(object);
            if entry.set.roots.is_empty() {
                self.changed.insert(name.clone());
            }
            let is = entry.object.as_ref().map_or(&[][..], |object| &object.spec.roots);
            let before = before.map(|before| before.spec.roots).unwrap_or_default();
            // Roots that the object names no longer may have waited for that.
            let dropped = before.iter().filter(|held| !is.iter().any(|is| is.uid == held.uid));
            let mut concerned: Vec<ObjectId> = dropped.map(kind_of).collect();
            concerned.extend(waited);
            if let Some(named) = released {
                self.release(&name, &named, now);
            }
            return concerned;
        }
        let mut entry = Entry {
            set: HoldSet { roots: BTreeMap::new(), released: object.spec.release },
            reason: object.spec.reason,
            accident: object.spec.message.rsplit_once("; ").map_or("", |(told, _)| told).to_owned(),
            roots: BTreeMap::new(),
            created: object.metadata.creation_timestamp.as_ref().map_or(now, |at| at.0.as_second()),
            object: None,
        };
        for held in &object.spec.roots {
            let uid: Arc<str> = held.uid.as_str().into();
            entry.set.roots.insert(uid.clone(), HeldEntry { clusters: names(held) });
            entry.roots.insert(uid.clone(), kind_of(held));
            match (entry.reason, entry.set.released) {
                (HoldReason::PolicyGone, _) => self.kept.insert(uid, name.clone()),
                (_, true) => None,
                (_, false) => self.waiting.insert(uid, name.clone()),
            };
        }
        entry.object = Some(object);
        let is_released = entry.set.released && entry.reason != HoldReason::PolicyGone;
        let released: Vec<_> = entry.roots.keys().filter(|_| is_released).cloned().collect();
        let roots = entry.roots.values().cloned().collect();
        self.sets.insert(name.clone(), entry);
        for uid in released {
            self.note_released(&uid, &name);
        }
        roots
    }

    /// A person has released the leaves that a hold names on the hub. What it has taken in since
    /// waits in a hold of its own.
    fn release(
        &mut self,
        name: &Arc<str>,
        named: &BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
        now: i64,
    ) {
        let Some(entry) = self.sets.get_mut(name) else { return };
        let (reason, told) = (entry.reason, entry.accident.clone());
        let unseen = match reason {
            // A root that may spread does so wherever it is placed by then.
            HoldReason::PolicyGone => {
                let seen = entry.set.roots.iter().filter(|(uid, _)| named.contains_key(*uid));
                let seen = seen.map(|(uid, held)| (uid.clone(), held.clusters.clone())).collect();
                entry.set.release(&seen)
            }
            _ => entry.set.release(named),
        };
        let ids = entry.roots.clone();
        entry.roots.retain(|uid, _| entry.set.roots.contains_key(uid));
        self.changed.insert(name.clone());
        if reason != HoldReason::PolicyGone {
            for uid in entry.roots.keys().cloned().collect::<Vec<_>>() {
                self.waiting.remove(&uid);
                self.note_released(&uid, name);
            }
        }
        let accident = name.get(short(reason).len() + 1..).unwrap_or_default();
        let accident = accident.split('-').next().unwrap_or_default().to_owned();
        for (uid, held) in unseen.roots {
            if let Some(id) = ids.get(&uid) {
                let other = self.gathering(reason, &accident, held.clusters.len(), now);
                self.add(&other, &told, (id, &uid), held.clusters);
            }
        }
    }

    /// Removals of a root were released from a hold, and perhaps from another one before.
    fn note_released(&mut self, uid: &Arc<str>, name: &Arc<str>) {
        let before = self.released.insert(uid.clone(), name.clone());
        let before = before.filter(|before| before != name);
        let Some(held) = before.and_then(|before| {
            let entry = self.sets.get_mut(&before)?;
            entry.roots.remove(uid);
            self.changed.insert(before);
            entry.set.roots.remove(uid)
        }) else {
            return;
        };
        if let Some(entry) = self.sets.get_mut(name).and_then(|entry| entry.set.roots.get_mut(uid))
        {
            entry.clusters.extend(held.clusters);
            self.changed.insert(name.clone());
        }
    }

    /// An object is gone. Deleting it is no release: an unfinished hold is written again. Returns
    /// the roots that it named.
    pub(super) fn object_gone(&mut self, name: &str) -> Vec<HeldRoot> {
        let Some(entry) = self.sets.get_mut(name) else { return Vec::new() };
        let object = entry.object.take();
        let uid = object.as_ref().and_then(|object| object.metadata.uid.clone());
        self.gone.extend(uid);
        self.gone.drain(..self.gone.len().saturating_sub(REMEMBERED));
        let before = object.map(|object| object.spec.roots).unwrap_or_default();
        match entry.set.roots.is_empty() {
            true => drop(self.sets.remove(name)),
            false => drop(self.changed.insert(name.into())),
        }
        before
    }

    /// Whether an unreleased hold on the hub names removals of a root, also if that is about to
    /// change.
    pub(super) fn is_on_hub(&self, root_uid: &str) -> bool {
        let names = |entry: &Entry| {
            entry.reason != HoldReason::PolicyGone
                && entry.object.as_ref().is_some_and(|object| {
                    !object.spec.release
                        && object.spec.roots.iter().any(|held| held.uid == root_uid)
                })
        };
        self.sets.values().any(names)
    }

    /// Drops roots that are gone, once everything has been read.
    pub(super) fn retain(&mut self, is_there: impl Fn(&str, &ObjectId) -> bool) {
        let gone: Vec<Arc<str>> = self
            .sets
            .values()
            .flat_map(|entry| &entry.roots)
            .filter(|(uid, id)| !is_there(uid, id))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in gone {
            self.forget(&uid);
        }
    }

    /// A root is gone: nothing of it waits.
    pub(super) fn forget(&mut self, root_uid: &str) {
        self.follow(root_uid, &BTreeSet::new());
        self.follow_kept(root_uid, &BTreeSet::new());
    }

    /// Names of all holds.
    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sets.keys()
    }

    /// Pending write to the object of a hold, if any.
    pub(super) fn write(&mut self, name: &str) -> Option<HoldWrite> {
        let entry = self.sets.get(name)?;
        let spec = entry.spec();
        let Some(object) = &entry.object else {
            if spec.roots.is_empty() {
                self.sets.remove(name);
                return None;
            }
            return Some(HoldWrite::Create(Box::new(Hold::new(name, spec))));
        };
        let uid = object.metadata.uid.clone().unwrap_or_default();
        if spec.roots.is_empty() {
            return Some(HoldWrite::Delete { uid });
        }
        let same = HoldSpec { release: object.spec.release, ..spec.clone() } == object.spec;
        let version = object.metadata.resource_version.clone().unwrap_or_default();
        (!same).then(|| HoldWrite::Update { spec: Box::new(spec), version })
    }

    /// Whether every hold is on disk.
    pub(super) fn is_written(&self) -> bool {
        let written = |entry: &Entry| {
            let on_hub = entry.object.as_ref().map(|object| &object.spec.roots);
            on_hub == Some(&entry.spec().roots)
        };
        self.sets.values().all(written)
    }
}
