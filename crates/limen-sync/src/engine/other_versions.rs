//! Kinds that the member serves in other versions only.
//!
//! Their leaves are neither written nor watched. A deletion ends all the same if one list, in a
//! version that is served, shows that the member holds no leaf of the kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use limen_core::federated::Kind;
use limen_core::leaf::HUB_LABEL;

use super::{Engine, Errand};
use crate::syncer::MemberNews;

/// Kinds that the member serves in other versions only.
#[derive(Default)]
pub(super) struct OtherVersions {
    served: BTreeMap<Arc<Kind>, Vec<String>>,
    /// Kinds to be listed in a version that is served.
    due: BTreeSet<Arc<Kind>>,
    /// Kinds of which the member holds no leaf in any version.
    empty: BTreeSet<Arc<Kind>>,
    /// Counts clusters behind the endpoint, so that no list of an earlier one is taken for this one.
    generation: u64,
}

impl OtherVersions {
    pub(super) fn insert(&mut self, kind: &Arc<Kind>, versions: Vec<String>) {
        self.served.insert(kind.clone(), versions);
    }

    /// The member serves the kind as desired, or not at all.
    pub(super) fn remove(&mut self, kind: &Kind) {
        self.served.remove(kind);
        self.due.remove(kind);
        self.empty.remove(kind);
    }

    /// The versions that are served, if the desired one is not.
    pub(super) fn of(&self, kind: &Kind) -> Option<&Vec<String>> {
        self.served.get(kind)
    }

    /// Whether the member may hold leaves of the kind in a version that is not followed.
    pub(super) fn may_hold(&self, kind: &Kind) -> bool {
        self.served.contains_key(kind) && !self.empty.contains(kind)
    }

    /// Whether a list has shown that the member holds no leaf of the kind in any version.
    pub(super) fn holds_none(&self, kind: &Kind) -> bool {
        self.empty.contains(kind)
    }

    /// Another cluster may answer from here on.
    pub(super) fn doubt(&mut self) {
        self.empty.clear();
        self.generation += 1;
    }
}

impl Engine {
    /// The member serves a kind in other versions only.
    pub(super) fn see_other_versions(&mut self, kind: &Arc<Kind>, versions: Vec<String>) {
        let message = format!("served in other versions only: {}", versions.join(", "));
        self.other_versions.insert(kind, versions);
        for id in self.leaves.of_kind(kind) {
            self.consider(&id);
        }
        self.lose(kind, message);
        let ids = self.leaves.of_kind(kind);
        let none_held = ids.iter().all(|id| self.leaves.uid(id).is_none());
        let some_go = ids.iter().any(|id| self.leaves.shall_go(id));
        if none_held && some_go && self.other_versions.may_hold(kind) {
            self.other_versions.due.insert(kind.clone());
        }
    }

    /// Lists kinds in versions that are served.
    pub(super) fn start_lists(&mut self) -> Vec<BoxFuture<'static, Errand>> {
        let due = std::mem::take(&mut self.other_versions.due);
        let start = |kind: Arc<Kind>| {
            let api_version = self.other_versions.of(&kind)?.first()?.clone();
            let served = Kind { api_version, ..(*kind).clone() };
            let selector = format!("{HUB_LABEL}={}", self.leaves.hub());
            let (api, generation) = (self.api.clone(), self.other_versions.generation);
            let list = async move {
                let listed = api.list(&served, &selector).await;
                let empty = listed.is_ok_and(|(objects, _)| objects.is_empty());
                Errand::ListedElsewhere { kind, generation, empty }
            };
            Some(list.boxed())
        };
        due.into_iter().filter_map(start).collect()
    }

    /// Takes the answer to such a list.
    pub(super) fn listed_elsewhere(&mut self, kind: &Arc<Kind>, generation: u64, empty: bool) {
        let current = generation == self.other_versions.generation;
        if !(empty && current && self.other_versions.may_hold(kind)) {
            return;
        }
        self.other_versions.empty.insert(kind.clone());
        self.listed.insert(kind.clone());
        for id in self.leaves.of_kind(kind) {
            self.consider(&id);
        }
        self.say(MemberNews::Listed(kind.clone()));
    }
}
