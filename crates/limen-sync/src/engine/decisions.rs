//! Decisions about each leaf, and their outcomes.

use std::sync::Arc;
use std::time::Duration;

use limen_api::LeafState;
use limen_core::corrections::Correction;
use limen_core::federated::{Kind, ObjectId};
use limen_core::mark::Mark;
use limen_core::reconcile::{Action, Refusal};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Done, Engine};
use crate::leaves::{NAMED, Source};
use crate::member_error::{MemberError, MemberErrorKind};
use crate::syncer::MemberNews;
use crate::work::{LeafChange, Outcome, Task, is_fenced};

/// How long a Namespace waits for the same objects in it before they count as foreign.
const EMPTYING: Duration = Duration::from_secs(60);

impl Engine {
    /// Looks at a leaf again: queues what is to be done, and reports how far it is.
    pub(super) fn consider(&mut self, id: &Arc<ObjectId>) {
        let (action, _) = self.leaves.action(id);
        let desired = self.leaves.desired(id).is_some();
        if let Some(message) = self.unserved(id).filter(|_| desired) {
            self.leaves.trouble(id, Some((LeafState::Failed, message)));
        } else {
            match action {
                Action::Keep if self.leaves.to_be_looked_for(id) => self.queue.push(id.clone()),
                Action::Keep => {
                    self.leaves.settled(id, self.time());
                    self.leaves.trouble(id, None);
                }
                // The watch tells when it is gone; should that be silent, it is read.
                Action::Wait => {
                    self.queue.push_later(id.clone(), Instant::now() + self.options.probe_every);
                }
                Action::Refuse(refusal) if self.leaves.uid(id).is_some() => {
                    self.refuse(id, &refusal);
                }
                Action::Update if self.leaves.has_drifted(id) => self.consider_drift(id),
                _ => self.queue.push(id.clone()),
            }
            self.wait_for_authority(id);
        }
        self.report(id);
        if self.is_over(id) {
            self.emptying.remove(id);
            self.leaves.desire(id.clone(), None);
            self.report(id);
        }
    }

    fn consider_drift(&mut self, id: &Arc<ObjectId>) {
        let now = self.time();
        match self.leaves.drifted(id, now) {
            Correction::Now => self.queue.push(id.clone()),
            Correction::At(due) => self.queue.push_later(id.clone(), self.started + due),
            Correction::Yield => match self.leaves.yielded(id).cloned() {
                Some(message) => {
                    self.leaves.trouble(id, Some((LeafState::Conflict, message)));
                }
                None => self.queue.push(id.clone()),
            },
        }
    }

    /// A deletion is over when nothing is left to delete, and that is certain: the member has said
    /// what it holds, nothing is under way, and no write has ended without an answer.
    pub(super) fn is_over(&self, id: &Arc<ObjectId>) -> bool {
        self.leaves.shall_go(id)
            && self.leaves.action(id).0 == Action::Keep
            && self.is_listed(&id.kind)
            && !self.queue.working(id)
            && !self.leaves.to_be_looked_for(id)
    }

    /// Whether the hub has been told that all leaves of a kind are known.
    fn is_listed(&self, kind: &Kind) -> bool {
        let elsewhere = self.other_versions.holds_none(kind);
        let here = !self.lost.contains(kind) && !self.other_versions.may_hold(kind);
        self.listed.contains(kind) && (here || elsewhere)
    }

    pub(super) fn report(&mut self, id: &Arc<ObjectId>) {
        let report = self.leaves.report(id);
        let before = self.reported.get(id);
        // That something is about to be done is no news to the hub that desires it.
        let begun = report.state == Some(LeafState::Pending)
            && report.message.is_empty()
            && report.held_for.is_none();
        if before == Some(&report) || (before.is_none() && begun) {
            return;
        }
        match report.state.is_none() && report.held_for.is_none() {
            true => drop(self.reported.remove(id)),
            false => drop(self.reported.insert(id.clone(), report.clone())),
        }
        self.say(MemberNews::Leaf(id.clone(), report));
    }

    pub(super) fn start_work(&mut self, work: &mut JoinSet<Done>) {
        if !self.can_work() {
            return;
        }
        while work.len() < self.options.concurrency
            && let Some(id) = self.queue.pop(Instant::now())
        {
            let Some(task) = self.task(&id) else {
                self.queue.done(id.clone(), false, Instant::now());
                self.consider(&id);
                continue;
            };
            let (api, hub) = (self.api.clone(), self.leaves.hub().to_owned());
            work.spawn(async move {
                let outcome = task.perform(&api, &id, &hub).await;
                (id, outcome)
            });
        }
    }

    fn task(&mut self, id: &Arc<ObjectId>) -> Option<Task> {
        if self.unserved(id).is_some() {
            return None;
        }
        let desired = self.leaves.desired(id)?.clone();
        let uid = self.leaves.uid(id).unwrap_or_default().to_owned();
        let version = self.leaves.version(id);
        let (action, drift) = self.leaves.action(id);
        match action {
            Action::Create | Action::Adopt => {
                Some(Task::Place { mark: self.stamp(desired.revision)?, desired })
            }
            Action::Refuse(_) if version.is_none() => {
                Some(Task::Place { mark: self.stamp(desired.revision)?, desired })
            }
            Action::Update => {
                let mut corrected = None;
                if self.leaves.has_drifted(id) {
                    let now = self.time();
                    let fields = match drift.is_empty() {
                        true => vec!["metadata".to_owned()],
                        false => drift,
                    };
                    match self.leaves.drifted(id, now) {
                        Correction::Now => self.leaves.correcting(id, now),
                        Correction::At(_) => return None,
                        Correction::Yield if self.leaves.yielded(id).is_some() => return None,
                        Correction::Yield => return Some(Task::FindRival { fields }),
                    }
                    corrected = Some(fields);
                }
                let adopted = self.leaves.is_adopted(id);
                let mark = self.stamp(desired.revision)?;
                Some(Task::Update { desired, mark, over: version?, adopted, drift: corrected })
            }
            Action::Delete if id.kind.kind == "Namespace" && id.kind.group().is_empty() => {
                let waiting = self.emptying.get(id);
                let patient = waiting.is_none_or(|(_, since)| since.elapsed() < EMPTYING);
                Some(Task::DeleteNamespace { version: version?, patient })
            }
            Action::Delete => Some(Task::Delete { version: version? }),
            Action::Release => Some(Task::Release { version: version? }),
            Action::Wait => Some(Task::Look { uid }),
            Action::Keep if self.leaves.to_be_looked_for(id) => Some(Task::Look { uid }),
            Action::Keep | Action::Refuse(_) => None,
        }
    }

    /// The mark of a write, which the hub need not be told of.
    fn stamp(&mut self, revision: u64) -> Option<Mark> {
        let mark = self.authority.stamp(revision)?;
        self.newest = self.newest.max(mark);
        Some(mark)
    }

    /// Notes how work went.
    pub(super) fn finish(&mut self, id: &Arc<ObjectId>, outcome: Result<Outcome, MemberError>) {
        let mut failed = false;
        let mut suspect = false;
        match outcome {
            Ok(Outcome::Holds(change, object)) => {
                self.leaves.trouble(id, None);
                let read = change == LeafChange::Found;
                self.leaves.observe(id, &object, if read { Source::Read } else { Source::Apply });
                self.say(MemberNews::Changed(id.clone(), change));
                // What is still there is looked at later and later.
                failed = self.leaves.action(id).0 == Action::Wait;
            }
            Ok(Outcome::LetGo(change)) => {
                self.leaves.trouble(id, None);
                match change {
                    LeafChange::Released => self.leaves.gone(id),
                    _ => self.leaves.going(id),
                }
                self.say(MemberNews::Changed(id.clone(), change));
            }
            Ok(Outcome::Shared) => {
                let root_uid = self.leaves.desired(id).map(|desired| desired.root_uid.clone());
                if let Some(root_uid) = root_uid {
                    self.leaves.share(id, root_uid);
                }
            }
            Ok(Outcome::Refused(refusal)) => {
                self.refuse(id, &refusal);
                failed = true;
            }
            Ok(Outcome::MustWait) => failed = true,
            Ok(Outcome::NotYet(left)) => {
                self.wait_for_contents(id, left);
                failed = true;
            }
            Ok(Outcome::Rival { fields, manager }) => self.yield_to(id, fields, manager),
            Ok(Outcome::Changed { found: Some(object), .. }) => {
                self.leaves.observe(id, &object, Source::Read);
                self.tell_mark(self.leaves.mark(id));
            }
            Ok(Outcome::Changed { found: None, uid } | Outcome::Absent { uid }) => {
                self.leaves.absent(id, &uid);
            }
            Err(error) if is_fenced(&error) => failed = true,
            Err(error) => {
                if error.leaves_doubt() {
                    self.leaves.mark_unconfirmed(id);
                }
                suspect = matches!(
                    error.kind,
                    MemberErrorKind::Unreachable | MemberErrorKind::Credential
                );
                if !suspect && self.leaves.is_news(id, error.kind) {
                    self.say(MemberNews::Failed(id.clone(), error.clone()));
                }
                self.leaves.trouble(id, Some((LeafState::Failed, error.message)));
                failed = true;
            }
        }
        self.queue.done(id.clone(), failed, Instant::now());
        if failed && !self.is_over(id) {
            self.report(id);
        } else {
            self.consider(id);
        }
        self.reachable &= !suspect;
        self.suspect |= suspect;
    }

    /// Leaves an object alone that is not ours to take, and says so once.
    fn refuse(&mut self, id: &Arc<ObjectId>, refusal: &Refusal) {
        let message = refusal.to_string();
        if self.leaves.refuse(id) {
            let kind = MemberErrorKind::Rejected;
            let error = MemberError { kind, message: message.clone() };
            self.say(MemberNews::Failed(id.clone(), error));
        }
        self.leaves.trouble(id, Some((LeafState::Conflict, message)));
    }

    fn wait_for_contents(&mut self, id: &Arc<ObjectId>, left: Vec<String>) {
        let some: Vec<_> = left.iter().take(NAMED).cloned().collect();
        let message = format!("waits until the namespace is empty: {} left", some.join(", "));
        self.leaves.trouble(id, Some((LeafState::Deleting, message)));
        match self.emptying.get(id) {
            Some((before, _)) if *before == left => {}
            _ => drop(self.emptying.insert(id.clone(), (left, Instant::now()))),
        }
    }

    /// Leaves fields to another manager until the desired leaf changes.
    fn yield_to(&mut self, id: &Arc<ObjectId>, fields: Vec<String>, manager: String) {
        let message = format!(
            "{manager} keeps changing {}; it is left to {manager} until the root changes",
            fields.join(", ")
        );
        self.leaves.trouble(id, Some((LeafState::Conflict, message.clone())));
        if self.leaves.yield_to(id, message) {
            let change = LeafChange::Yielded { fields, manager };
            self.say(MemberNews::Changed(id.clone(), change));
        }
    }
}
