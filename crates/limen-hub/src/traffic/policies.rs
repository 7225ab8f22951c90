//! Which policy is in force for which root, and how far canaries are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limen_api::{TrafficPolicy, TrafficPolicyStatus};
use limen_core::compile::{
    Answers, Figures, Key, Phase, Policy, Progress, conflicting_policy, governing_policy,
};
use limen_core::federated::ObjectId;

use super::edges::fresh_reports;
use super::{Traffic, global_key, now};
use crate::conditions::condition;
use crate::outbox::Record;

/// A policy that the hub knows.
pub(super) struct PolicyEntry {
    pub(super) object: TrafficPolicy,
    /// The spec when it was last acceptable.
    pub(super) in_force: Option<Policy>,
    /// Why the spec is not in force.
    pub(super) problem: Option<(&'static str, String)>,
    pub(super) canary: Option<Progress>,
    /// What its canary has answered. It is not written down: a hub that starts counts anew.
    answers: Answers,
}

impl PolicyEntry {
    /// What people read about it.
    pub(super) fn status(&self) -> TrafficPolicyStatus {
        let before = self.object.status.as_ref().map_or(&[][..], |before| &before.conditions);
        let (status, reason, message) = match &self.problem {
            None => ("True", "InForce", ""),
            Some((reason, message)) => ("False", *reason, message.as_str()),
        };
        let now = limen_sync::clock::now();
        let mut accepted = condition(before, "Accepted", status, reason, message, now);
        accepted.observed_generation = self.object.metadata.generation;
        TrafficPolicyStatus {
            conditions: vec![accepted],
            canary: self.canary.clone(),
            in_force: self.in_force.clone(),
        }
    }
}

impl Traffic {
    pub(super) fn policy_changed(&mut self, key: Key, object: TrafficPolicy) {
        let status = object.status.clone().unwrap_or_default();
        let known = self.policies.get_mut(&key);
        match known {
            Some(known) => known.object = object,
            None => {
                let (in_force, canary) = (status.in_force, status.canary);
                let answers = Answers::default();
                let known = PolicyEntry { object, in_force, problem: None, canary, answers };
                self.policies.insert(key, known);
            }
        }
        self.judge_policies();
    }

    pub(super) fn policy_gone(&mut self, key: &Key) {
        self.policies.remove(key);
        self.judge_policies();
        self.namespace_dirty(&key.0);
    }

    /// Decides which policies are in force. What cannot be leaves the last that could in place.
    pub(super) fn judge_policies(&mut self) {
        if !self.complete {
            return;
        }
        let mut concerned = Vec::new();
        let keys: Vec<Key> = self.policies.keys().cloned().collect();
        for key in keys {
            let rival = self.older_rival(&key);
            let names = self.clusters.keys().map(|name| &**name);
            let Some(known) = self.policies.get_mut(&key) else { continue };
            let spec = &known.object.spec.policy;
            let problem = match (rival, spec.check(names)) {
                (Some(rival), _) => {
                    let message = format!(
                        "the policy {rival} is for the same root and older; delete one of them"
                    );
                    Some(("Conflicted", message))
                }
                (None, Err(problem)) => {
                    Some(("Invalid", format!("{problem}; what was in force before stays so")))
                }
                (None, Ok(())) => None,
            };
            let accepted = problem.is_none();
            let changed = accepted && known.in_force.as_ref() != Some(spec);
            known.problem = problem;
            if changed {
                let trial = |policy: &Policy| policy.canary.clone();
                if known.in_force.as_ref().and_then(trial) != trial(spec) {
                    known.canary = None;
                }
                known.in_force = Some(spec.clone());
                concerned.push(key.0.clone());
            }
            if known.object.status.as_ref() != Some(&known.status()) {
                self.records.push(Record::TrafficPolicy(key));
            }
        }
        for namespace in concerned {
            self.namespace_dirty(&namespace);
        }
        self.move_canaries();
    }

    /// A policy with the same target that comes first.
    fn older_rival(&self, key: &Key) -> Option<String> {
        let mine = self.policies.get(key)?.object.candidate();
        let here = self.policies_in(&key.0).map(|(_, known)| known.object.candidate());
        conflicting_policy(here, &mine).map(str::to_owned)
    }

    fn policies_in(&self, namespace: &str) -> impl Iterator<Item = (&Key, &PolicyEntry)> {
        let from = (namespace.to_owned(), String::new());
        self.policies.range(from..).take_while(move |(key, _)| key.0 == namespace)
    }

    fn namespace_dirty(&mut self, namespace: &str) {
        let inside = |id: &&Arc<ObjectId>| id.namespace.as_deref() == Some(namespace);
        let inside: Vec<_> = self.roots.keys().filter(inside).cloned().collect();
        for id in inside {
            // A policy may name other Services for its groups.
            self.index(&id);
            self.dirty.insert(id);
        }
    }

    /// The policy in force for a root: its own, or else that of its namespace.
    pub(super) fn policy_of(&self, id: &ObjectId) -> Option<(Key, &Policy)> {
        let kind = id.kind.kind.as_str();
        let namespace = id.namespace.as_deref().unwrap_or_default();
        let here = self
            .policies_in(namespace)
            .filter_map(|(_, known)| Some(known.object.candidate_of(known.in_force.as_ref()?)));
        let found = governing_policy(here, |target| target.kind == kind && target.name == id.name)?;
        let key = (namespace.to_owned(), found.name.to_owned());
        let policy = self.policies.get(&key)?.in_force.as_ref()?;
        Some((key, policy))
    }

    /// The share that a policy's canary has reached.
    pub(super) fn canary_percent(&self, key: &Key) -> Option<u8> {
        self.policies.get(key)?.canary.as_ref().map(|canary| canary.percent)
    }

    /// Lets canaries begin, go on, and end.
    pub(super) fn move_canaries(&mut self) {
        let time = now();
        let mut moved = Vec::new();
        let concerned = self.on_trial();
        for (key, known) in &mut self.policies {
            let trial = known.in_force.as_ref().and_then(|policy| policy.canary.as_ref());
            let Some(trial) = trial else {
                known.canary = None;
                continue;
            };
            let is_meant = |global: &str| concerned.get(global) == Some(key);
            let reports =
                self.edges.iter().filter_map(|(name, edge)| Some((&**name, edge.status.as_ref()?)));
            known.answers.look(reports, is_meant, &trial.group);
            let (answers, fresh) =
                (known.answers.given(), fresh_reports(&self.edges, &self.heard, time));
            let figures = Figures::of(answers, fresh, is_meant, &trial.group);
            let next = match &known.canary {
                None => trial.begin(time),
                Some(at) => trial.next(at, figures, time),
            };
            if known.canary.as_ref() == Some(&next) {
                continue;
            }
            if known.canary.as_ref().is_none_or(|at| at.since != next.since) {
                known.answers.begin_step();
            }
            if next.phase == Phase::RolledBack {
                tracing::warn!(policy = key.1, reason = next.message, "a canary was rolled back");
            }
            known.canary = Some(next);
            moved.push(key.clone());
        }
        for key in moved {
            self.namespace_dirty(&key.0);
            self.records.push(Record::TrafficPolicy(key));
        }
    }

    /// The compiled roots, as namespace/name, that go by a policy with a canary, and which it is.
    fn on_trial(&self) -> BTreeMap<String, Key> {
        let has_canary = |known: &PolicyEntry| {
            known.in_force.as_ref().is_some_and(|policy| policy.canary.is_some())
        };
        let namespaces: BTreeSet<&String> = self
            .policies
            .iter()
            .filter(|(_, known)| has_canary(known))
            .map(|(key, _)| &key.0)
            .collect();
        let roots = self
            .roots
            .keys()
            .filter(|id| id.namespace.as_ref().is_some_and(|name| namespaces.contains(name)));
        let governed = roots.filter_map(|id| {
            let (namespace, name) = global_key(id);
            Some((format!("{namespace}/{name}"), self.policy_of(id)?.0))
        });
        governed.collect()
    }
}
