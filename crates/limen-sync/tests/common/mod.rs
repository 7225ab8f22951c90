//! A hub that may write to a member, and the member that shows its claim from the start.

use limen_core::leaf::{CLAIM_LABEL, HUB_LABEL};
use limen_sync::{Desired, DesiredLeaf, Permit};
use serde_json::{Value, json};

/// The claim of the hub.
pub(crate) fn claim() -> Value {
    json!({"metadata": {"name": "limen-hub-hub", "namespace": "limen-system", "uid": "claim",
            "resourceVersion": "3", "labels": {HUB_LABEL: "hub", CLAIM_LABEL: "true"}},
        "data": {"instance": "instance", "mark": "1.1"}})
}

/// The permit that answers the first description.
pub(crate) fn permit() -> Option<Permit> {
    Some(Permit { instance: "instance".into(), epoch: 1, revision: 1, description: 1 })
}

pub(crate) fn desired_leaf(desired: Desired) -> DesiredLeaf {
    DesiredLeaf { root_uid: "root-uid".into(), replaces: None, revision: 1, desired }
}
