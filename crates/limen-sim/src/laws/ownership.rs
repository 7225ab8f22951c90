//! Laws 1 and 2: a hub writes what is its own, and names the object that it has seen.

use serde_json::Value;

use super::{GRACE, Laws, Scene, has_both_labels, root_of, subject};
use crate::api::{Cause, Change, label, uid};

/// The label by which Helm and others mark what they manage.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// How old a listing may be on which a hub deletes a namespace, in milliseconds. It asks for every
/// kind and is as old as the first answer when the last one comes: in a storm a request takes up to
/// 20 seconds, and its answer up to five.
const LISTED: u64 = 26_000;

impl Laws {
    /// An object without the labels of a leaf is nobody's but its cluster's.
    pub(super) fn note_releases(&mut self, scene: &Scene<'_>) {
        let (Some(before), Some(after)) = (scene.before(), scene.after()) else { return };
        if has_both_labels(before) && !has_both_labels(after) {
            self.truth.ours.remove(uid(after));
            self.truth.adopted.remove(uid(after));
            self.truth.released.insert(uid(after).to_owned());
        }
    }

    pub(super) fn note_times(&mut self, scene: &Scene<'_>) {
        let key = &scene.effect.key;
        if scene.effect.change == Change::Created {
            self.created.insert(subject(scene).to_owned(), scene.now);
        }
        if scene.effect.change == Change::Marked && &*key.resource == "namespaces" {
            let name = (scene.server.to_owned(), key.name.clone());
            self.namespaces_deleted.insert(name.clone(), scene.sent.at);
            let Some(member) = scene.member() else { return };
            let unserved = member.all().filter(|(key, _)| {
                key.namespace == name.1 && member.kinds.get(&key.resource).is_none()
            });
            let unserved = unserved.map(|(key, _)| key.resource.to_string()).collect();
            self.unlisted.insert(name, unserved);
        }
    }

    /// Whether an object came into a namespace after its deletion was decided. No API can be asked
    /// to delete a namespace only while nothing else is in it.
    fn came_too_late(&self, scene: &Scene<'_>) -> bool {
        let name = (scene.server.to_owned(), scene.effect.key.namespace.clone());
        let (sent, created) =
            (self.namespaces_deleted.get(&name), self.created.get(subject(scene)));
        // Nor does any API list what it does not serve.
        let unlisted = self.unlisted.get(&name);
        let unlisted = unlisted.is_some_and(|kinds| kinds.contains(&*scene.effect.key.resource));
        scene.effect.cause == Cause::Namespace
            && (unlisted
                || sent.zip(created).is_some_and(|(sent, created)| created + LISTED >= *sent))
    }

    pub(super) fn ownership(&mut self, scene: &Scene<'_>, found: &mut Vec<(u8, String)>) {
        let id = subject(scene).to_owned();
        if scene.effect.change == Change::Created {
            self.truth.ours.insert(id);
            return;
        }
        let Some(before) = scene.before() else { return };
        let ours = self.truth.ours.contains(&id);
        let mut adopting = false;
        let releasing = self.truth.released.contains(&id) && has_both_labels(before);
        let excused = releasing || self.came_too_late(scene);
        if !ours && !excused && !self.truth.adopted.contains(&id) {
            adopting = scene.after().is_some_and(|after| self.may_adopt(scene, before, after));
            if adopting {
                self.truth.adopted.insert(id.clone());
            } else {
                let verb = if scene.removes() { "deletes" } else { "changes" };
                let how = match scene.effect.cause {
                    Cause::Namespace => " with its namespace",
                    _ => "",
                };
                found.push((2, format!("{}{how}: it is foreign", scene.describe(verb))));
            }
        } else if !ours && !excused && scene.removes() {
            found.push((
                2,
                format!("{}: it was adopted, and must be released", scene.describe("deletes")),
            ));
        }
        if scene.effect.cause == Cause::Request {
            let replaced = |uid: &str| {
                let earlier = self.truth.roots.get(uid);
                earlier.is_some_and(|root| root.deleted.is_some() && root.key == scene.effect.key)
            };
            names_what_it_saw(scene, before, adopting, replaced, found);
        }
    }

    /// Whether a policy allows to take over an object that a member had, or did until a while ago.
    fn may_adopt(&self, scene: &Scene<'_>, before: &Value, after: &Value) -> bool {
        let controlled = before["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|owners| owners.iter().any(|owner| owner["controller"] == true));
        if controlled || label(before, MANAGED_BY).is_some() || scene.removes() {
            return false;
        }
        let root = self.truth.roots.get(root_of(after));
        root.is_some_and(|root| {
            root.key == scene.effect.key
                && root.adopts(scene.now, GRACE)
                && root.deleted.is_none_or(|(at, _)| at + GRACE >= scene.now)
        })
    }
}

/// A write to an existing object carries uid and version of what it was decided on.
fn names_what_it_saw(
    scene: &Scene<'_>,
    before: &Value,
    adopting: bool,
    replaced: impl Fn(&str) -> bool,
    found: &mut Vec<(u8, String)>,
) {
    let Some(call) = scene.sent.call else { return };
    let conditions = match call.method.as_str() {
        "DELETE" => &call.body["preconditions"],
        _ => &call.body["metadata"],
    };
    let missing: Vec<_> = ["uid", "resourceVersion"]
        .into_iter()
        .filter(|field| conditions[*field].as_str().is_none_or(str::is_empty))
        .collect();
    if !missing.is_empty() {
        let text = format!("{} without {}", scene.describe("writes"), missing.join(" and "));
        found.push((1, text));
    }
    if !adopting && !has_both_labels(before) {
        found.push((1, format!("{}, which has not both labels", scene.describe("writes"))));
    }
    let root = root_of(before);
    let other = scene.after().map(root_of).filter(|after| !after.is_empty() && *after != root);
    // The leaf of an earlier root of the same name, which is gone, becomes that of the new one.
    if let Some(other) = other.filter(|_| !adopting && !root.is_empty() && !replaced(root)) {
        let text = format!("{}, a leaf of root {root}, for root {other}", scene.describe("writes"));
        found.push((1, text));
    }
}
