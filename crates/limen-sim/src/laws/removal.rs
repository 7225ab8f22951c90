//! Laws 3 and 5: why a leaf may go, and how many at once.

use std::collections::BTreeSet;

use limen_core::lifecycle::Limits;
use serde_json::Value;

use super::{GRACE, Laws, Removal, Scene, holds::is_held, root_of, subject};
use crate::api::Cause;
use crate::selection::policy;
use crate::truth::Deletion;

/// Removals within this time count as one, in milliseconds: indirect ones, and deletions by name.
const INDIRECT: u64 = 10_000;
pub(super) const NAMED: u64 = 60_000;
/// A member that was away for so long may hold what nobody remembers, in milliseconds; and for how
/// long after its return nothing of it goes by itself.
const LONG_AWAY: u64 = 3_600_000;
const RETURNED: u64 = 600_000;
/// How long removals are remembered: those of an absent member come late.
const REMEMBERED: u64 = 7_200_000;
/// Roots of one namespace that may be deleted by name within that time.
pub(super) const FLOOR: usize = 50;

impl Laws {
    pub(super) fn removal(&mut self, scene: &Scene<'_>, found: &mut Vec<(u8, String)>) {
        let Some(before) = scene.before().filter(|_| scene.removes()) else { return };
        // What is marked already was judged when it was marked.
        if before["metadata"]["deletionTimestamp"].is_string() {
            return;
        }
        let id = subject(scene).to_owned();
        if !self.truth.ours.contains(&id) || &*scene.effect.key.resource == "namespaces" {
            return;
        }
        if let Some(reason) = self.reason_against(scene, before) {
            let how =
                if scene.effect.cause == Cause::Namespace { " with its namespace" } else { "" };
            found.push((3, format!("{}{how}: {reason}", scene.describe("deletes"))));
        }
        let root = self.truth.roots.get_mut(root_of(before));
        let released = root.as_ref().is_some_and(|root| root.is_released(scene.cluster, scene.now));
        let deletion = root.and_then(|root| {
            root.use_release(scene.cluster, scene.now);
            root.ended()
        });
        if released || self.truth.leaving.contains(scene.cluster) {
            return;
        }
        let root = self.truth.roots.get(root_of(before));
        if root.is_some_and(|root| {
            root.ended().is_none() && root.selects_nothing_instead_of(scene.cluster)
        }) {
            let why = "its root selects no cluster any more, and nobody was asked";
            found.push((5, format!("{}: {why}", scene.describe("deletes"))));
        }
        self.removals.push_back(Removal {
            at: scene.now,
            root: root_of(before).to_owned(),
            namespace: scene.effect.key.namespace.clone(),
            deletion,
        });
        self.too_many(scene, found);
    }

    /// Why a leaf may not be deleted.
    fn reason_against(&self, scene: &Scene<'_>, leaf: &Value) -> Option<String> {
        let root_uid = root_of(leaf);
        let Some(root) = self.truth.roots.get(root_uid) else {
            return Some(format!("its root {root_uid} is not known to have been deleted"));
        };
        let hub = scene.hub()?;
        // Unjoining a cluster decides about all its leaves.
        if self.truth.leaving.contains(scene.cluster) {
            return None;
        }
        let released = root.is_released(scene.cluster, scene.now);
        if !released && !scene.is_late() && is_held(hub, root_uid, scene.cluster) {
            return Some("a hold covers it".to_owned());
        }
        if root.deleted.is_some() {
            let why = "its root was to be deleted without its leaves".to_owned();
            // A removal for a deselection may have been sent before the deletion, and arrive after it.
            let may = root.cascades(GRACE)
                || root.deselects(scene.cluster, scene.sent.at, 0)
                || self.missed_policy(scene, root_uid);
            return (!may).then_some(why);
        }
        if root.rejects(scene.cluster, scene.now, GRACE) || released {
            return None;
        }
        let why = format!("its root is neither deleted nor deselected in {}", scene.cluster);
        root.withdrawn.is_none().then_some(why)
    }

    /// Whether no hub can have seen the last policy of a root, which came and went while the hub's
    /// store was away.
    fn missed_policy(&self, scene: &Scene<'_>, root_uid: &str) -> bool {
        let namespace = &scene.effect.key.namespace;
        let Some((came, went)) = self.truth.policies_changed.get(namespace) else { return false };
        let mut absences = scene.network.absences.iter();
        let unseen = absences.any(|(server, from, to)| {
            server == crate::world::HUB
                && (*from..*to).contains(came)
                && (*from..*to).contains(went)
        });
        let gone = scene.hub().is_some_and(|hub| policy(hub, &scene.effect.key).is_none());
        unseen && gone && self.truth.noted.get(root_uid).is_none_or(|fate| fate != "Orphan")
    }

    fn too_many(&mut self, scene: &Scene<'_>, found: &mut Vec<(u8, String)>) {
        let now = scene.now;
        while self.removals.front().is_some_and(|removal| removal.at + REMEMBERED < now) {
            self.removals.pop_front();
        }
        let Some(newest) = self.removals.back() else { return };
        if let Some((deleted, how)) = newest.deletion {
            // Deletions count together by the time of the deletion, not by that of its effect.
            let together = |removal: &&Removal| {
                removal.namespace == newest.namespace
                    && removal.deletion.is_some_and(|(at, _)| at.abs_diff(deleted) <= NAMED)
            };
            let roots: BTreeSet<&str> = self
                .removals
                .iter()
                .filter(together)
                .map(|removal| removal.root.as_str())
                .collect();
            if roots.len() > FLOOR {
                let how = match how {
                    Deletion::WithNamespace => "with their namespace",
                    Deletion::Named => "by name",
                };
                let text = format!(
                    "leaves of more than {FLOOR} roots of namespace {} that were deleted {how} go within a minute, unheld",
                    newest.namespace
                );
                found.push((5, text));
            }
            return;
        }
        let returned = scene.network.absences.iter().any(|(server, from, to)| {
            server == scene.server && to - from > LONG_AWAY && *to <= now && now < to + RETURNED
        });
        if returned {
            let text = "after the return from a long absence, unheld, although no root was deleted";
            found.push((5, format!("{} {text}", scene.describe("deletes"))));
        }
        let recent = self
            .removals
            .iter()
            .filter(|removal| removal.deletion.is_none() && removal.at + INDIRECT >= now);
        let (going, limits) = (recent.count(), Limits::default());
        let members = scene.servers.iter().filter(|(name, _)| !name.starts_with(crate::world::HUB));
        let leaves = members
            .flat_map(|(_, member)| member.all())
            .filter(|(_, object)| !root_of(object).is_empty());
        let all = leaves.count() + going;
        #[expect(clippy::cast_precision_loss, reason = "counts of leaves are small")]
        let share = going as f64 / all.max(1) as f64;
        if going > limits.always && share > limits.share {
            let text = format!(
                "more than {} leaves and more than {} of all go within seconds, unheld, although no root was deleted",
                limits.always, limits.share
            );
            found.push((5, text));
        }
    }
}
