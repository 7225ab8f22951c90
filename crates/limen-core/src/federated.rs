//! The one model that every dialect becomes.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::json_text::JsonText;
use crate::rollout::Wave;
use crate::selector::Selector;

/// A kind of object. Its identity is group and kind: versions are representations of one kind.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Group and version that requests use, `v1` for the core group.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// What paths call it.
    pub plural: String,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

/// One object of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectId {
    /// The kind.
    pub kind: Arc<Kind>,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Kind {}

impl Ord for Kind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.group().cmp(other.group()).then_with(|| self.kind.cmp(&other.kind))
    }
}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Kind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.group().hash(state);
        self.kind.hash(state);
    }
}

/// By kind, namespace and name. Kinds are mostly one and the same, and then not compared.
impl Ord for ObjectId {
    fn cmp(&self, other: &Self) -> Ordering {
        let kinds = match Arc::ptr_eq(&self.kind, &other.kind) {
            true => Ordering::Equal,
            false => self.kind.cmp(&other.kind),
        };
        let places = || self.namespace.cmp(&other.namespace);
        kinds.then_with(places).then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for ObjectId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By what tells most objects apart: every piece of news looks some up.
impl Hash for ObjectId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.kind.hash(state);
        self.namespace.hash(state);
        self.name.hash(state);
    }
}

/// What a person wants in the members, whatever words they used for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Federated {
    /// What the person submitted.
    pub root: ObjectId,
    /// The uid of that, which leaves carry.
    pub root_uid: String,
    /// The object that members shall hold.
    pub leaf: ObjectId,
    /// What it looks like before overrides.
    pub template: JsonText,
    /// Which members.
    pub placement: Placement,
    /// How leaves differ, in order.
    pub overrides: Vec<Override>,
    /// What to do where a member already has such an object.
    pub on_conflict: OnConflict,
    /// What becomes of leaves when the root is deleted.
    pub on_delete: OnDelete,
    /// The order in which members get a change; empty means all at once.
    pub waves: Vec<Wave>,
}

/// Which members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// These, by name.
    Clusters(Vec<String>),
    /// Those whose labels match; an empty selector matches all.
    Selector(Selector),
    /// None: nothing was said.
    Nowhere,
}

/// How leaves differ in some members.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// Where.
    pub clusters: Placement,
    /// The change.
    pub patch: json_patch::Patch,
}

/// What to do where a member already has such an object that is not a leaf of this hub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Take it over and make it conform.
    #[default]
    Adopt,
    /// As [`OnConflict::Adopt`], also if a controller or another declarative manager has it: the
    /// policy names this very object.
    AdoptNamed,
    /// Touch nothing, and say so.
    Abort,
    /// Use it as it is, without making it ours: the way of namespaces, which others live in too.
    Share,
}

/// What becomes of leaves when the root is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDelete {
    /// They are deleted too.
    #[default]
    Cascade,
    /// They stay, owned by nobody.
    Orphan,
}

impl Kind {
    /// The group, empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The version.
    pub fn version(&self) -> &str {
        self.api_version.rsplit_once('/').map_or(self.api_version.as_str(), |(_, version)| version)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = &self.kind.kind;
        match &self.namespace {
            Some(namespace) => write!(f, "{kind} {namespace}/{}", self.name),
            None => write!(f, "{kind} {}", self.name),
        }
    }
}
