//! Laws 9, 10 and 12: replicas, waves and Jobs.

use limen_core::leaf::HASH_ANNOTATION;
use serde_json::Value;

use super::holds::is_recorded;
use super::{GRACE, Laws, Scene, root_of};
use crate::api::{Change, Server, annotation, uid};
use crate::hub::server_of;
use crate::members::{is_finished, is_rolled_out};
use crate::selection::{Selection, by_placement, policy};
use crate::world::HUB;

/// How soon a hub writes down what it has created, in milliseconds.
const NOTED: u64 = 2000;

impl Laws {
    pub(super) fn note_jobs(&mut self, scene: &Scene<'_>) {
        if &*scene.effect.key.resource != "jobs.batch" {
            return;
        }
        for job in [scene.before(), scene.after()].into_iter().flatten() {
            let (root, member) = (root_of(job), scene.member().map(Server::identity));
            let run = (root.to_owned(), member.unwrap_or_default());
            if !root.is_empty() {
                self.truth.started_jobs.insert(run.clone());
            }
            if scene.effect.change == Change::Removed
                && let Some((_, gone, _)) = self.truth.job_lives.get_mut(&run)
            {
                *gone = scene.now;
            }
            if !root.is_empty() && is_finished(job) {
                self.truth.finished_jobs.insert(run);
            }
        }
    }

    pub(super) fn note_rollouts(&mut self, scene: &Scene<'_>) {
        let deployment = &*scene.effect.key.resource == "deployments.apps";
        if let Some(object) = scene.after().filter(|object| deployment && is_rolled_out(object)) {
            let template = object["spec"]["template"].to_string();
            let (server, key) = (scene.server.to_owned(), scene.effect.key.clone());
            self.truth.available.insert((server, key, template));
        }
    }

    pub(super) fn job_runs_twice(&mut self, scene: &Scene<'_>, found: &mut Vec<(u8, String)>) {
        if &*scene.effect.key.resource != "jobs.batch" || scene.effect.change != Change::Created {
            return;
        }
        let Some(job) = scene.after() else { return };
        let run =
            (root_of(job).to_owned(), scene.member().map(Server::identity).unwrap_or_default());
        let actor = scene.effect.actor.clone();
        let life = (scene.now, u64::MAX, actor.clone());
        let before = self.truth.job_lives.insert(run.clone(), life);
        // The network may repeat what a hub sent once. A Job that came while its member did not
        // answer, and went before the process could see it, is known to nothing but the member: a
        // creation without an answer is sent again, or else it might never run.
        // Nor does anything tell of it whose creator could not write it down.
        let unseen = before.is_some_and(|(came, gone, by)| {
            let grace = if by == actor { 0 } else { GRACE };
            let mut absences = scene.network.absences.iter();
            absences.any(|(server, from, to)| {
                let unwatched = server == scene.server && (*from..*to).contains(&came);
                let unwritten = server == HUB && (*from..*to).contains(&(came + NOTED));
                (unwatched && gone <= to + grace) || (unwritten && gone <= to + GRACE)
            })
        });
        if self.truth.finished_jobs.contains(&run) && !unseen && !scene.is_late() {
            found
                .push((12, format!("{}: it has finished there before", scene.describe("creates"))));
        }
    }

    /// A root is Complete when every cluster that it has selected for a while has run it.
    pub(super) fn completes_early(&mut self, scene: &Scene<'_>, found: &mut Vec<(u8, String)>) {
        let (Some(job), Some(hub)) = (scene.after(), scene.hub()) else { return };
        let is_job = &*scene.effect.key.resource == "jobs.batch";
        if !is_job || !is_finished(job) || scene.before().is_some_and(is_finished) {
            return;
        }
        let Some(root) = self.truth.roots.get(uid(job)) else { return };
        // Without its policy a root stays where that has placed it.
        let kept = root.governed.is_some() && policy(hub, &root.key).is_none();
        let steady = |cluster: &str| {
            let selected = match kept {
                true => is_recorded(hub, (uid(job), cluster)),
                false => root.selects(cluster, scene.now, 0),
            };
            selected && !root.rejects(cluster, scene.now, GRACE)
        };
        for (cluster, joined) in hub.of("clusters.limen.dev") {
            let member = joined["spec"]["uid"].as_str().unwrap_or_default();
            let run = (uid(job).to_owned(), member.to_owned());
            let leaves = self.truth.leaving.contains(&cluster.name);
            if steady(&cluster.name) && !leaves && !self.truth.started_jobs.contains(&run) {
                let text = format!(
                    "{} as Complete, although {} has never run it",
                    scene.describe("reports"),
                    cluster.name
                );
                found.push((12, text));
            }
        }
    }

    pub(super) fn replicas_fall(&mut self, scene: &Scene<'_>, found: &mut Vec<(u8, String)>) {
        let replicas = |object: &Value| object["spec"]["replicas"].as_i64();
        let Some(after) = scene.after() else { return };
        if &*scene.effect.key.resource != "deployments.apps" {
            return;
        }
        let root = scene.hub().and_then(|hub| hub.get(&scene.effect.key));
        let wanted = root.and_then(replicas).unwrap_or(1);
        let is = replicas(after).unwrap_or(1);
        let Some(before) = scene.before() else {
            if is < wanted && !is_scaled(scene) && !scene.is_late() {
                let text = format!(
                    "{} with {is} replicas, although {wanted} are wanted and nothing scales it there",
                    scene.describe("creates")
                );
                found.push((9, text));
            }
            return;
        };
        let Some(was) = replicas(before) else { return };
        if is < was.min(wanted) {
            let text = format!(
                "{}: replicas fall from {was} to {is}, although {wanted} are wanted",
                scene.describe("updates")
            );
            found.push((9, text));
        }
    }

    pub(super) fn wave_opens_early(&mut self, scene: &Scene<'_>, found: &mut Vec<(u8, String)>) {
        let (Some(leaf), Some(hub)) = (scene.after(), scene.hub()) else { return };
        let key = &scene.effect.key;
        // A hub on a copy of the store goes by the policies of its copy.
        let by_copy = self.store_of(scene) != Some(HUB);
        if &*key.resource != "deployments.apps" || scene.removes() || by_copy {
            return;
        }
        let hash = |object: &Value| annotation(object, HASH_ANNOTATION).map(str::to_owned);
        let Some(given) = hash(leaf) else { return };
        let member = scene.member().map(Server::identity).unwrap_or_default();
        let last = self.truth.given.insert((member, key.clone()), given.clone());
        // A leaf that somebody took away from a member comes back as it was: no change reaches it.
        if scene.before().and_then(hash).or(last) == Some(given) {
            return;
        }
        let Some(policy) = policy(hub, key) else { return };
        // The waves of an unreadable policy bind no hub.
        if by_placement(hub, &policy["spec"]["placement"]) == Selection::Unknown {
            return;
        }
        // A change may be on its way by the policy of a moment ago.
        let changed = self.truth.policies_changed.get(&key.namespace);
        if changed.is_some_and(|(_, changed)| scene.now < changed + 2000) {
            return;
        }
        let waves = policy["spec"]["rollout"]["waves"].as_array().into_iter().flatten();
        for (index, wave) in waves.enumerate() {
            let Selection::Clusters(members) = by_placement(hub, wave) else { return };
            if members.contains(scene.cluster) {
                return;
            }
            let mut done = false;
            for cluster in members {
                let Some((_, object)) =
                    hub.of("clusters.limen.dev").find(|(key, _)| key.name == cluster)
                else {
                    continue;
                };
                let server = server_of(object);
                // Nor does a wave wait for a cluster in whose place another one answers.
                let present = scene.servers.get(&server).map(Server::identity);
                let replaced = present.is_some_and(|uid| object["spec"]["uid"] != uid);
                let away = scene.is_away(&server) || replaced;
                let placed = self
                    .truth
                    .roots
                    .get(root_of(leaf))
                    .is_some_and(|root| root.selects(&cluster, scene.now, 0));
                if !placed || !scene.servers.contains_key(&server) {
                    continue;
                }
                let template = leaf["spec"]["template"].to_string();
                let ready = self.truth.available.contains(&(server, key.clone(), template));
                done |= ready;
                if !ready && !away {
                    let text = format!(
                        "{}, although wave {} has it not available in {cluster}",
                        scene.describe("updates"),
                        index + 1
                    );
                    found.push((10, text));
                    return;
                }
            }
            if !done && !scene.is_late() {
                let text = format!(
                    "{}, although wave {} has it available nowhere",
                    scene.describe("updates"),
                    index + 1
                );
                found.push((10, text));
                return;
            }
        }
    }
}

/// Whether a member has an autoscaler for a workload.
fn is_scaled(scene: &Scene<'_>) -> bool {
    let key = &scene.effect.key;
    scene.member().is_some_and(|member| {
        member.of("horizontalpodautoscalers.autoscaling").any(|(scaler, object)| {
            scaler.namespace == key.namespace
                && object["spec"]["scaleTargetRef"]["name"] == key.name.as_str()
        })
    })
}
