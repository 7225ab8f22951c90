//! The laws of the federation, checked after every change of every API.
//!
//! ```text
//! effect on the hub's store ──► ground truth, holds
//! effect on a member ─────────► ownership · removal · placement · workloads · leadership
//! end of a history ───────────► rest
//! ```
//!
//! Each law is judged from ground truth and from the hub's store, never from what a hub says it
//! did. Where a hub may lag behind its store, what was true until `GRACE` ago counts as true.

mod holds;
mod leadership;
mod ownership;
mod placement;
mod removal;
mod rest;
mod workloads;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(crate) use self::holds::held_by_object;

use limen_core::leaf::{HUB_LABEL, ROOT_LABEL};
use serde_json::Value;

use crate::actor::Actor;
use crate::api::{Call, Cause, Change, Effect, Server, label, owner_uids, uid};
use crate::network::Network;
use crate::trace::{Trace, clock};
use crate::truth::{Deletion, Truth, is_root, is_withdrawn};
use crate::world::HUB;

/// How long a hub may act on what was true, in milliseconds.
const GRACE: u64 = 60_000;

/// The laws by number.
pub const LAWS: [(u8, &str); 14] = [
    (0, "no hub panics"),
    (
        1,
        "each write names uid and version of a leaf, or creates where nothing was, or adopts as allowed",
    ),
    (2, "nothing foreign changes or vanishes"),
    (3, "a leaf is deleted only because its root was deleted with cascade or deselected, unheld"),
    (4, "an unreleased hold never shrinks"),
    (5, "unreleased removals in a window never exceed the limit"),
    (6, "a placement never widens because something became unknown"),
    (7, "epochs never decrease, and nothing is written after the lease's end"),
    (8, "one hub store and one Cluster name write to one member"),
    (9, "replicas never fall below what was and what is wanted"),
    (10, "a wave gets a change only after the one before has it available"),
    (11, "at rest: Synced means equal, finished roots leave nothing, writes stop"),
    (12, "a terminal Job is created once for each root and member, and Complete once all ran it"),
    (14, "what a person deletes by name, in everyday numbers, is not held"),
];

/// A broken law.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Milliseconds since the start.
    pub at: u64,
    /// The law's number.
    pub law: u8,
    /// What happened.
    pub text: String,
}

/// The request behind an effect.
pub struct Sent<'a> {
    /// The request; nothing for controllers and people.
    pub call: Option<&'a Call>,
    /// When it was sent, in milliseconds since the start.
    pub at: u64,
}

/// Facts by which laws judge one effect.
struct Scene<'a> {
    now: u64,
    server: &'a str,
    effect: &'a Effect,
    sent: &'a Sent<'a>,
    servers: &'a BTreeMap<String, Server>,
    network: &'a Network,
    /// The Cluster through which the hub wrote.
    cluster: &'a str,
}

impl Scene<'_> {
    fn hub(&self) -> Option<&Server> {
        self.servers.get(HUB)
    }

    fn member(&self) -> Option<&Server> {
        self.servers.get(self.server)
    }

    fn before(&self) -> Option<&Value> {
        self.effect.before.as_deref()
    }

    fn after(&self) -> Option<&Value> {
        self.effect.after.as_deref()
    }

    /// Whether this takes an object away.
    fn removes(&self) -> bool {
        matches!(self.effect.change, Change::Marked | Change::Removed)
    }

    /// Whether the network took long: what was true when it was sent may be true no longer.
    fn is_late(&self) -> bool {
        self.now > self.sent.at + 1000
    }

    /// Whether an API cannot be reached, or could not a moment ago.
    fn is_away(&self, server: &str) -> bool {
        let returned = |(name, _, to): &(String, u64, u64)| {
            name == server && *to <= self.now && self.now < to + GRACE
        };
        self.network.requests_cut.contains_key(server)
            || !self.network.answers(server)
            || self.network.absences.iter().any(returned)
    }

    fn describe(&self, verb: &str) -> String {
        format!("{} {verb} {} in {}", self.effect.actor, self.effect.key, self.server)
    }
}

/// A removal of a leaf.
#[derive(Clone, Debug)]
struct Removal {
    at: u64,
    root: String,
    namespace: String,
    /// When and how its root was deleted; nothing if it was not.
    deletion: Option<(u64, Deletion)>,
}

/// The laws, with what they remember.
#[derive(Default)]
pub struct Laws {
    enabled: BTreeSet<u8>,
    /// Ground truth.
    pub truth: Truth,
    violations: Vec<Violation>,
    removals: VecDeque<Removal>,
    /// Store of each hub process, and whether it takes part in elections.
    pub processes: BTreeMap<u32, (String, bool)>,
    writers: leadership::Writers,
    /// When the lease of each store was renewed.
    renewed: BTreeMap<String, u64>,
    /// When objects of members were created, by uid.
    created: BTreeMap<String, u64>,
    /// When a hub sent the deletion of a namespace, by API and name.
    namespaces_deleted: BTreeMap<(String, String), u64>,
    /// Resources that a member did not serve when a namespace of it was deleted.
    unlisted: BTreeMap<(String, String), BTreeSet<String>>,
    /// Times of the last writes of hubs to members.
    writes: VecDeque<(u64, String)>,
}

impl Laws {
    /// The laws with these numbers.
    pub fn new(enabled: impl IntoIterator<Item = u8>) -> Self {
        Self { enabled: enabled.into_iter().collect(), ..Self::default() }
    }

    /// All laws.
    pub fn all() -> Self {
        Self::new(LAWS.map(|(law, _)| law))
    }

    /// The violation.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    fn broken(&mut self, at: u64, law: u8, text: String, trace: &mut Trace) {
        let known = self.violations.iter().any(|known| known.law == law && known.text == text);
        if !self.enabled.contains(&law) || known {
            return;
        }
        trace.note(at, format!("LAW {law} BROKEN: {text}"));
        self.violations.push(Violation { at, law, text });
    }

    /// Notes that tasks have panicked.
    pub fn panicked(&mut self, now: u64, count: u64, trace: &mut Trace) {
        if count > 0 {
            self.broken(now, 0, format!("{count} tasks of hubs panicked"), trace);
        }
    }

    /// Judges a change of an API.
    #[expect(clippy::too_many_arguments, reason = "the whole world is evidence")]
    pub fn observe(
        &mut self,
        now: u64,
        server: &str,
        effect: &Effect,
        sent: &Sent<'_>,
        servers: &BTreeMap<String, Server>,
        network: &Network,
        trace: &mut Trace,
    ) {
        let cluster = match &effect.actor {
            Actor::Hub { cluster, .. } => cluster.as_str(),
            _ => "",
        };
        let scene = Scene { now, server, effect, sent, servers, network, cluster };
        let mut found = Vec::new();
        if server.starts_with(HUB) {
            self.note_renewal(&scene);
        }
        if server == HUB {
            if !cluster.is_empty() {
                let text = format!(
                    "{}, the hub's own store, as cluster {cluster}",
                    scene.describe("writes")
                );
                found.push((8, text));
            }
            self.observe_store(&scene, &mut found);
        } else if !server.starts_with(HUB) {
            self.observe_member(&scene, &mut found);
        }
        for (law, text) in found {
            self.broken(now, law, text, trace);
        }
    }

    fn observe_store(&mut self, scene: &Scene<'_>, found: &mut Vec<(u8, String)>) {
        let Some(hub) = scene.hub() else { return };
        let (effect, now) = (scene.effect, scene.now);
        if let Some(record) = scene.after()
            && let Some(fate) = record["spec"]["onDelete"].as_str()
        {
            let noted = owner_uids(record).into_iter().map(|uid| (uid.to_owned(), fate.to_owned()));
            self.truth.noted.extend(noted);
        }
        self.holds_shrink(scene, found);
        self.completes_early(scene, found);
        let spec = |object: Option<&Value>| {
            object.map(|object| (object["spec"].clone(), object["metadata"]["labels"].clone()))
        };
        let same = spec(scene.before()) == spec(scene.after());
        match &*effect.key.resource {
            // What a hub writes changes nothing of what people want.
            _ if effect.actor.is_hub() && scene.after().is_some() => return,
            "placementpolicies.limen.dev" if !same => {
                self.truth.look_again(now, hub, Some(&effect.key.namespace));
                let changed = &mut self.truth.policies_changed;
                let (before, last) =
                    changed.entry(effect.key.namespace.clone()).or_insert((now, now));
                (*before, *last) = (*last, now);
            }
            "clusters.limen.dev" => {
                let leaves = |cluster: &Value| {
                    let metadata = &cluster["metadata"];
                    metadata["annotations"]["limen.dev/unjoin"].is_string()
                        || metadata["deletionTimestamp"].is_string()
                };
                if scene.after().is_none_or(leaves) {
                    self.truth.leaving.insert(effect.key.name.clone());
                }
                if !same {
                    self.truth.look_again(now, hub, None);
                }
            }
            _ => {}
        }
        let deletion = match effect.cause {
            Cause::Namespace => Deletion::WithNamespace,
            _ => Deletion::Named,
        };
        if effect.change == Change::Marked && &*effect.key.resource == "namespaces" {
            self.truth.namespace_deleted(now, hub, &effect.key.name);
        }
        match (scene.before(), scene.after()) {
            (_, Some(object)) if is_withdrawn(object) => {
                self.truth.root_withdrawn(now, object, deletion);
            }
            (_, Some(object)) if is_root(&effect.key, object) => {
                self.truth.root_changed(now, hub, &effect.key, object, deletion);
            }
            // A hub takes off finalizers; it never deletes a root that no person deleted.
            (Some(object), None) if scene.cluster.is_empty() => {
                self.truth.root_gone(now, object, deletion);
            }
            _ => {}
        }
    }

    fn observe_member(&mut self, scene: &Scene<'_>, found: &mut Vec<(u8, String)>) {
        self.note_jobs(scene);
        self.note_rollouts(scene);
        self.note_releases(scene);
        self.note_times(scene);
        let own = scene.effect.key.namespace.starts_with("limen-")
            || scene.effect.key.name.starts_with("limen-");
        if !scene.effect.actor.is_hub() || own {
            return;
        }
        self.writes.push_back((scene.now, scene.describe("writes")));
        while self.writes.front().is_some_and(|(at, _)| at + 600_000 < scene.now) {
            self.writes.pop_front();
        }
        self.leadership(scene, found);
        self.job_runs_twice(scene, found);
        self.placement_widens(scene, found);
        self.ownership(scene, found);
        self.removal(scene, found);
        self.replicas_fall(scene, found);
        self.wave_opens_early(scene, found);
    }
}

/// The root of a leaf.
fn root_of(leaf: &Value) -> &str {
    label(leaf, ROOT_LABEL).unwrap_or_default()
}

/// Whether an object has both labels of a leaf.
fn has_both_labels(object: &Value) -> bool {
    label(object, HUB_LABEL).is_some() && label(object, ROOT_LABEL).is_some()
}

/// When something happened, for sentences.
fn since(at: u64) -> String {
    format!("at {}", clock(at))
}

/// The uid of what an effect is about.
fn subject<'a>(scene: &'a Scene<'_>) -> &'a str {
    scene.before().or(scene.after()).map_or("", uid)
}
