//! Watch events of the member's leaves and its claim.

use std::sync::Arc;

use limen_api::dialect::identity;
use limen_core::federated::{Kind, ObjectId};
use limen_core::mark::Mark;
use serde_json::Value;

use super::Engine;
use crate::claim::{FoundClaim, claim_id, claim_kind, is_claim};
use crate::leaves::Source;
use crate::syncer::MemberNews;
use crate::watch::Seen;

impl Engine {
    pub(super) fn see(&mut self, kind: &Arc<Kind>, seen: Seen) {
        match seen {
            Seen::State(objects, version) => self.see_all(kind, objects, &version),
            Seen::Changed(object) => {
                self.watch_established(kind);
                self.leaves.watched(kind, version(&object));
                if is_claim(&object) {
                    return self.see_claim(&object);
                }
                let id = self.leaves.known(identity(&object, kind));
                // Mostly this is what we wrote ourselves, and the answer to that has told it.
                if !self.leaves.is_known(&id, &object) {
                    self.leaves.observe(&id, &object, Source::Watch);
                    self.tell_mark(self.leaves.mark(&id));
                    self.consider(&id);
                }
            }
            Seen::Gone(object) => {
                self.watch_established(kind);
                self.leaves.watched(kind, version(&object));
                if is_claim(&object) {
                    return self.claim_gone(&object);
                }
                let id = self.leaves.known(identity(&object, kind));
                self.leaves.deleted(&id, &object);
                self.consider(&id);
            }
            Seen::Bookmark(version) => {
                self.watch_established(kind);
                self.leaves.watched(kind, &version);
            }
            // Leaves are written over the version that was seen: what is behind is refused.
            Seen::Behind => {}
            Seen::UnknownKind => {
                self.lost.remove(kind);
                self.other_versions.remove(kind);
                self.missing.insert(kind.clone());
                self.listed.insert(kind.clone());
                self.say(MemberNews::Unserved(kind.clone()));
                for id in self.leaves.of_kind(kind) {
                    self.leaves.gone(&id);
                    self.leaves.absent(&id, "");
                    self.consider(&id);
                }
            }
            Seen::OtherVersions(versions) => self.see_other_versions(kind, versions),
            Seen::Lost(error) => {
                if *kind == claim_kind() {
                    self.authority.unwatched();
                }
                let newly = self.lose(kind, limen_api::error_text(&error));
                // A broken watch may be all that tells of another cluster behind the same endpoint.
                if newly && !is_answer(&error) {
                    self.revoke();
                    self.suspect = true;
                }
            }
        }
    }

    fn see_all(&mut self, kind: &Arc<Kind>, objects: Vec<Value>, version: &str) {
        self.leaves.listed(kind, version);
        self.missing.remove(kind);
        self.other_versions.remove(kind);
        self.listed.insert(kind.clone());
        // A kind that is watched is found again once its watch is established.
        let used = self.watching.get(kind).is_some_and(|used| *used.borrow());
        let watched = used || !objects.is_empty();
        let mut before = self.leaves.of_kind(kind);
        let mut claimed = false;
        for object in objects {
            if is_claim(&object) {
                claimed |= identity(&object, kind) == claim_id(self.leaves.hub());
                self.see_claim(&object);
                continue;
            }
            let id = self.leaves.known(identity(&object, kind));
            before.remove(&id);
            self.leaves.observe(&id, &object, Source::List);
            self.tell_mark(self.leaves.mark(&id));
            self.consider(&id);
        }
        if !claimed && *kind == claim_kind() {
            let contest = self.authority.gone();
            self.settle_contest(contest);
        }
        for id in before {
            self.leaves.missing_from_list(&id);
            self.consider(&id);
        }
        if !(watched && self.lost.contains(kind)) {
            self.lost.remove(kind);
            self.say(MemberNews::Listed(kind.clone()));
        }
    }

    /// The watch of a kind, which has been listed, is answered.
    fn watch_established(&mut self, kind: &Arc<Kind>) {
        if self.lost.remove(kind) {
            // Deletions wait for it.
            for id in self.leaves.of_kind(kind) {
                self.consider(&id);
            }
            self.say(MemberNews::Listed(kind.clone()));
        }
    }

    fn see_claim(&mut self, object: &Value) {
        let seen = identity(object, &claim_kind());
        if seen != claim_id(self.leaves.hub()) {
            return;
        }
        let found = FoundClaim::of(object);
        self.tell_mark(Some(found.claim.mark));
        let contest = self.authority.see(found);
        self.settle_contest(contest);
    }

    fn claim_gone(&mut self, object: &Value) {
        if identity(object, &claim_kind()) == claim_id(self.leaves.hub()) {
            let contest = self.authority.gone();
            self.settle_contest(contest);
        }
    }

    /// Tells the newest mark that the member carries.
    pub(super) fn tell_mark(&mut self, mark: Option<Mark>) {
        if let Some(mark) = mark.filter(|mark| *mark > self.newest) {
            self.newest = mark;
            self.say(MemberNews::Mark(mark));
        }
    }

    /// A kind cannot be listed or watched; true if it could before.
    pub(super) fn lose(&mut self, kind: &Arc<Kind>, message: String) -> bool {
        let newly = self.lost.insert(kind.clone());
        if newly {
            let cluster = &self.options.cluster;
            tracing::debug!(%cluster, kind = kind.kind, error = message, "watch lost");
            self.say(MemberNews::Lost(kind.clone(), message));
        }
        newly
    }

    /// Why leaves of a kind cannot be written, if so.
    pub(super) fn unserved(&self, id: &ObjectId) -> Option<String> {
        let kind = &id.kind;
        if self.missing.contains(kind) {
            return Some(format!(
                "the cluster does not know {} ({}); install its CRD there",
                kind.kind, kind.api_version
            ));
        }
        let versions = self.other_versions.of(kind)?;
        Some(format!(
            "the cluster does not serve {} in {}, only in {}; federate one of these versions",
            kind.kind,
            kind.api_version,
            versions.join(", ")
        ))
    }

    pub(super) fn take_inventory(&mut self) {
        // Counting is for people: it may wait until the member is at rest.
        let looked = |kind: &Arc<Kind>| self.listed.contains(kind) || self.lost.contains(kind);
        let working = self.can_work() && self.queue.busy() > 0;
        if working || (self.inventory.is_none() && !self.watching.keys().all(looked)) {
            return;
        }
        let known = self.inventory.as_ref().map(|(leaves, missing)| (*leaves, missing));
        if known != Some((self.leaves.count(), &self.missing)) {
            let (leaves, missing) = (self.leaves.count(), self.missing.clone());
            self.inventory = Some((leaves, missing.clone()));
            self.say(MemberNews::Inventory { leaves, missing });
        }
    }
}

/// Whether the member's API itself answered. A proxy or load balancer in front of it answers with
/// something else than a Status.
fn is_answer(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason != "Failed to parse error data")
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}
