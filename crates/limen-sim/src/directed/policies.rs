//! Policies that go, cannot be read, or keep leaves.

use super::actions::{
    THREE, apply, delete, delete_namespace, delete_policy, foreign, meddle, only, policy, text,
};
use crate::scenario::{Action, Guise, Meddling, Placement, Scenario};

pub(super) fn orphans_in_a_deleted_namespace() -> Scenario {
    Scenario::new(3, &THREE)
        .at(4.0, policy(Placement::Everywhere, true, None))
        .at(5.0, apply("ConfigMap", "kept", 1))
        .at(20.0, delete_namespace())
}

pub(super) fn orphan_policy_for_an_unreadable_root() -> Scenario {
    let broken = Action::Select {
        kind: text("ConfigMap"),
        namespace: text("shop"),
        name: text("kept"),
        selector: Some(text("[{broken")),
    };
    Scenario::new(48, &THREE)
        .at(5.0, apply("ConfigMap", "kept", 1))
        .at(30.0, broken)
        .at(60.0, policy(Placement::Everywhere, true, None))
        .at(200.0, delete("ConfigMap", "kept"))
}

pub(super) fn unreadable_policy_goes_with_namespace() -> Scenario {
    Scenario::new(49, &THREE)
        .at(4.0, policy(only(&["africa"]), false, None))
        .at(5.0, apply("ConfigMap", "kept", 1))
        .at(30.0, policy(Placement::Broken, true, None))
        .at(200.0, delete_namespace())
}

pub(super) fn unread_policy_goes_with_namespace() -> Scenario {
    Scenario::new(55, &THREE)
        .at(5.0, apply("Ingress", "kept", 1))
        .at(30.0, policy(Placement::Malformed, true, None))
        .at(200.0, delete_namespace())
}

pub(super) fn leaf_lost_under_an_unreadable_policy() -> Scenario {
    Scenario::new(53, &THREE)
        .at(4.0, policy(only(&["europe"]), false, None))
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(30.0, policy(Placement::Malformed, false, None))
        .at(150.0, meddle("europe", "ConfigMap", "one", Meddling::Delete))
}

pub(super) fn policy_deleted() -> Scenario {
    Scenario::new(16, &THREE)
        .at(4.0, policy(only(&["europe"]), false, None))
        .at(5.0, apply("Secret", "personal", 1))
        .at(6.0, foreign("asia", "Service", "web", Guise::Plain))
        .at(7.0, apply("Service", "web", 1))
        .at(30.0, delete_policy())
}

pub(super) fn policy_unreadable() -> Scenario {
    Scenario::new(17, &THREE)
        .at(4.0, policy(only(&["europe"]), false, None))
        .at(5.0, apply("Secret", "personal", 1))
        .at(30.0, policy(Placement::Malformed, false, None))
        .at(60.0, Action::Kill { seconds: 2 })
}

pub(super) fn orphan_with_a_bad_annotation() -> Scenario {
    let broken = Action::Select {
        kind: text("ConfigMap"),
        namespace: text("shop"),
        name: text("kept"),
        selector: Some(text("[{broken")),
    };
    Scenario::new(18, &THREE)
        .at(4.0, policy(Placement::Everywhere, true, None))
        .at(5.0, apply("ConfigMap", "kept", 1))
        .at(30.0, broken)
        .at(100.0, delete("ConfigMap", "kept"))
}

pub(super) fn policy_and_root_deleted_together() -> Scenario {
    Scenario::new(19, &THREE)
        .at(4.0, policy(Placement::Everywhere, true, None))
        .at(5.0, apply("ConfigMap", "kept", 1))
        .at(100.0, delete_policy())
        .at(100.001, delete("ConfigMap", "kept"))
}

pub(super) fn orphan_by_request() -> Scenario {
    let kept = Action::Delete {
        kind: text("ConfigMap"),
        namespace: text("shop"),
        name: text("kept"),
        orphan: true,
    };
    Scenario::new(38, &THREE)
        .at(5.0, apply("ConfigMap", "kept", 1))
        .at(30.0, kept)
        .at(30.05, Action::Kill { seconds: 2 })
}
