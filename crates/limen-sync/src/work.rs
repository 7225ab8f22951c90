//! One piece of work in a member.

use std::sync::Arc;
use std::time::Duration;

use limen_core::federated::{ObjectId, OnConflict};
use limen_core::leaf::{HASH_ANNOTATION, HUB_LABEL, Leaf, ROOT_LABEL};
use limen_core::reconcile::{Action, Held, Refusal, Wanted, decide, differences};
use serde_json::{Value, json};

use crate::fault::MemberError;
use crate::leaves::NAMED;
use crate::object_api::ObjectApi;

const PATIENCE: u64 = 15;

/// What is to be done.
pub(crate) enum Task {
    /// See what is there under the name of a leaf, and act on it.
    Place { leaf: Arc<Leaf>, root_uid: Arc<str>, on_conflict: OnConflict },
    /// Make a leaf of ours look as it shall.
    Update { leaf: Arc<Leaf>, drift: Vec<String> },
    /// Delete a leaf of ours.
    Delete { uid: String },
    /// Take our marks off.
    Release { uid: String },
    /// See whether there is a leaf of ours: a request may have made one, or one that was deleted
    /// may be gone.
    Look { uid: String },
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeafChange {
    /// A leaf was already as it shall be.
    Found,
    /// A leaf was created.
    Created,
    /// A leaf was changed.
    Updated,
    /// A leaf that somebody had changed in the member was put right; these fields differed.
    Corrected(Vec<String>),
    /// An object that was there before became a leaf.
    Adopted,
    /// A leaf was deleted.
    Deleted,
    /// A leaf was let go.
    Released,
}

/// How it went.
pub(crate) enum Outcome {
    /// The member holds this now.
    Holds(LeafChange, Value),
    /// The member holds it no longer, or not as ours.
    LetGo(LeafChange),
    /// The member has one of its own, which is used as it is.
    Shared,
    /// The member has one of its own, which is left alone.
    Refused(Refusal),
    /// It must go before anything can be done.
    MustWait,
    /// The member holds none of ours; what was known of one with this uid is not true any more.
    Absent { uid: String },
}

impl Task {
    /// Does the work.
    pub(crate) async fn perform(
        self,
        api: &ObjectApi,
        id: &ObjectId,
        hub: &str,
    ) -> Result<Outcome, MemberError> {
        let work = async {
            match self {
                Self::Place { leaf, root_uid, on_conflict } => {
                    place(api, id, hub, &leaf, &root_uid, on_conflict).await
                }
                Self::Update { leaf, drift } => {
                    let object = api.apply(id, &leaf.object).await?;
                    let did = if drift.is_empty() {
                        LeafChange::Updated
                    } else {
                        LeafChange::Corrected(drift)
                    };
                    Ok(Outcome::Holds(did, object))
                }
                Self::Delete { uid } => {
                    api.delete(id, &uid).await?;
                    Ok(Outcome::LetGo(LeafChange::Deleted))
                }
                Self::Release { uid } => {
                    let patch = json!({"metadata": {
                        "uid": uid,
                        "labels": {HUB_LABEL: null, ROOT_LABEL: null},
                        "annotations": {HASH_ANNOTATION: null}}});
                    api.merge(id, "", &patch).await?;
                    Ok(Outcome::LetGo(LeafChange::Released))
                }
                Self::Look { uid } => {
                    let found = api.get(id).await?;
                    let ours =
                        found.filter(|object| object["metadata"]["labels"][HUB_LABEL] == hub);
                    Ok(match ours {
                        Some(leaf) => Outcome::Holds(LeafChange::Found, leaf),
                        None => Outcome::Absent { uid },
                    })
                }
            }
        };
        let limit = Duration::from_secs(PATIENCE);
        tokio::time::timeout(limit, work).await.map_err(|_| MemberError::timeout(PATIENCE))?
    }
}

async fn place(
    api: &ObjectApi,
    id: &ObjectId,
    hub: &str,
    leaf: &Leaf,
    root_uid: &str,
    on_conflict: OnConflict,
) -> Result<Outcome, MemberError> {
    // Mostly there is nothing, and then one request does it all.
    if let Some(object) = api.apply_new(id, &leaf.object).await? {
        return Ok(Outcome::Holds(LeafChange::Created, object));
    }
    let found = api.get(id).await?;
    let held = found.as_ref().map(Held::of);
    let drift = drift(leaf, found.as_ref(), held.as_ref());
    let wanted = Wanted::Leaf { leaf, root_uid, on_conflict, settled: None, contained: false };
    let did = match decide(&wanted, held.as_ref(), hub) {
        Action::Create => LeafChange::Created,
        Action::Update if drift.is_empty() => LeafChange::Updated,
        Action::Update => LeafChange::Corrected(drift),
        Action::Adopt => LeafChange::Adopted,
        Action::Refuse(refusal) => return Ok(Outcome::Refused(refusal)),
        Action::Wait => return Ok(Outcome::MustWait),
        Action::Keep | Action::Delete | Action::Release => return Ok(Outcome::Shared),
    };
    let applied = api.apply(id, &leaf.object).await?;
    let version = held.map(|held| held.resource_version);
    let same = matches!(did, LeafChange::Updated | LeafChange::Corrected(_))
        && version == Some(Held::of(&applied).resource_version);
    Ok(Outcome::Holds(if same { LeafChange::Found } else { did }, applied))
}

/// What somebody has changed of a leaf that was there before anybody had told of it.
fn drift(leaf: &Leaf, found: Option<&Value>, held: Option<&Held>) -> Vec<String> {
    let is_this = held.is_some_and(|held| held.applied.as_deref() == Some(&leaf.hash));
    let found = found.filter(|_| is_this);
    found.map_or(Vec::new(), |found| differences(&leaf.object, found, NAMED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_of_this_very_leaf_is_named() {
        let object = json!({"data": {"key": "one"}});
        let leaf = Leaf { object, hash: "new".to_owned() };
        let named = |hash: &str, key: &str| {
            let annotations = json!({HASH_ANNOTATION: hash});
            let found = json!({"metadata": {"annotations": annotations}, "data": {"key": key}});
            drift(&leaf, Some(&found), Some(&Held::of(&found)))
        };
        assert_eq!(named("new", "changed"), ["data.key"]);
        assert!(named("new", "one").is_empty());
        assert!(named("old", "changed").is_empty(), "that is how it was wished before");
        assert!(drift(&leaf, None, None).is_empty());
    }
}
