//! Removals that wait for a person, and those that must not.

use super::actions::{
    THREE, apply, cut, delete, delete_namespace, delete_policy, many, meddle, only, policy, text,
    unserve,
};
use crate::people::TWIN;
use crate::scenario::{Action, Meddling, Placement, Scenario};

pub(super) fn namespace_with_many_roots() -> Scenario {
    Scenario::new(2, &THREE).at(5.0, many(100)).at(30.0, delete_namespace())
}

pub(super) fn relabel_during_a_hold() -> Scenario {
    let label = |cluster: &str, region: &str| Action::Label {
        cluster: text(cluster),
        region: text(region),
    };
    Scenario::new(4, &THREE)
        .at(4.0, policy(Placement::Region(text("europe")), false, None))
        .at(5.0, many(66))
        // No cluster is selected any more: everything is held.
        .at(30.0, policy(Placement::Region(text("nowhere")), false, None))
        .at(60.0, label("asia", "elsewhere"))
        .at(90.0, label("africa", "nowhere"))
}

pub(super) fn restart_during_a_hold() -> Scenario {
    Scenario::new(5, &THREE)
        .at(5.0, many(40))
        .at(30.0, policy(only(&["europe"]), false, None))
        .at(60.0, Action::Kill { seconds: 2 })
        .at(120.0, Action::Kill { seconds: 2 })
}

pub(super) fn kind_unserved_during_a_hold() -> Scenario {
    Scenario::new(31, &THREE)
        .at(5.0, many(40))
        .at(30.0, policy(only(&["europe"]), false, None))
        .at(60.0, unserve("asia", 60))
        .at(90.0, Action::Kill { seconds: 2 })
        .at(200.0, unserve("africa", 60))
        .at(230.0, policy(Placement::Everywhere, false, None))
}

pub(super) fn kind_unserved_during_a_held_deletion() -> Scenario {
    Scenario::new(32, &THREE)
        .at(5.0, many(60))
        .at(30.0, delete_namespace())
        .at(60.0, unserve("africa", 60))
        .at(60.0, unserve("asia", 60))
        .at(60.0, unserve("europe", 60))
        .at(300.0, unserve("europe", 100))
        .at(330.0, Action::Release)
}

pub(super) fn hold_before_an_answer() -> Scenario {
    let silence = Action::Cut { server: text("asia"), requests: false, answers: true, seconds: 60 };
    Scenario::new(43, &THREE)
        .at(11.0, silence)
        .at(12.0, apply("Secret", "two", 1))
        .at(25.0, policy(Placement::Region(text("nowhere")), false, None))
}

pub(super) fn restart_during_a_held_deletion() -> Scenario {
    // The record of a root goes with its namespace, and the root itself cannot be read.
    let broken = Action::Select {
        kind: text("Secret"),
        namespace: text("shop"),
        name: text("web"),
        selector: Some(text("[{broken")),
    };
    Scenario::new(45, &THREE)
        .at(5.0, many(70))
        .at(6.0, apply("Secret", "web", 1))
        .at(30.0, broken)
        .at(60.0, delete_namespace())
        .at(120.0, Action::Kill { seconds: 5 })
}

pub(super) fn nothing_selected() -> Scenario {
    Scenario::new(46, &THREE)
        .at(4.0, policy(only(&["europe"]), false, None))
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(30.0, policy(Placement::Region(text("nowhere")), false, None))
}

pub(super) fn everyday_deletions() -> Scenario {
    Scenario::new(30, &["a", "b", "c", "d", "e"])
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(5.1, apply("Secret", "two", 1))
        .at(5.2, apply("Service", "web", 1))
        .at(30.0, delete("ConfigMap", "one"))
        .at(30.1, delete("Secret", "two"))
        .at(30.2, delete("Service", "web"))
        .at(200.0, apply("Secret", "late", 1))
        .at(230.0, delete("Secret", "late"))
}

pub(super) fn many_roots_deleted_by_name() -> Scenario {
    Scenario::new(33, &THREE)
        .at(5.0, many(80))
        .at(30.0, Action::DeleteMany { namespace: text("shop"), count: 70 })
}

pub(super) fn deletions_in_two_steps() -> Scenario {
    // Each step is of everyday size, both together are not; the hub restarts between them.
    Scenario::new(34, &THREE)
        .at(5.0, many(80))
        .at(60.0, Action::DeleteMany { namespace: text("shop"), count: 40 })
        .at(70.0, Action::Kill { seconds: 1 })
        .at(85.0, Action::DeleteMany { namespace: text("shop"), count: 75 })
}

pub(super) fn deselected_in_small_steps() -> Scenario {
    let select = |name: &str| Action::Select {
        kind: text("ConfigMap"),
        namespace: text("shop"),
        name: text(name),
        selector: Some(text(r#"[{"key": "region", "operator": "in", "values": ["europe"]}]"#)),
    };
    let steps = (0..12).map(|step| (30.0 + f64::from(step) * 0.5, format!("many-{step}")));
    steps.fold(Scenario::new(35, &THREE).at(5.0, many(15)), |scenario, (at, name)| {
        scenario.at(at, select(&name))
    })
}

pub(super) fn same_accident_after_a_release() -> Scenario {
    let nowhere = || policy(Placement::Region(text("nowhere")), false, None);
    Scenario::new(36, &THREE)
        .at(4.0, policy(Placement::Everywhere, false, None))
        .at(5.0, many(20))
        .at(30.0, nowhere())
        .at(60.0, Action::Release)
        .at(120.0, policy(Placement::Everywhere, false, None))
        .at(240.0, nowhere())
}

pub(super) fn release_of_a_hold_that_grows() -> Scenario {
    // The hub takes in more before it sees the release of what a person saw.
    let late = Action::Lag {
        server: text("hub"),
        resource: text("holds.limen.dev"),
        millis: 3000,
        seconds: 20,
    };
    Scenario::new(87, &THREE)
        .at(5.0, many(30))
        .at(30.0, policy(only(&["asia", "africa"]), false, None))
        .at(60.0, late)
        .at(61.0, Action::Release)
        .at(61.5, policy(only(&["africa"]), false, None))
}

pub(super) fn deletion_beside_a_hold() -> Scenario {
    Scenario::new(61, &THREE)
        .at(5.0, many(80))
        .at(6.0, apply("Secret", "alone", 1))
        .at(30.0, Action::DeleteMany { namespace: text("shop"), count: 70 })
        .at(45.0, delete("Secret", "alone"))
}

pub(super) fn leaf_lost_after_a_hold() -> Scenario {
    Scenario::new(86, &THREE)
        .at(4.0, policy(Placement::Everywhere, false, None))
        .at(5.0, many(12))
        .at(40.0, policy(only(&["africa"]), false, None))
        .at(60.0, Action::Kill { seconds: 2 })
        .at(90.0, policy(Placement::Everywhere, false, None))
        .at(120.0, meddle("europe", "ConfigMap", "many-3", Meddling::Delete))
}

pub(super) fn held_kind_of_its_own_over_a_restart() -> Scenario {
    Scenario::new(91, &THREE)
        .at(4.0, policy(Placement::Everywhere, false, None))
        .at(5.0, apply(TWIN, "web", 1))
        .at(30.0, policy(Placement::Region(text("nowhere")), false, None))
        .at(60.0, Action::Kill { seconds: 2 })
        .at(120.0, delete_namespace())
}

pub(super) fn record_of_a_kind_of_the_same_name() -> Scenario {
    // Its record is all that tells the next hub where the policy has placed it.
    Scenario::new(92, &THREE)
        .at(5.0, apply(TWIN, "web", 1))
        .at(30.0, policy(only(&["europe"]), false, None))
        .at(60.0, apply("Service", "web", 1))
        .at(90.0, Action::Kill { seconds: 20 })
        .at(100.0, delete_policy())
}

pub(super) fn hold_that_a_late_watch_tells_of() -> Scenario {
    let late = Action::Lag { server: text("hub"), resource: text(""), millis: 4500, seconds: 60 };
    Scenario::new(93, &THREE)
        .at(5.0, apply("Deployment", "web", 1))
        .at(30.0, late)
        .at(40.0, policy(Placement::Region(text("nowhere")), false, None))
        .at(41.8, delete_namespace())
}

pub(super) fn release_with_an_absent_member() -> Scenario {
    Scenario::new(94, &THREE)
        .at(5.0, many(80))
        .at(30.0, cut("europe", 400))
        .at(100.0, delete_namespace())
        .at(130.0, Action::Release)
}

pub(super) fn created_without_an_answer_and_deleted() -> Scenario {
    let silence = Action::Cut { server: text("asia"), requests: false, answers: true, seconds: 90 };
    Scenario::new(95, &THREE)
        .at(4.0, apply("Secret", "other", 1))
        .at(29.9, silence)
        .at(30.0, apply("Secret", "web", 1))
        .at(60.0, policy(Placement::Region(text("nowhere")), false, None))
        .at(80.0, delete_namespace())
        .at(95.0, Action::Kill { seconds: 1 })
}
