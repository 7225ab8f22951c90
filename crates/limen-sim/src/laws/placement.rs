//! Law 6: a placement never widens because something became unknown.

use super::{GRACE, Laws, Scene, root_of};
use crate::api::{Change, owner_uids};
use crate::selection::{Selection, policy};
use crate::world::HUB;

impl Laws {
    pub(super) fn placement_widens(&mut self, scene: &Scene<'_>, found: &mut Vec<(u8, String)>) {
        let Some(leaf) = scene.after() else { return };
        let new = match (scene.effect.change, scene.before()) {
            (Change::Created, _) => true,
            (_, Some(before)) => root_of(before).is_empty() && !root_of(leaf).is_empty(),
            _ => false,
        };
        if !new {
            return;
        }
        if !self.truth.roots.contains_key(root_of(leaf)) {
            let why = "nothing on the hub is its root";
            found.push((6, format!("{}: {why}", scene.describe("creates"))));
        }
        // A hub on a copy of the store goes by its copy.
        let by_this_store = self.store_of(scene) == Some(HUB);
        let root = self.truth.roots.get_mut(root_of(leaf)).filter(|_| by_this_store);
        let Some(root) = root else { return };
        // A hub that never saw a root under its policy cannot know of it.
        let recorded = |hub: &crate::api::Server| {
            hub.of("federatedstatuses.limen.dev").any(|(_, record)| {
                let owners = owner_uids(record);
                owners.contains(&root_of(leaf)) && record["spec"]["governed"].is_object()
            })
        };
        let governs = |hub: &crate::api::Server| policy(hub, &scene.effect.key).is_some();
        let known = scene.hub().is_some_and(|hub| recorded(hub) || governs(hub));
        root.unaware = root.governed.is_some() && !known;
        let unread = root.unknown.is_some_and(|since| since + GRACE < scene.now);
        if unread && root.deleted.is_none() && !scene.is_away(HUB) {
            let why = "what its root selects cannot be read, and nothing is created meanwhile";
            found.push((6, format!("{}: {why}", scene.describe("creates"))));
        }
        if root.selects(scene.cluster, scene.now, GRACE) {
            return;
        }
        if root.unaware {
            return;
        }
        let why = match (&root.selection, &root.governed) {
            (Selection::Unknown, _) => "what its root selects cannot be read",
            (_, Some(_)) => "the last policy of its root does not select the cluster",
            _ => "its root does not select the cluster",
        };
        found.push((6, format!("{}: {why}", scene.describe("creates"))));
    }
}
