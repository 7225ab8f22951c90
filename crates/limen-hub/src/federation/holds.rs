//! Holds: which removals wait for a person, in the hub's memory and as `Hold` objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limen_api::{HeldRoot, Hold, HoldReason, HoldSpec};
use limen_core::federated::ObjectId;
use limen_core::lifecycle::{HeldEntry, HoldSet, Reason, Standing};

/// For so many seconds a hold takes in more of the same accident.
const GATHERS: i64 = 300;
/// Leaves that one Hold object names at most, roughly: objects have a size limit.
const MOST: usize = 20_000;

/// All holds.
#[derive(Default)]
pub(super) struct Holds {
    sets: BTreeMap<Arc<str>, Entry>,
    /// The hold that removals of a root wait in, by the uid of the root.
    removals: BTreeMap<Arc<str>, Arc<str>>,
    /// The hold that keeps the placement of a root whose policy is gone.
    kept: BTreeMap<Arc<str>, Arc<str>>,
    /// Holds whose object is to be written.
    pub(super) changed: BTreeSet<Arc<str>>,
}

struct Entry {
    set: HoldSet,
    reason: HoldReason,
    /// The accident in words, without counts.
    accident: String,
    roots: BTreeMap<Arc<str>, ObjectId>,
    created: i64,
    /// The object as it is on the hub.
    object: Option<Hold>,
}

/// Pending write to the object of a hold.
pub(super) enum HoldWrite {
    Create(Box<Hold>),
    Update { spec: Box<HoldSpec>, version: String },
    Delete { uid: String },
}

impl Entry {
    fn spec(&self) -> HoldSpec {
        let held = |(uid, entry): (&Arc<str>, &HeldEntry)| {
            let id = self.roots.get(uid)?;
            Some(HeldRoot {
                api_version: id.kind.api_version.clone(),
                kind: id.kind.kind.clone(),
                namespace: id.namespace.clone(),
                name: id.name.clone(),
                uid: uid.to_string(),
                clusters: entry.clusters.iter().map(ToString::to_string).collect(),
            })
        };
        let roots: Vec<HeldRoot> = self.set.roots.iter().filter_map(held).collect();
        let (root_count, leaf_count) = (roots.len(), self.set.leaves());
        HoldSpec {
            reason: self.reason,
            message: format!("{}; {root_count} objects, {leaf_count} leaves", self.accident),
            root_count,
            leaf_count,
            roots,
            release: self.set.released,
        }
    }
}

impl Holds {
    /// How the removals of a root stand.
    pub(super) fn standing(&self, root_uid: &str, losing: &BTreeSet<Arc<str>>) -> Standing {
        let entry = self.removals.get(root_uid).and_then(|name| self.sets.get(name));
        entry.map_or(Standing::Free, |entry| entry.set.standing(root_uid, losing))
    }

    /// The members whose leaves of a root wait.
    pub(super) fn clusters(&self, root_uid: &str) -> BTreeSet<Arc<str>> {
        let entry = self.removals.get(root_uid).and_then(|name| self.sets.get(name));
        let held = entry.and_then(|entry| entry.set.roots.get(root_uid));
        held.map(|held| held.clusters.clone()).unwrap_or_default()
    }

    /// Whether removals of a root wait because of something else than its deletion.
    pub(super) fn is_indirect(&self, root_uid: &str) -> bool {
        let entry = self.removals.get(root_uid).and_then(|name| self.sets.get(name));
        entry.is_some_and(|entry| {
            !matches!(entry.reason, HoldReason::MassDeletion | HoldReason::NamespaceDeleted)
        })
    }

    /// The hold that removals of a root wait in, and what it says.
    pub(super) fn of_removal(&self, root_uid: &str) -> Option<(Arc<str>, String)> {
        self.told(self.removals.get(root_uid)?)
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

    /// Notes what a root would lose by now.
    pub(super) fn follow(&mut self, root_uid: &str, losing: &BTreeSet<Arc<str>>) {
        let Some(name) = self.removals.get(root_uid).cloned() else { return };
        self.follow_in(&name, root_uid, losing);
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
            let index = match entry.reason {
                HoldReason::PolicyGone => &mut self.kept,
                _ => &mut self.removals,
            };
            index.remove(root_uid);
        }
    }

    /// A leaf that a released or unreleased hold names is gone.
    pub(super) fn leaf_gone(&mut self, root_uid: &str, cluster: &Arc<str>) {
        let Some(name) = self.removals.get(root_uid).cloned() else { return };
        let held = self.sets.get(&name).and_then(|entry| entry.set.roots.get(root_uid));
        let Some(mut left) = held.map(|held| held.clusters.clone()) else { return };
        left.remove(cluster);
        self.follow_in(&name, root_uid, &left);
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
        self.add(kind, &key, &reason.to_string(), root, losing, now);
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
        self.add(HoldReason::PolicyGone, &key, &accident, root, gaining, now);
    }

    fn add(
        &mut self,
        reason: HoldReason,
        key: &str,
        accident: &str,
        (id, uid): (&ObjectId, &str),
        clusters: BTreeSet<Arc<str>>,
        now: i64,
    ) {
        let prefix = format!("{}-{}", short(reason), digest(key));
        let open = |(_, entry): &(&Arc<str>, &Entry)| {
            entry.reason == reason
                && !entry.set.released
                && entry.set.roots.len() * clusters.len().max(1) < MOST
                && now - entry.created <= GATHERS
        };
        let from: Arc<str> = prefix.as_str().into();
        let mut same = self.sets.range(from..).take_while(|(name, _)| name.starts_with(&prefix));
        let name = match same.find(open) {
            Some((name, _)) => name.clone(),
            None => {
                let taken = |n: &usize| {
                    let name = numbered(&prefix, *n);
                    !self.sets.contains_key(&name)
                };
                let name = (1..)
                    .find(taken)
                    .map_or_else(|| prefix.as_str().into(), |n| numbered(&prefix, n));
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
        };
        // A root waits in one hold at a time.
        if reason != HoldReason::PolicyGone && self.removals.get(uid).is_some_and(|at| *at != name)
        {
            self.follow(uid, &BTreeSet::new());
        }
        let Some(entry) = self.sets.get_mut(&name) else { return };
        let uid: Arc<str> = uid.into();
        accident.clone_into(&mut entry.accident);
        entry.roots.insert(uid.clone(), id.clone());
        entry.set.roots.entry(uid.clone()).or_default().clusters.extend(clusters);
        match reason {
            HoldReason::PolicyGone => self.kept.insert(uid, name.clone()),
            _ => self.removals.insert(uid, name.clone()),
        };
        self.changed.insert(name);
    }

    /// An object was seen. Returns the roots that may go on now.
    pub(super) fn seen(
        &mut self,
        object: Hold,
        kind_of: impl Fn(&HeldRoot) -> ObjectId,
        now: i64,
    ) -> Vec<ObjectId> {
        let name: Arc<str> = object.metadata.name.clone().unwrap_or_default().into();
        if let Some(entry) = self.sets.get_mut(&name) {
            let released = object.spec.release && !entry.set.released;
            entry.set.released |= object.spec.release;
            let before = entry.object.replace(object);
            if entry.set.roots.is_empty() {
                self.changed.insert(name.clone());
            }
            let now = entry.object.as_ref().map_or(&[][..], |object| &object.spec.roots);
            let before = before.map(|before| before.spec.roots).unwrap_or_default();
            // Roots that the object names no longer may have waited for that.
            let dropped = before.iter().filter(|held| !now.iter().any(|now| now.uid == held.uid));
            let mut concerned: Vec<ObjectId> = dropped.map(kind_of).collect();
            if released {
                concerned.extend(entry.roots.values().cloned());
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
            let clusters = held.clusters.iter().map(|name| Arc::from(name.as_str())).collect();
            entry.set.roots.insert(uid.clone(), HeldEntry { clusters });
            entry.roots.insert(uid.clone(), kind_of(held));
            match entry.reason {
                HoldReason::PolicyGone => self.kept.insert(uid, name.clone()),
                _ => self.removals.insert(uid, name.clone()),
            };
        }
        entry.object = Some(object);
        let roots = entry.roots.values().cloned().collect();
        self.sets.insert(name, entry);
        roots
    }

    /// An object is gone. Deleting it is no release: an unfinished hold is written again. Returns
    /// the roots that it named.
    pub(super) fn object_gone(&mut self, name: &str) -> Vec<HeldRoot> {
        let Some(entry) = self.sets.get_mut(name) else { return Vec::new() };
        let before = entry.object.take().map(|object| object.spec.roots).unwrap_or_default();
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

fn numbered(prefix: &str, n: usize) -> Arc<str> {
    match n {
        1 => prefix.into(),
        n => format!("{prefix}-{n}").into(),
    }
}

fn short(reason: HoldReason) -> &'static str {
    match reason {
        HoldReason::MassDeletion => "mass-deletion",
        HoldReason::NamespaceDeleted => "namespace-deleted",
        HoldReason::NothingSelected => "nothing-selected",
        HoldReason::LargeRemoval => "large-removal",
        HoldReason::MemberReturned => "member-returned",
        HoldReason::PolicyGone => "policy-gone",
    }
}

/// A short name for a key, which may be long or no valid name.
fn digest(key: &str) -> String {
    let mut hash: u32 = 0x811c_9dc5;
    for byte in key.bytes() {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    format!("{hash:08x}")
}
