//! Law 4: a hold ends by release, or because nothing would be lost.

use std::collections::BTreeSet;

use serde_json::Value;

use super::removal::{FLOOR, NAMED};
use super::{GRACE, Laws, Scene, root_of};
use crate::api::{Server, owner_uids};
use crate::selection::policy;
use crate::truth::{Deletion, RootTruth};

/// How long a hub may take to see a deletion, in milliseconds: watches lag by up to five seconds.
const SEEN: u64 = 10_000;
/// How long a write that follows from what a hub has seen may take, in milliseconds.
const ON_ITS_WAY: u64 = 1000;

/// Roots and clusters that a `Hold` covers.
pub(crate) fn held_by_object(hold: &Value) -> BTreeSet<(String, String)> {
    let roots = hold["spec"]["roots"].as_array().into_iter().flatten();
    roots
        .flat_map(|root| {
            let uid = root["uid"].as_str().unwrap_or_default();
            let clusters = root["clusters"].as_array().into_iter().flatten();
            clusters.filter_map(move |name| Some((uid.to_owned(), name.as_str()?.to_owned())))
        })
        .collect()
}

fn is_released(hold: &Value) -> bool {
    hold["spec"]["release"] == true
}

/// Whether what a hold covers waits because roots were deleted.
fn is_by_deletion(hold: &Value) -> bool {
    matches!(hold["spec"]["reason"].as_str(), Some("MassDeletion" | "NamespaceDeleted"))
}

/// Whether a hold that nobody has released covers a leaf.
pub(super) fn is_held(hub: &Server, root: &str, cluster: &str) -> bool {
    let pair = (root.to_owned(), cluster.to_owned());
    hub.of("holds.limen.dev").any(|(_, hold)| {
        !is_released(hold)
            && hold["spec"]["reason"] != "PolicyGone"
            && held_by_object(hold).contains(&pair)
    })
}

impl Laws {
    pub(super) fn holds_shrink(&mut self, scene: &Scene<'_>, found: &mut Vec<(u8, String)>) {
        if &*scene.effect.key.resource != "holds.limen.dev" {
            return;
        }
        self.everyday_deletion_held(scene, found);
        let (Some(before), Some(hub)) = (scene.before(), scene.hub()) else { return };
        if before["spec"]["reason"] == "PolicyGone" {
            return;
        }
        let left = scene.after().map(held_by_object).unwrap_or_default();
        let by_deletion = is_by_deletion(before);
        if is_released(before) {
            for (root, cluster) in held_by_object(before).difference(&left) {
                // A root that is gone leaves what was released to its tombstones.
                let root = self.truth.roots.get_mut(root);
                if let Some(truth) = root.filter(|truth| truth.deleted.is_none()) {
                    truth.use_release(cluster, scene.now);
                }
            }
            return;
        }
        for (root, cluster) in held_by_object(before).difference(&left) {
            let Some(truth) = self.truth.roots.get(root) else { continue };
            let released = truth.is_released(cluster, scene.now);
            let passes = self.truth.leaving.contains(cluster)
                || has_twin(hub, cluster)
                || self.is_everyday_deletion(truth)
                // Leaves that wait because of a deletion were to go with their root, whatever comes later.
                || (truth.orphans() && !by_deletion)
                || self.was_brief(hub, truth, (root, cluster));
            // A hub that has not seen the deletion goes by the placement; it judges the deletion when
            // it sees it, and law 5 what comes of that.
            let unseen = truth.marked.is_none_or(|at| scene.now < at + SEEN);
            // Nor does what it has just seen reach the store before it changes again.
            let wanted = unseen && truth.selects(cluster, scene.now, ON_ITS_WAY);
            let lost = scene.servers.iter().any(|(name, member)| {
                name != super::HUB
                    && holds_for(hub, cluster, name)
                    && member.get(&truth.key).is_some_and(|leaf| root_of(leaf) == root)
            });
            if !released && !wanted && !passes && lost {
                let text = format!(
                    "the hold on {} in {cluster} ends in {}, although nobody released it and the leaf is still there",
                    truth.key, scene.effect.key
                );
                found.push((4, text));
            }
        }
    }

    /// Whether the last policy of a root was taken away before every hub has noted it. A hub that
    /// has not goes by the policy before, which is gone too, and so keeps what is there.
    fn was_brief(&self, hub: &Server, root: &RootTruth, leaf: (&str, &str)) -> bool {
        let changes = self.truth.policies_changed.get(&root.key.namespace);
        let Some((before, last)) = changes.filter(|_| policy(hub, &root.key).is_none()) else {
            return false;
        };
        let emptied = root.emptied.is_some_and(|from| *last < from + SEEN);
        emptied || (*last < before + GRACE && is_recorded(hub, leaf))
    }

    /// Whether a root was deleted by name, together with no more than a person deletes by hand.
    fn is_everyday_deletion(&self, root: &RootTruth) -> bool {
        self.is_everyday_beside(root, &BTreeSet::new())
    }

    /// Whether a root was deleted by name, together with no more than a person deletes by hand, not
    /// counting some.
    fn is_everyday_beside(&self, root: &RootTruth, uncounted: &BTreeSet<String>) -> bool {
        let Some((at, _)) = root.deleted else { return false };
        // A Namespace counts with all that is in it.
        let namespace = match &*root.key.resource {
            "namespaces" => &root.key.name,
            _ => &root.key.namespace,
        };
        let together = self.truth.roots.iter().filter(|(uid, other)| {
            other.key.namespace == *namespace
                && !uncounted.contains(*uid)
                && other.deleted.is_some_and(|(other, _)| other.abs_diff(at) <= NAMED)
        });
        together.count() <= FLOOR
    }

    /// A hold is for accidents: a few deletions by name are none.
    fn everyday_deletion_held(&self, scene: &Scene<'_>, found: &mut Vec<(u8, String)>) {
        let before = scene.before().map(held_by_object).unwrap_or_default();
        let after = scene.after().map(held_by_object).unwrap_or_default();
        let by_deletion = scene.after().is_some_and(is_by_deletion);
        // Without its policy a root gains no cluster; that holds up no deletion.
        if scene.after().is_some_and(|hold| hold["spec"]["reason"] == "PolicyGone") {
            return;
        }
        // Roots that are held already count against no other, unless they go with their namespace.
        let together =
            scene.after().is_some_and(|hold| hold["spec"]["reason"] == "NamespaceDeleted");
        let holds = scene.hub().into_iter().flat_map(|hub| hub.of("holds.limen.dev"));
        let others = holds.filter(|(key, _)| **key != scene.effect.key);
        let others = others.flat_map(|(_, hold)| held_by_object(hold));
        let held = others.chain(before.clone()).map(|(root, _)| root);
        let (held, none): (BTreeSet<String>, _) = (held.collect(), BTreeSet::new());
        for (root, _) in after.difference(&before) {
            let Some(root) = self.truth.roots.get(root) else { continue };
            // Also if they stay in the hold that they were in, which has another reason.
            let how = root.deleted.map(|(_, how)| how);
            let together = together || how == Some(Deletion::WithNamespace);
            let uncounted = if together { &none } else { &held };
            // A hub that has not seen the deletion yet may hold for another reason.
            let unseen = root.deleted.is_some_and(|(at, _)| scene.now < at + SEEN);
            if self.is_everyday_beside(root, uncounted) && (by_deletion || !unseen) {
                found.push((14, format!("the deletion of {} by name is held", root.key)));
            }
        }
    }

    /// Deletions by name, in everyday numbers, that are held for whatever reason when nothing has
    /// happened for a long time.
    pub(super) fn everyday_deletions_that_wait(&self, now: u64, hub: &Server) -> Vec<String> {
        // Without its policy a root gains no cluster; that holds up no deletion.
        let holds = hub
            .of("holds.limen.dev")
            .filter(|(_, hold)| !is_released(hold) && hold["spec"]["reason"] != "PolicyGone");
        let held: BTreeSet<(String, &str)> = holds
            .flat_map(|(key, hold)| {
                held_by_object(hold).into_iter().map(|(root, _)| (root, key.name.as_str()))
            })
            .collect();
        let waiting = held.iter().filter_map(|(uid, hold)| {
            let root = self.truth.roots.get(uid)?;
            let long_ago = root.marked.is_some_and(|at| at + SEEN < now);
            (long_ago && self.is_everyday_deletion(root))
                .then(|| format!("the deletion of {} by name still is held by {hold}", root.key))
        });
        waiting.collect()
    }
}

/// Whether the record of a root says that its policy placed it in a cluster.
pub(super) fn is_recorded(hub: &Server, (root, cluster): (&str, &str)) -> bool {
    hub.of("federatedstatuses.limen.dev").any(|(_, record)| {
        let mut placed = record["spec"]["governed"]["clusters"].as_array().into_iter().flatten();
        owner_uids(record).contains(&root) && placed.any(|name| name == cluster)
    })
}

/// Whether another Cluster stands for the same API: a leaf there is lost under one name only.
fn has_twin(hub: &Server, cluster: &str) -> bool {
    let server = |(_, object): (_, &Value)| crate::hub::server_of(object);
    let own = hub.of("clusters.limen.dev").find(|(key, _)| key.name == cluster).map(server);
    hub.of("clusters.limen.dev").map(server).filter(|other| own.as_ref() == Some(other)).count() > 1
}

/// Whether a Cluster stands for an API.
fn holds_for(hub: &Server, cluster: &str, server: &str) -> bool {
    let found = hub.of("clusters.limen.dev").find(|(key, _)| key.name == cluster);
    found.is_some_and(|(_, object)| crate::hub::server_of(object) == server)
}
