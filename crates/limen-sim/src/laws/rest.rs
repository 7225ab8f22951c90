//! Law 11: what holds when nothing has happened for a long time.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Laws, held_by_object, root_of};
use crate::api::{Key, Server, annotation, finalizers, is_terminating, leaves, owner_uids, uid};
use crate::hub::server_of;
use crate::members::is_finished;
use crate::selection::{Selection, policy};
use crate::trace::Trace;
use crate::truth::{RootTruth, is_withdrawn};
use crate::world::HUB;
use limen_api::FINALIZER;

/// Writes within this time before the end are too many, in milliseconds.
const QUIET: u64 = 120_000;
/// Corrections of a rival that are tolerated within that time.
const TOLERATED: usize = 3;

impl Laws {
    /// Judges the end of a history.
    pub fn at_rest(&mut self, now: u64, servers: &BTreeMap<String, Server>, trace: &mut Trace) {
        let mut found = Vec::new();
        let late: Vec<_> = self.writes.iter().filter(|(at, _)| at + QUIET >= now).collect();
        if late.len() > TOLERATED {
            let example = late.last().map(|(_, text)| text.as_str()).unwrap_or_default();
            found.push(format!(
                "hubs still write to members at rest: {} times in two minutes, such as {example}",
                late.len()
            ));
        }
        if let Some(hub) = servers.get(HUB) {
            let hubs: Vec<_> = servers.values().filter(|one| one.name.starts_with(HUB)).collect();
            for (cluster, object) in hub.of("clusters.limen.dev") {
                let Some(member) = servers.get(&server_of(object)) else { continue };
                self.synced_means_equal(hub, &cluster.name, member, &mut found);
                self.finished_roots_leave_nothing(&hubs, object, member, &mut found);
            }
            // A hub beside another on a copy of its store, or behind a newer one, writes nothing.
            if hubs.len() == 1 && !is_stopped(hub) {
                self.deleted_roots_go(hub, servers, &mut found);
                self.placed_roots_have_leaves(hub, servers, &mut found);
            }
            for text in self.everyday_deletions_that_wait(now, hub) {
                self.broken(now, 14, text, trace);
            }
        }
        for text in found {
            self.broken(now, 11, text, trace);
        }
    }

    fn synced_means_equal(
        &self,
        hub: &Server,
        cluster: &str,
        member: &Server,
        found: &mut Vec<String>,
    ) {
        for (_, record) in hub.of("federatedstatuses.limen.dev") {
            let owners = owner_uids(record);
            let Some(root) = owners.first().and_then(|uid| self.truth.roots.get(*uid)) else {
                continue;
            };
            // Leaves of a root that is not understood stay as they are, and its record says so.
            let mut conditions = record["spec"]["conditions"].as_array().into_iter().flatten();
            if conditions.any(|known| known["type"] == "Placed" && known["status"] == "False") {
                continue;
            }
            let mut states = record["spec"]["clusters"].as_array().into_iter().flatten();
            let synced = states.any(|leaf| {
                leaf["cluster"] == cluster
                    && leaf["state"] == "Synced"
                    && leaf["stale"] != true
                    && !is_ended(record, cluster)
            });
            let Some(object) =
                hub.get(&root.key).filter(|object| synced && !is_terminating(object))
            else {
                continue;
            };
            let finished = owners.iter().any(|uid| {
                self.truth.finished_jobs.contains(&((*uid).to_owned(), member.identity()))
            });
            match member.get(&root.key) {
                // A Job that has run is not run again.
                None if finished => {}
                None => found.push(format!(
                    "{} is said to be Synced in {cluster}, and is not there",
                    root.key
                )),
                Some(leaf) => {
                    if &*root.key.resource == "configmaps" && data(object) != data(leaf) {
                        found.push(format!(
                            "{} is said to be Synced in {cluster}, and differs",
                            root.key
                        ));
                    }
                }
            }
        }
    }

    fn finished_roots_leave_nothing(
        &self,
        hubs: &[&Server],
        cluster: &Value,
        member: &Server,
        found: &mut Vec<String>,
    ) {
        let tombstones = cluster["status"]["tombstones"].as_array();
        let is_taken = |root: &RootTruth| hubs.iter().any(|hub| hub.get(&root.key).is_some());
        for (key, leaf) in member.all().filter(|(_, leaf)| !root_of(leaf).is_empty()) {
            let Some(root) = self.truth.roots.get(root_of(leaf)) else { continue };
            // A hub that was started on a copy of the store has the root of before.
            let is_there = |hub: &&Server| {
                let known = hub.get(&root.key).filter(|now| uid(now) == root_of(leaf));
                // A former root keeps its finalizer until its leaves are gone.
                known.is_some_and(|known| !is_withdrawn(known) || is_awaited(known))
            };
            let gone = root.ended().is_some() && !hubs.iter().any(is_there);
            let remembered = tombstones
                .into_iter()
                .flatten()
                .any(|stone| stone["name"] == key.name && stone["rootUid"] == root_of(leaf));
            // A store that was restored to a time before the root cannot have its tombstone. A hub
            // deletes nothing that it does not know, and says that it found the leaf.
            let found_again = root.forgotten && (tells_of_unowned(cluster) || is_taken(root));
            if gone && !remembered && !found_again && !is_terminating(leaf) {
                let name = cluster["metadata"]["name"].as_str().unwrap_or_default();
                found.push(format!("{key} in {name} still is a leaf of a root that is gone, and nothing remembers it"));
            }
        }
    }

    /// A root has a leaf in every member that it selects and that serves its kind, unless something
    /// else is in its place there.
    fn placed_roots_have_leaves(
        &self,
        hub: &Server,
        servers: &BTreeMap<String, Server>,
        found: &mut Vec<String>,
    ) {
        for (uid, root) in self.truth.roots.iter().filter(|(_, root)| root.ended().is_none()) {
            let Some(object) = hub.get(&root.key).filter(|object| self::uid(object) == uid) else {
                continue;
            };
            let Selection::Clusters(selected) = &root.selection else { continue };
            let in_waves = policy(hub, &root.key)
                .is_some_and(|policy| policy["spec"]["rollout"]["waves"].is_array());
            // A Job that has finished is not started anywhere.
            // Nor is a root placed whose policy nobody can read.
            if in_waves || is_finished(object) || is_held(hub, uid) || root.fate_unknown {
                continue;
            }
            for (cluster, joined) in hub.of("clusters.limen.dev") {
                let Some(member) = servers.get(&server_of(joined)) else { continue };
                let is_twin = |other: &Value| server_of(other) == server_of(joined);
                let names = hub.of("clusters.limen.dev").filter(|(_, other)| is_twin(other));
                let is_ours = joined["spec"]["uid"] == member.identity() && names.count() == 1;
                let version = object["apiVersion"].as_str().unwrap_or_default();
                let kind = member.kinds.get(&root.key.resource);
                let serves = kind.is_some_and(|kind| kind.api_version() == version);
                let home = member.get(&Key::namespace(&root.key.namespace));
                let leaves = self.truth.leaving.contains(&cluster.name);
                let run = (uid.clone(), member.identity());
                let ran = self.truth.started_jobs.contains(&run);
                let expected =
                    selected.contains(&cluster.name) && is_ours && serves && !leaves && !ran;
                if expected && !home.is_some_and(is_terminating) && member.get(&root.key).is_none()
                {
                    found.push(format!(
                        "{} is placed in {}, and is not there, although nothing stands in the way",
                        root.key, cluster.name
                    ));
                }
            }
        }
    }

    /// A root that is marked for deletion goes, unless a hold keeps it or a member still has a leaf.
    fn deleted_roots_go(
        &self,
        hub: &Server,
        servers: &BTreeMap<String, Server>,
        found: &mut Vec<String>,
    ) {
        for (uid, root) in self.truth.roots.iter().filter(|(_, root)| root.marked.is_some()) {
            let object = hub.get(&root.key).filter(|object| self::uid(object) == uid);
            let waits = object.is_some_and(|object| is_terminating(object) && is_awaited(object));
            let held = is_held(hub, uid);
            let has_leaf = |(name, member): (&String, &Server)| {
                !name.starts_with(HUB)
                    && member.kinds.get(&root.key.resource).is_some()
                    && member.get(&root.key).is_some_and(|leaf| root_of(leaf) == uid)
            };
            if waits && !held && !servers.iter().any(has_leaf) {
                found.push(format!(
                    "{} was deleted and does not go, although nothing holds it and no member serves a leaf of it",
                    root.key
                ));
            }
        }
    }
}

/// Whether the hub has found newer state than its own, and writes nothing until a person decides.
fn is_stopped(hub: &Server) -> bool {
    let system = hub.get(&Key::namespace("limen-system"));
    system.is_some_and(|system| annotation(system, "limen.dev/newer-mark").is_some())
}

/// Whether a Cluster says that it has leaves of unknown roots.
fn tells_of_unowned(cluster: &Value) -> bool {
    let mut conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|known| known["type"] == "UnownedLeaves" && known["status"] == "True")
}

/// Whether a hold covers leaves of a root.
fn is_held(hub: &Server, root: &str) -> bool {
    let covers = |hold: &Value| held_by_object(hold).iter().any(|(held, _)| held == root);
    hub.of("holds.limen.dev").any(|(_, hold)| covers(hold))
}

/// Whether a record says that the leaf in a cluster has ended.
fn is_ended(record: &Value, cluster: &str) -> bool {
    record["spec"]["ended"].as_array().into_iter().flatten().any(|name| name == cluster)
}

/// Whether the hub waits for the leaves of a root.
fn is_awaited(object: &Value) -> bool {
    finalizers(object).any(|name| name == FINALIZER)
}

fn data(object: &Value) -> Value {
    let found = leaves(&object["data"]);
    found.into_iter().map(|(path, value)| (path.join("."), value)).collect()
}
