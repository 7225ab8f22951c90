//! What to do about one leaf in one member.

use std::sync::Arc;

use serde_json::Value;

use crate::federated::OnConflict;
use crate::leaf::{
    ADOPTED_ANNOTATION, EPOCH_ANNOTATION, HASH_ANNOTATION, HUB_LABEL, Leaf, ROOT_LABEL,
};
use crate::mark::Mark;

mod management;

pub use management::OtherManager;

/// What a member holds under the name of a leaf, as far as decisions need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its uid, which a deletion names so that nothing newer is hit.
    pub uid: Box<str>,
    /// Its version.
    pub resource_version: Box<str>,
    /// The hub that it is a leaf of.
    pub hub: Option<Arc<str>>,
    /// The root that it is a leaf of.
    pub root_uid: Option<Arc<str>>,
    /// What it was last made to look like.
    pub applied: Option<Arc<str>>,
    /// A hash of all that is not status or bookkeeping of the server.
    pub fingerprint: u64,
    /// It is being deleted.
    pub deleting: bool,
    /// It was there before it became a leaf.
    pub adopted: bool,
    /// The hub state that it was last written from.
    pub mark: Option<Mark>,
    /// The controller or declarative manager that has it, apart from Limen.
    pub manager: Option<OtherManager>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing: it is as it shall be, or none of our business.
    Keep,
    /// Create it.
    Create,
    /// Make it look as it shall: it is a leaf of ours that differs.
    Update,
    /// Take it over: it is there, and not a leaf of this root.
    Adopt,
    /// Touch nothing: it is there, and not ours to take.
    Refuse(Refusal),
    /// Delete it.
    Delete,
    /// Take our marks off and leave it be.
    Release,
    /// Wait until it is gone.
    Wait,
}

/// Why something is left alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The member had it before, and the policy says not to take it over.
    #[error(
        "the cluster already has such an object, and onConflict is Abort; delete it there, rename it, or set onConflict: Adopt"
    )]
    Foreign,
    /// Another hub keeps it.
    #[error("it is a leaf of another hub ({0}); remove its label {HUB_LABEL} to give it up there")]
    OtherHub(String),
    /// Another root of this hub has it.
    #[error("it is a leaf of another root of this hub (uid {0}), which must let go of it first")]
    OtherRoot(String),
    /// A controller or another declarative manager has it.
    #[error("it is managed by {0}; name this object in a PlacementPolicy to adopt it nevertheless")]
    Managed(OtherManager),
    /// It was written from newer state of this hub.
    #[error(
        "it was written from newer state of this hub (mark {0}); this hub may be a restored backup or a copy"
    )]
    NewerEpoch(Mark),
}

/// What shall become of a leaf.
#[derive(Clone, Debug)]
pub enum Wanted<'a> {
    /// The member shall hold this. `settled` is the fingerprint of what the last apply gave, if
    /// that is known: a member may complete what it is given, and that is no drift.
    Leaf {
        /// The leaf.
        leaf: &'a Leaf,
        /// The uid of the root.
        root_uid: &'a str,
        /// The uid of an earlier root of the same name, whose leaf may be taken over.
        replaces: Option<&'a str>,
        /// What to do about objects that are no leaves.
        on_conflict: OnConflict,
        /// Whether it may be created, or only kept where it is.
        create: bool,
        /// What the member made of it last.
        settled: Option<u64>,
        /// Whether everything in the leaf is in the object as well, where that was looked at.
        contained: bool,
    },
    /// The member shall not hold the leaf of this root any more.
    Nothing {
        /// The uid of the root.
        root_uid: &'a str,
    },
    /// The member shall keep it, and we forget it.
    Orphan {
        /// The uid of the root.
        root_uid: &'a str,
    },
}

/// Decides what to do about one object in one member.
///
/// Nothing but an adoption touches an object without both labels: the hub's, and the uid of the
/// acting root.
pub fn decide(wanted: &Wanted<'_>, held: Option<&Held>, hub: &str) -> Action {
    let leaf_of = held.and_then(|held| held.leaf_of(hub));
    match (wanted, held) {
        (Wanted::Leaf { create: true, .. }, None) => Action::Create,
        (_, None) => Action::Keep,
        (Wanted::Leaf { create: true, .. }, Some(held)) if held.deleting => Action::Wait,
        (Wanted::Leaf { .. }, Some(held)) if held.deleting => Action::Keep,
        (Wanted::Leaf { root_uid, replaces, leaf, settled, contained, .. }, Some(held))
            if leaf_of.is_some_and(|uid| uid == *root_uid || Some(uid) == *replaces) =>
        {
            let same = held.applied.as_ref() == Some(&leaf.hash) && leaf_of == Some(*root_uid);
            let unchanged = settled.map_or(*contained, |settled| settled == held.fingerprint);
            if same && unchanged { Action::Keep } else { Action::Update }
        }
        (Wanted::Leaf { on_conflict, create, .. }, Some(held)) => match leaf_of {
            Some(other) => Action::Refuse(Refusal::OtherRoot(other.to_owned())),
            None if !create => Action::Keep,
            None => about_foreign(held, *on_conflict, hub),
        },
        (Wanted::Nothing { root_uid } | Wanted::Orphan { root_uid }, Some(_))
            if leaf_of != Some(*root_uid) =>
        {
            Action::Keep
        }
        (Wanted::Nothing { .. }, Some(held)) if held.deleting => Action::Wait,
        (Wanted::Nothing { .. }, Some(held)) if held.adopted => Action::Release,
        (Wanted::Nothing { .. }, Some(_)) => Action::Delete,
        (Wanted::Orphan { .. }, Some(_)) => Action::Release,
    }
}

/// Action for a foreign object in the place of a desired leaf.
fn about_foreign(held: &Held, on_conflict: OnConflict, hub: &str) -> Action {
    let other_hub = held.hub.as_deref().filter(|other| *other != hub);
    match (on_conflict, other_hub, &held.manager) {
        (OnConflict::Share, ..) => Action::Keep,
        (_, Some(other), _) => Action::Refuse(Refusal::OtherHub(other.to_owned())),
        (OnConflict::Abort, ..) => Action::Refuse(Refusal::Foreign),
        (OnConflict::Adopt, None, Some(manager)) => {
            Action::Refuse(Refusal::Managed(manager.clone()))
        }
        (OnConflict::Adopt, None, None) | (OnConflict::AdoptNamed, ..) => Action::Adopt,
    }
}

/// The action of a hub in an epoch: an object that was written in a later epoch is never written.
pub fn fenced(action: Action, held: Option<&Held>, epoch: u64) -> Action {
    let newer = held.and_then(|held| held.mark).filter(|mark| mark.epoch > epoch);
    match (action, newer) {
        (Action::Update | Action::Adopt | Action::Delete | Action::Release, Some(mark)) => {
            Action::Refuse(Refusal::NewerEpoch(mark))
        }
        (action, _) => action,
    }
}

impl Held {
    /// The uid of the root that it is a leaf of, if it has both labels of this hub.
    pub fn leaf_of(&self, hub: &str) -> Option<&str> {
        self.root_uid.as_deref().filter(|_| self.hub.as_deref() == Some(hub))
    }

    /// Shares the texts that a member's leaves have in common, instead of a copy for each.
    pub fn share(&mut self, hub: &Arc<str>, root_uid: Option<&Arc<str>>, hash: Option<&Arc<str>>) {
        let share = |own: &mut Option<Arc<str>>, common: Option<&Arc<str>>| {
            if own.as_ref() == common {
                *own = common.cloned();
            }
        };
        share(&mut self.hub, Some(hub));
        share(&mut self.root_uid, root_uid);
        share(&mut self.applied, hash);
    }

    /// What decisions need of an object.
    pub fn of(object: &Value) -> Self {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().map(Arc::from);
        Self {
            uid: metadata["uid"].as_str().unwrap_or_default().into(),
            resource_version: metadata["resourceVersion"].as_str().unwrap_or_default().into(),
            hub: text(&metadata["labels"][HUB_LABEL]),
            root_uid: text(&metadata["labels"][ROOT_LABEL]),
            applied: text(&metadata["annotations"][HASH_ANNOTATION]),
            fingerprint: fingerprint(object),
            deleting: metadata["deletionTimestamp"].is_string(),
            adopted: metadata["annotations"][ADOPTED_ANNOTATION] == "true",
            mark: metadata["annotations"][EPOCH_ANNOTATION]
                .as_str()
                .and_then(|text| text.parse().ok()),
            manager: OtherManager::of(metadata),
        }
    }
}

/// A hash of what a person could have changed: not status, nor what the server keeps for itself.
pub fn fingerprint(object: &Value) -> u64 {
    let mut hash = Fnv::default();
    for (field, value) in object.as_object().into_iter().flatten() {
        match field.as_str() {
            // The type is no news, and objects in a list come without it.
            "status" | "apiVersion" | "kind" => {}
            "metadata" => {
                for field in ["labels", "ownerReferences", "finalizers"] {
                    hash.value(&value[field]);
                }
                // The mark tells when it was written, and not how it looks.
                let annotations = value["annotations"].as_object().into_iter().flatten();
                for (key, value) in annotations.filter(|(key, _)| *key != EPOCH_ANNOTATION) {
                    hash.bytes(key.as_bytes());
                    hash.value(value);
                }
            }
            _ => {
                hash.bytes(field.as_bytes());
                hash.value(value);
            }
        }
    }
    hash.0
}

/// FNV-1a, fed with a value piece by piece so that no text is made of it.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes.iter().chain(&[0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.bytes(b"n"),
            Value::Bool(value) => self.bytes(if *value { b"t" } else { b"f" }),
            Value::Number(value) => self.bytes(value.to_string().as_bytes()),
            Value::String(value) => {
                self.bytes(b"s");
                self.bytes(value.as_bytes());
            }
            Value::Array(values) => {
                self.bytes(b"[");
                values.iter().for_each(|value| self.value(value));
                self.bytes(b"]");
            }
            Value::Object(fields) => {
                self.bytes(b"{");
                for (field, value) in fields {
                    self.bytes(field.as_bytes());
                    self.value(value);
                }
                self.bytes(b"}");
            }
        }
    }
}

/// Where an object lacks something of a leaf or differs from it, as paths for people; at most
/// `limit` of them. What the object has beyond the leaf is the member's own. Their type is the same:
/// objects in a list do not say it.
pub fn differences(leaf: &Value, object: &Value, limit: usize) -> Vec<String> {
    let mut found = Vec::new();
    let fields = leaf.as_object().into_iter().flatten();
    for (field, value) in
        fields.filter(|(field, _)| !matches!(field.as_str(), "apiVersion" | "kind"))
    {
        compare(value, &object[field.as_str()], &mut field.clone(), &mut found, limit);
    }
    found
}

fn compare(want: &Value, have: &Value, path: &mut String, found: &mut Vec<String>, limit: usize) {
    if found.len() >= limit {
        return;
    }
    let mut inside = |part: &[&str], want: &Value, have: &Value| {
        let length = path.len();
        path.extend(part.iter().copied());
        compare(want, have, path, found, limit);
        path.truncate(length);
    };
    match (want, have) {
        (Value::Object(want), Value::Object(have)) => {
            for (field, value) in want {
                inside(&[".", field], value, have.get(field).unwrap_or(&Value::Null));
            }
        }
        (Value::Array(want), Value::Array(have)) if want.len() == have.len() => {
            for (index, (want, have)) in want.iter().zip(have).enumerate() {
                inside(&["[", &index.to_string(), "]"], want, have);
            }
        }
        // An API server leaves out what is empty.
        (Value::Null, Value::Null) => {}
        (Value::Object(want), Value::Null) if want.is_empty() => {}
        (Value::Array(want), Value::Null) if want.is_empty() => {}
        (Value::String(want), Value::Null) if want.is_empty() => {}
        _ if want == have || quantities_equal(want, have) => {}
        _ => found.push(path.trim_start_matches('.').to_owned()),
    }
}

/// Whether two resource quantities are the same amount in other words, such as `1000m` and `1`.
fn quantities_equal(want: &Value, have: &Value) -> bool {
    let amount = |value: &Value| match value {
        Value::String(text) => quantity(text),
        Value::Number(number) => number.as_f64(),
        _ => None,
    };
    matches!((amount(want), amount(have)), (Some(want), Some(have)) if want == have)
}

fn quantity(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let factor = match &text[digits..] {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some(number * factor)
}

#[cfg(test)]
mod tests;
