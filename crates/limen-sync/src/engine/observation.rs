//! What watches tell about the member's leaves and its claim.

use std::sync::Arc;

use limen_api::dialect::identity;
use limen_core::federated::{Kind, ObjectId};
use limen_core::mark::Mark;
use serde_json::Value;

use super::Engine;
use crate::claim::{FoundClaim, claim_id, is_claim};
use crate::leaves::Source;
use crate::syncer::MemberNews;
use crate::watch::Seen;

impl Engine {
    pub(super) fn see(&mut self, kind: &Arc<Kind>, seen: Seen) {
        match seen {
            Seen::State(objects, version) => self.see_all(kind, objects, &version),
            Seen::Changed(object) => {
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
                self.leaves.watched(kind, version(&object));
                if is_claim(&object) {
                    self.authority.lose();
                    return;
                }
                let id = self.leaves.known(identity(&object, kind));
                self.leaves.deleted(&id, &object);
                self.consider(&id);
            }
            Seen::Bookmark(version) => self.leaves.watched(kind, &version),
            Seen::UnknownKind => {
                self.found_again(kind);
                self.missing.insert(kind.clone());
                self.listed.insert(kind.clone());
                for id in self.leaves.of_kind(kind) {
                    self.leaves.gone(&id);
                    self.leaves.absent(&id, "");
                    self.consider(&id);
                }
                self.say(MemberNews::Listed(kind.clone()));
            }
            Seen::OtherVersions(versions) => {
                let message = format!("served in other versions only: {}", versions.join(", "));
                self.other_versions.insert(kind.clone(), versions);
                for id in self.leaves.of_kind(kind) {
                    self.consider(&id);
                }
                self.lose(kind, message);
            }
            Seen::Lost(error) => self.lose(kind, limen_api::why(&error)),
        }
    }

    fn see_all(&mut self, kind: &Arc<Kind>, objects: Vec<Value>, version: &str) {
        self.leaves.listed(kind, version);
        self.found_again(kind);
        self.listed.insert(kind.clone());
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
        if !claimed && *kind == claim_id(self.leaves.hub()).kind {
            self.authority.lose();
        }
        for id in before {
            self.leaves.missing_from_list(&id);
            self.consider(&id);
        }
        self.say(MemberNews::Listed(kind.clone()));
    }

    fn see_claim(&mut self, object: &Value) {
        let seen = identity(object, &claim_id(self.leaves.hub()).kind);
        if seen != claim_id(self.leaves.hub()) {
            return;
        }
        let found = FoundClaim::of(object);
        self.tell_mark(Some(found.claim.mark));
        if let Some(claim) = self.authority.see(found) {
            self.authority_changed();
            self.say(MemberNews::Claimed(claim));
        }
    }

    /// Tells the newest mark that the member carries.
    pub(super) fn tell_mark(&mut self, mark: Option<Mark>) {
        if let Some(mark) = mark.filter(|mark| *mark > self.newest) {
            self.newest = mark;
            self.say(MemberNews::Mark(mark));
        }
    }

    /// A kind can be listed, or is known not to be there.
    fn found_again(&mut self, kind: &Arc<Kind>) {
        self.missing.remove(kind);
        self.other_versions.remove(kind);
        self.lost.remove(kind);
    }

    /// A kind cannot be listed or watched. Probes find out whether the member can be reached at
    /// all.
    fn lose(&mut self, kind: &Arc<Kind>, message: String) {
        if self.lost.insert(kind.clone()) {
            let cluster = &self.options.cluster;
            tracing::debug!(%cluster, kind = kind.kind, error = message, "watch lost");
            self.say(MemberNews::Lost(kind.clone(), message));
            // A broken watch may be all that tells of another cluster behind the same endpoint.
            self.authority.revoke();
            self.leaves.set_epoch(None);
            self.suspect = true;
        }
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
        let versions = self.other_versions.get(kind)?;
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

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}
