//! Ground truth: what people wanted and who made what, as the simulator alone knows it.

use std::collections::{BTreeMap, BTreeSet};

use limen_core::leaf::HUB_LABEL;
use serde_json::Value;

use crate::actor::Actor;
use crate::api::{Key, Server, annotation, finalizers, is_terminating, label, uid};
use crate::selection::{Governance, Selection, governance};

/// How long what was sent for a release may take to arrive, in milliseconds.
const ON_ITS_WAY: u64 = 5000;

/// The annotation that takes an object out of the federation.
pub const FEDERATE: &str = "limen.dev/federate";

/// The fate of leaves when their root is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They are deleted too.
    Cascade,
    /// They stay.
    Orphan,
}

/// The way in which a root was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// By its name.
    Named,
    /// With its namespace.
    WithNamespace,
}

/// A root, as people know it.
#[derive(Clone, Debug)]
pub struct RootTruth {
    /// Its name on the hub.
    pub key: Key,
    /// When and how it was deleted.
    pub deleted: Option<(u64, Deletion)>,
    /// When it was marked for deletion itself; its namespace may have been before.
    pub marked: Option<u64>,
    /// When a person took it out of the federation.
    pub withdrawn: Option<u64>,
    /// The deletion itself asked to keep its leaves.
    pub orphaned: bool,
    /// The fates that were in force, each with the time from which it was.
    pub fates: Vec<(u64, Fate)>,
    /// The last time at which a foreign object in its place could be adopted.
    pub adopts: Option<u64>,
    /// Whether one can be adopted now.
    pub adopting: bool,
    /// Its leaves were created by a hub that never saw it under a policy.
    pub unaware: bool,
    /// The policy that governed it last said in no readable way what becomes of its leaves.
    pub fate_unknown: bool,
    /// The last readable policy that governed it.
    pub governed: Option<Value>,
    /// Clusters that were selected, each with the last time at which it was.
    pub selected: BTreeMap<String, u64>,
    /// Clusters that were not selected, each with the last time at which they were not.
    pub unselected: BTreeMap<String, u64>,
    /// What it selects.
    pub selection: Selection,
    /// The last time at which that could not be read.
    pub unread: Option<u64>,
    /// Since when that cannot be read.
    pub unknown: Option<u64>,
    /// Since when it selects no cluster at all.
    pub emptied: Option<u64>,
    /// Last readable selection.
    pub last_known: BTreeSet<String>,
    /// The hub was restored to a time at which this root did not exist: no hub can know of it.
    pub forgotten: bool,
    /// Clusters whose leaf a person has released from a hold, each with the time at which that
    /// release was used up.
    pub released: BTreeMap<String, Option<u64>>,
}

/// Ground truth.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Roots by uid, also those that are gone.
    pub roots: BTreeMap<String, RootTruth>,
    /// Uids of objects in members that a hub made.
    pub ours: BTreeSet<String>,
    /// Uids of objects in members that a hub adopted as a policy allowed.
    pub adopted: BTreeSet<String>,
    /// Uids of objects in members that were leaves and are none any more.
    pub released: BTreeSet<String>,
    /// Jobs that were in a member: uid of the root, and of the member.
    pub started_jobs: BTreeSet<(String, String)>,
    /// Terminal Jobs: uid of the root, and of the member.
    pub finished_jobs: BTreeSet<(String, String)>,
    /// When Jobs came and went, in milliseconds, and who created them.
    pub job_lives: BTreeMap<(String, String), (u64, u64, Actor)>,
    /// Deployments that were available: the API, the Deployment, its template.
    pub available: BTreeSet<(String, Key, String)>,
    /// The hash of the leaf that a hub wrote last, by the uid of the member and the leaf.
    pub given: BTreeMap<(String, Key), String>,
    /// The fate of leaves that a hub has noted last, by the uid of the root.
    pub noted: BTreeMap<String, String>,
    /// Clusters that a person asked to empty.
    pub leaving: BTreeSet<String>,
    /// When policies of a namespace changed last, and when before that.
    pub policies_changed: BTreeMap<String, (u64, u64)>,
}

/// The kinds whose objects are roots by themselves.
pub fn is_root_kind(resource: &str) -> bool {
    [
        "namespaces",
        "configmaps",
        "secrets",
        "services",
        "ingresses.networking.k8s.io",
        "deployments.apps",
        "replicasets.apps",
        "statefulsets.apps",
        "daemonsets.apps",
        "jobs.batch",
        "horizontalpodautoscalers.autoscaling",
        crate::people::TWIN_RESOURCE,
    ]
    .contains(&resource)
}

/// Whether a person has taken an object out of the federation.
pub fn is_withdrawn(object: &Value) -> bool {
    annotation(object, FEDERATE) == Some("false")
}

/// Whether an object on the hub is a root.
pub fn is_root(key: &Key, object: &Value) -> bool {
    let namespace = if &*key.resource == "namespaces" { &key.name } else { &key.namespace };
    let own = ["default", "limen-system", "limen-gateways"].contains(&namespace.as_str())
        && &*key.resource == "namespaces"
        || namespace.starts_with("limen-")
        || namespace.starts_with("kube-");
    // A leaf that got onto the hub, by a backup or because it is a member of another, is no root.
    let leaf = label(object, HUB_LABEL).is_some();
    is_root_kind(&key.resource) && !own && !leaf && !is_withdrawn(object)
}

impl Truth {
    /// Takes note of a root as it is in the hub's store.
    pub fn root_changed(
        &mut self,
        now: u64,
        hub: &Server,
        key: &Key,
        object: &Value,
        deletion: Deletion,
    ) {
        let id = uid(object).to_owned();
        let root = self.roots.entry(id).or_insert_with(|| RootTruth {
            key: key.clone(),
            deleted: None,
            marked: None,
            withdrawn: None,
            orphaned: false,
            fates: Vec::new(),
            adopts: None,
            adopting: false,
            unaware: false,
            fate_unknown: false,
            governed: None,
            selected: BTreeMap::new(),
            unselected: BTreeMap::new(),
            selection: Selection::Unknown,
            unread: None,
            unknown: Some(now),
            emptied: None,
            last_known: BTreeSet::new(),
            forgotten: false,
            released: BTreeMap::new(),
        });
        // What was deselected until this very moment counts as deselected up to it.
        root.touch(now, hub);
        if is_terminating(object) {
            if root.marked.is_none() {
                root.orphaned = finalizers(object).any(|name| name == "orphan");
            }
            root.deleted.get_or_insert((now, deletion));
            root.marked.get_or_insert(now);
        }
        let Governance { policy, unreadable, selection, fate, adopts } =
            governance(hub, key, object, root.governed.as_ref());
        root.adopting = adopts;
        // The fate by an unreadable policy stays unknown, also when the policy is gone.
        root.fate_unknown =
            unreadable || (root.fate_unknown && policy.is_none() && root.governed.is_some());
        if let Some(policy) = policy {
            root.governed = Some(policy);
            root.unaware = false;
        }
        if root.fates.last().map(|(_, last)| *last) != Some(fate) {
            root.fates.push((now, fate));
        }
        root.unknown = match &selection {
            Selection::Unknown => root.unknown.or(Some(now)),
            Selection::Clusters(_) => None,
        };
        if let Selection::Clusters(selected) = &selection {
            root.last_known.clone_from(selected);
            root.emptied = selected.is_empty().then(|| root.emptied.unwrap_or(now));
        }
        root.selection = selection;
        root.touch(now, hub);
    }

    /// Takes note that a root is gone.
    pub fn root_gone(&mut self, now: u64, object: &Value, deletion: Deletion) {
        if let Some(root) = self.roots.get_mut(uid(object)) {
            root.deleted.get_or_insert((now, deletion));
        }
    }

    /// Takes note that a root is none any more.
    pub fn root_withdrawn(&mut self, now: u64, object: &Value, deletion: Deletion) {
        if let Some(root) = self.roots.get_mut(uid(object)) {
            root.withdrawn.get_or_insert(now);
            if is_terminating(object) {
                root.deleted.get_or_insert((now, deletion));
                root.marked.get_or_insert(now);
            }
        }
    }

    /// Takes note that a namespace is deleted, and with it every root that is in it.
    pub fn namespace_deleted(&mut self, now: u64, hub: &Server, namespace: &str) {
        for (uid, root) in &mut self.roots {
            let there = root.key.namespace == *namespace
                && hub.get(&root.key).is_some_and(|object| self::uid(object) == uid);
            if there {
                root.deleted.get_or_insert((now, Deletion::WithNamespace));
            }
        }
    }

    /// Takes note that the hub is as it was at an earlier time: roots that were deleted since are back,
    /// and those that were created since are known by their leaves alone.
    pub fn hub_restored(&mut self, hub: &Server) {
        let stones = hub.of("clusters.limen.dev").flat_map(|(_, cluster)| {
            cluster["status"]["tombstones"].as_array().into_iter().flatten()
        });
        let buried: BTreeSet<&str> = stones.filter_map(|stone| stone["rootUid"].as_str()).collect();
        for (uid, root) in &mut self.roots {
            let object = hub.get(&root.key).filter(|object| self::uid(object) == uid);
            root.forgotten = object.is_none() && !buried.contains(uid.as_str());
            if object.is_some_and(|object| !is_terminating(object)) {
                (root.deleted, root.marked) = (None, None);
            }
            if object.is_some_and(|object| !is_withdrawn(object)) {
                root.withdrawn = None;
            }
        }
    }

    /// Looks again at every root of a namespace, or at all.
    pub fn look_again(&mut self, now: u64, hub: &Server, namespace: Option<&str>) {
        let concerned = |key: &Key| namespace.is_none_or(|namespace| key.namespace == namespace);
        let roots: Vec<(Key, Value)> = hub
            .all()
            .filter(|(key, object)| is_root(key, object) && concerned(key))
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        for (key, object) in roots {
            self.root_changed(now, hub, &key, &object, Deletion::Named);
        }
    }
}

impl RootTruth {
    fn touch(&mut self, now: u64, hub: &Server) {
        if self.adopting {
            self.adopts = Some(now);
        }
        if self.selection == Selection::Unknown {
            self.unread = Some(now);
        }
        for (cluster, _) in hub.of("clusters.limen.dev") {
            let times = match &self.selection {
                Selection::Unknown => continue,
                Selection::Clusters(selected) if selected.contains(&cluster.name) => {
                    &mut self.selected
                }
                Selection::Clusters(_) => &mut self.unselected,
            };
            times.insert(cluster.name.clone(), now);
        }
    }

    /// When and how it was deleted, or taken out of the federation by name.
    pub fn ended(&self) -> Option<(u64, Deletion)> {
        self.deleted.or(self.withdrawn.map(|at| (at, Deletion::Named)))
    }

    /// Whether a person has released its leaf in a cluster, and no removal has used that up.
    pub fn is_released(&self, cluster: &str, now: u64) -> bool {
        let used = self.released.get(cluster);
        used.is_some_and(|used| used.is_none_or(|used| used + ON_ITS_WAY >= now))
    }

    /// A release is good for one removal: the next one is judged again.
    pub fn use_release(&mut self, cluster: &str, now: u64) {
        if let Some(used) = self.released.get_mut(cluster) {
            used.get_or_insert(now);
        }
    }

    /// Whether a foreign object in its place may be adopted, or could be until a while ago.
    pub fn adopts(&self, now: u64, grace: u64) -> bool {
        self.adopting || self.adopts.is_some_and(|last| last + grace >= now)
    }

    /// Whether a cluster is selected, or was until a while ago.
    pub fn selects(&self, cluster: &str, now: u64, grace: u64) -> bool {
        match &self.selection {
            Selection::Clusters(selected) if selected.contains(cluster) => true,
            // What is unknown changes nothing.
            Selection::Unknown if self.last_known.contains(cluster) => true,
            _ => self.selected.get(cluster).is_some_and(|last| last + grace >= now),
        }
    }

    /// Whether a cluster is known not to be selected, or was until a while ago.
    pub fn rejects(&self, cluster: &str, now: u64, grace: u64) -> bool {
        match &self.selection {
            Selection::Clusters(selected) if !selected.contains(cluster) => true,
            _ => self.unselected.get(cluster).is_some_and(|last| last + grace >= now),
        }
    }

    /// Whether a cluster was deselected by a change that left none selected.
    pub fn selects_nothing_instead_of(&self, cluster: &str) -> bool {
        self.emptied.is_some() && self.selected.get(cluster).copied() == self.emptied
    }

    /// Whether a cluster is deselected, in a way that its deletion has not overtaken.
    pub fn deselects(&self, cluster: &str, now: u64, grace: u64) -> bool {
        self.marked.is_none_or(|marked| now < marked + ON_ITS_WAY)
            && self.rejects(cluster, now, grace)
    }

    /// Whether its leaves may be released with it: the fate in force at its deletion, or one since,
    /// was that they stay, or could not be read.
    pub fn orphans(&self) -> bool {
        let Some((deleted, _)) = self.deleted else { return false };
        if self.fate_unknown || self.unread.is_some_and(|unread| unread >= deleted) {
            return true;
        }
        let before = self.fates.iter().rfind(|(from, _)| *from <= deleted);
        let since = self.fates.iter().filter(|(from, _)| *from > deleted);
        since.chain(before).any(|(_, fate)| *fate == Fate::Orphan)
    }

    /// Whether its leaves may be deleted with it: some fate in force shortly before its deletion
    /// was to cascade.
    pub fn cascades(&self, grace: u64) -> bool {
        let Some((deleted, _)) = self.deleted.filter(|_| !self.orphaned) else { return false };
        if self.unaware {
            return true;
        }
        // A policy may change between the deletion of a namespace and that of the roots in it.
        let decided = self.marked.map_or(deleted, |marked| marked.max(deleted));
        let mut until = u64::MAX;
        for &(from, fate) in self.fates.iter().rev() {
            if from <= decided && until.saturating_add(grace) >= deleted && fate == Fate::Cascade {
                return true;
            }
            until = from;
        }
        false
    }
}
