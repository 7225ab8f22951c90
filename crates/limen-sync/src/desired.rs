//! Desired leaves of a member, and their progress.

use std::sync::Arc;

use limen_api::LeafState;
use limen_core::federated::OnConflict;
use limen_core::leaf::Leaf;
use limen_core::reconcile::Wanted;
use serde_json::Value;

/// Desired state of one leaf in one member.
#[derive(Clone, Debug)]
pub struct DesiredLeaf {
    /// The uid of the acting root: only a leaf that carries it is changed or deleted.
    pub root_uid: Arc<str>,
    /// The uid of an earlier root of the same name, whose leaf may be taken over.
    pub replaces: Option<Arc<str>>,
    /// Hub revision of the root that it was planned from; 0 if unknown.
    pub revision: u64,
    /// The desired state.
    pub desired: Desired,
}

/// The revision is bookkeeping: it changes with every status of the root.
impl PartialEq for DesiredLeaf {
    fn eq(&self, other: &Self) -> bool {
        self.root_uid == other.root_uid
            && self.replaces == other.replaces
            && self.desired == other.desired
    }
}

/// The desired state of a leaf.
#[derive(Clone, Debug, PartialEq)]
pub enum Desired {
    /// It is there and looks like this.
    Leaf {
        /// The leaf.
        leaf: Arc<Leaf>,
        /// Treatment of objects that are no leaves of this hub.
        on_conflict: OnConflict,
        /// Whether it may be created, or only kept where it is: a finished Job does not run again.
        create: bool,
    },
    /// It is gone.
    Nothing,
    /// It stays, and is no leaf any more.
    Orphan,
}

impl DesiredLeaf {
    /// The terms of a decision. `settled` and `contained` are as in [`Wanted::Leaf`].
    pub(crate) fn wanted(&self, settled: Option<u64>, contained: bool) -> Wanted<'_> {
        let root_uid = &*self.root_uid;
        match &self.desired {
            Desired::Leaf { leaf, on_conflict, create } => Wanted::Leaf {
                leaf,
                root_uid,
                replaces: self.replaces.as_deref(),
                on_conflict: *on_conflict,
                create: *create,
                settled,
                contained,
            },
            Desired::Nothing => Wanted::Nothing { root_uid },
            Desired::Orphan => Wanted::Orphan { root_uid },
        }
    }

    /// From here on it is kept where it is, and not created.
    pub(crate) fn keep_only(&mut self) {
        if let Desired::Leaf { create, .. } = &mut self.desired {
            *create = false;
        }
    }

    /// The leaf, if it shall be there.
    pub(crate) fn leaf(&self) -> Option<&Arc<Leaf>> {
        match &self.desired {
            Desired::Leaf { leaf, .. } => Some(leaf),
            Desired::Nothing | Desired::Orphan => None,
        }
    }
}

/// How far a member is with a leaf.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The uid of the root that the leaf carries, if it is there.
    pub held_for: Option<Arc<str>>,
    /// The state of the desired leaf; nothing when nothing is desired.
    pub state: Option<LeafState>,
    /// Why, when it is not synced.
    pub message: String,
    /// The leaf's status, as the member has it.
    pub status: Option<Arc<Value>>,
    /// Whether that status is about the leaf as it shall be.
    pub current: bool,
    /// The hash of the leaf that the member holds, when it is synced and as that leaf says.
    pub applied: Option<Arc<str>>,
    /// The leaf was adopted, not created.
    pub adopted: bool,
}
