//! Permits: which members may be written to.
//!
//! ```text
//! member described ──► is it the cluster that it was? ──► is this hub's state the newest? ──► permit
//! ```
//!
//! A syncer writes nothing before it has a permit, and loses it whenever its member was away.

use std::sync::Arc;

use limen_core::lifecycle::{Identity, Recorded, identify};
use limen_core::mark::Mark;
use limen_sync::{Claim, Description, Permit};
use serde_json::Value;

use super::Federation;
use crate::clusters::Member;
use crate::outbox::Record;

/// On the namespace limen-system: the newest mark that a person has decided to overrule.
const RESUME_ANNOTATION: &str = "limen.dev/resume";

/// On the same: the newest mark found in a member that is newer than this hub, and the member.
pub(super) const NEWER_ANNOTATION: &str = "limen.dev/newer-mark";
pub(super) const NEWER_CLUSTER_ANNOTATION: &str = "limen.dev/newer-mark-cluster";

/// State that members carry and that this hub does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Newer {
    pub(super) mark: Mark,
    pub(super) cluster: Arc<str>,
}

impl Federation {
    /// The mark of this hub's own state.
    fn mark(&self) -> Mark {
        let epoch = self.resumed.map_or(0, |resumed| resumed.epoch + 1).max(self.options.epoch);
        Mark { epoch, revision: self.revision }
    }

    /// Notes the revision of the hub that a version stands for.
    pub(crate) fn note_revision(&mut self, version: &str) {
        let revision = version.parse().unwrap_or_default();
        self.revision = self.revision.max(revision);
    }

    pub(super) fn described(&mut self, cluster: &Arc<str>, description: Description) {
        if let Some(claim) = &description.claim {
            self.note_mark(cluster, claim.mark);
        }
        let Some(member) = self.members.get_mut(cluster) else { return };
        member.described = Some(description);
        self.permits_due.insert(cluster.clone());
        self.record_member(cluster);
    }

    /// Another instance has claimed a member.
    pub(super) fn claimed(&mut self, cluster: &Arc<str>, claim: &Claim) {
        tracing::warn!(%cluster, instance = claim.instance, mark = %claim.mark, "claimed by another hub instance");
        self.note_mark(cluster, claim.mark);
    }

    /// A member carries the mark of some hub state. State that is newer than this hub's own means
    /// that this hub was restored or copied: nothing is written until a person decides.
    pub(super) fn note_mark(&mut self, cluster: &Arc<str>, mark: Mark) {
        let (own, overruled) = (self.mark(), self.is_overruled(mark));
        let newer = mark.epoch > own.epoch || mark.revision > own.revision;
        if overruled || !newer || self.newer.as_ref().is_some_and(|known| known.mark >= mark) {
            return;
        }
        tracing::error!(%cluster, %mark, own = %own, "a member carries newer state than this hub has; writes to members stop until limen resume");
        self.newer = Some(Newer { mark, cluster: cluster.clone() });
        self.records.push(Record::Newer);
        self.all_permits_due();
    }

    /// Whether a person has decided that this hub goes on in spite of a mark.
    fn is_overruled(&self, mark: Mark) -> bool {
        self.resumed
            .is_some_and(|resumed| mark.epoch <= resumed.epoch && mark.revision <= resumed.revision)
    }

    /// The namespace limen-system says what a person has decided.
    pub(super) fn resume_changed(&mut self, namespace: &Value) {
        let annotations = &namespace["metadata"]["annotations"];
        let mark = |annotation: &str| annotations[annotation].as_str()?.parse::<Mark>().ok();
        let resumed = mark(RESUME_ANNOTATION);
        if resumed != self.resumed {
            self.resumed = resumed;
            if self.newer.as_ref().is_some_and(|newer| self.is_overruled(newer.mark)) {
                self.newer = None;
                self.records.push(Record::Newer);
            }
            self.all_permits_due();
        }
        // A process before this one found newer state. Epoch and revision of this hub have grown
        // since, which makes its state no newer.
        let found = mark(NEWER_ANNOTATION).filter(|mark| !self.is_overruled(*mark));
        if let (None, Some(mark)) = (self.started, found) {
            let cluster = annotations[NEWER_CLUSTER_ANNOTATION].as_str().unwrap_or_default();
            self.newer = Some(Newer { mark, cluster: cluster.into() });
        }
    }

    pub(super) fn all_permits_due(&mut self) {
        self.permits_due.extend(self.members.keys().cloned());
        let names: Vec<_> = self.members.keys().cloned().collect();
        for name in names {
            self.record_member(&name);
        }
    }

    /// Gives and takes permits where something has changed.
    pub(super) fn give_permits(&mut self) {
        for name in std::mem::take(&mut self.permits_due) {
            let Some(identity) = self.identity(&name) else { continue };
            let described = self.members.get(&name).and_then(|member| member.described.as_ref());
            let permit = Permit {
                description: described.map_or(0, |described| described.number),
                instance: self.options.instance.as_str().into(),
                epoch: self.mark().epoch,
                revision: self.revision,
            };
            let stopped = self.newer.is_some();
            let Some(member) = self.members.get_mut(&name) else { continue };
            let permit = (identity == Identity::Known && !stopped).then_some(permit);
            if identity == Identity::Known && member.uid.is_none() {
                member.uid = member.described.as_ref().and_then(|known| known.uid.clone());
            }
            let was = member.away();
            member.identity = Some(identity);
            if let Some(syncer) = &member.syncer {
                syncer.permit(permit);
            }
            if member.away() != was {
                self.presence_changed(&name);
                self.obey_released_tombstones();
            }
            self.record_member(&name);
        }
    }

    /// Whether a member that was described is the cluster that it was.
    fn identity(&self, name: &Arc<str>) -> Option<Identity> {
        let member = self.members.get(name)?;
        let found = member.described.as_ref()?.uid.as_deref();
        let others = self.members.iter().filter(|(other, _)| *other != name);
        let others = others.map(|(name, member)| recorded(name, member));
        Some(identify(&recorded(name, member), found, &self.hub, others))
    }
}

fn recorded<'a>(name: &'a str, member: &'a Member) -> Recorded<'a> {
    let confirmed = member.uid.is_some();
    Recorded { name, confirmed, created: &member.created, uid: member.recorded_uid() }
}
