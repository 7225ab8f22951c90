//! Law 11: what holds when nothing has happened for a long time.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Laws, root_of};
use crate::api::{Server, is_terminating, leaves, owner_uids};
use crate::hub::server_of;
use crate::trace::Trace;
use crate::world::HUB;

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
                    && leaf["ended"] != true
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
        for (key, leaf) in member.all().filter(|(_, leaf)| !root_of(leaf).is_empty()) {
            let Some(root) = self.truth.roots.get(root_of(leaf)) else { continue };
            // A hub that was started on a copy of the store has the root of before.
            let is_there = |hub: &&Server| {
                hub.get(&root.key).is_some_and(|now| crate::api::uid(now) == root_of(leaf))
            };
            let gone = root.deleted.is_some() && !hubs.iter().any(is_there);
            let remembered = tombstones
                .into_iter()
                .flatten()
                .any(|stone| stone["name"] == key.name && stone["rootUid"] == root_of(leaf));
            if gone && !remembered && !is_terminating(leaf) {
                let name = cluster["metadata"]["name"].as_str().unwrap_or_default();
                found.push(format!("{key} in {name} still is a leaf of a root that is gone, and nothing remembers it"));
            }
        }
    }
}

fn data(object: &Value) -> Value {
    let found = leaves(&object["data"]);
    found.into_iter().map(|(path, value)| (path.join("."), value)).collect()
}
