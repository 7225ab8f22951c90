//! Members that are away, restored, replaced, or joined twice.

use super::actions::{
    THREE, apply, cut, delete, delete_namespace, foreign, many, meddle, only, policy, text, unserve,
};
use crate::people::{TWIN, TWIN_RESOURCE};
use crate::scenario::{Action, Guise, Meddling, Placement, Scenario};
use crate::world::HUB;

pub(super) fn hub_joins_itself() -> Scenario {
    Scenario::new(6, &THREE)
        .at(5.0, apply("Service", "one", 1))
        .at(15.0, Action::Join { cluster: text("self"), server: text(HUB) })
        .at(45.0, Action::Unjoin { cluster: text("self"), delete: true })
}

pub(super) fn leaf_on_the_hub() -> Scenario {
    Scenario::new(82, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, foreign(HUB, "ConfigMap", "leaf", Guise::Forged))
}

pub(super) fn kind_that_cannot_be_watched() -> Scenario {
    let outage = Action::Outage {
        server: text("europe"),
        method: Some(text("GET")),
        plural: Some(text("configmaps")),
        code: 403,
        seconds: 100_000,
    };
    Scenario::new(83, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(30.0, outage)
        .at(60.0, meddle("europe", "ConfigMap", "one", Meddling::Edit))
}

pub(super) fn one_cluster_under_two_names() -> Scenario {
    Scenario::new(7, &THREE)
        .at(4.0, policy(only(&["europe"]), false, None))
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, Action::Join { cluster: text("twin"), server: text("europe") })
        .at(40.0, policy(only(&["twin"]), false, None))
        .at(60.0, apply("ConfigMap", "one", 2))
}

pub(super) fn replaced_cluster() -> Scenario {
    Scenario::new(8, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, Action::Reset { server: text("europe") })
        .at(60.0, apply("ConfigMap", "one", 2))
}

pub(super) fn replaced_while_nothing_is_watched() -> Scenario {
    // Its watches break, and it is replaced while they are being established again, or are not yet.
    let broken = |scenario: Scenario, (server, at, gap): (&str, f64, f64)| {
        let (server, resource) = (text(server), text("jobs.batch"));
        scenario
            .at(at, Action::Unserve { server: server.clone(), resource, seconds: 60 })
            .at(at + gap, Action::Reset { server })
    };
    let members = [("europe", 30.0, 0.02), ("asia", 40.0, 0.045), ("africa", 50.0, 0.08)];
    members.into_iter().fold(Scenario::new(79, &THREE).at(5.0, many(8)), broken)
}

pub(super) fn deleted_while_its_cluster_is_replaced() -> Scenario {
    Scenario::new(80, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, Action::Reset { server: text("europe") })
        .at(60.0, delete("ConfigMap", "one"))
        .at(80.0, delete_namespace())
}

pub(super) fn member_restored_from_backup() -> Scenario {
    Scenario::new(22, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(5.1, apply("ConfigMap", "two", 1))
        .at(10.0, Action::BackUp { server: text("europe") })
        .at(15.0, apply("ConfigMap", "one", 2))
        .at(15.1, apply("ConfigMap", "two", 2))
        .at(30.0, Action::Restore { server: text("europe") })
}

pub(super) fn deletions_during_an_absence() -> Scenario {
    let mut scenario = Scenario::new(24, &THREE)
        .at(5.0, many(8))
        .at(30.0, cut("europe", 4000))
        .at(100.0, policy(only(&["africa", "asia"]), false, None));
    scenario.rest = 4800;
    scenario
}

pub(super) fn removal_just_before_an_absence() -> Scenario {
    let mut scenario = Scenario::new(56, &THREE)
        .at(5.0, many(8))
        .at(30.0, cut("europe", 4000))
        .at(31.0, policy(only(&["africa", "asia"]), false, None));
    scenario.rest = 4800;
    scenario
}

pub(super) fn absence_over_a_restart() -> Scenario {
    let mut scenario = Scenario::new(37, &THREE)
        .at(5.0, many(8))
        .at(30.0, cut("europe", 4000))
        .at(100.0, policy(only(&["africa", "asia"]), false, None))
        .at(3900.0, Action::Kill { seconds: 2 });
    scenario.rest = 1000;
    scenario
}

pub(super) fn cluster_deleted() -> Scenario {
    Scenario::new(29, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, cut("europe", 60))
        .at(40.0, delete("ConfigMap", "one"))
        .at(60.0, Action::DeleteCluster { cluster: text("europe") })
        .at(70.0, Action::Kill { seconds: 2 })
        .at(120.0, Action::Join { cluster: text("europe"), server: text("europe") })
}

pub(super) fn earlier_root_in_a_deselected_cluster() -> Scenario {
    Scenario::new(60, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, cut("europe", 60))
        .at(30.0, delete("ConfigMap", "one"))
        .at(40.0, policy(only(&["africa"]), false, None))
        .at(45.0, apply("ConfigMap", "one", 2))
}

pub(super) fn deleted_at_once() -> Scenario {
    let once = |scenario: Scenario, step: u32| {
        let at = 10.0 + f64::from(step) * 7.0;
        let name = format!("brief-{step}");
        scenario
            .at(at, apply("ConfigMap", &name, 1))
            .at(at + 0.004 * f64::from(step), delete("ConfigMap", &name))
    };
    (1..12).fold(Scenario::new(39, &THREE), once)
}

pub(super) fn tombstone_that_cannot_be_written() -> Scenario {
    let outage = Action::Outage {
        server: text(HUB),
        method: Some(text("PATCH")),
        plural: Some(text("clusters")),
        code: 503,
        seconds: 60,
    };
    Scenario::new(62, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, cut("europe", 300))
        .at(60.0, outage)
        .at(70.0, delete("ConfigMap", "one"))
        .at(90.0, Action::Kill { seconds: 60 })
}

pub(super) fn withdrawn_while_its_kind_is_unserved() -> Scenario {
    let withdraw =
        Action::Withdraw { kind: text("ConfigMap"), namespace: text("shop"), name: text("one") };
    Scenario::new(63, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(5.1, apply("ConfigMap", "two", 1))
        .at(30.0, unserve("europe", 400))
        .at(60.0, Action::Kill { seconds: 2 })
        .at(90.0, withdraw)
}

pub(super) fn deleted_while_its_kind_is_unserved() -> Scenario {
    Scenario::new(64, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(30.0, unserve("europe", 100_000))
        .at(60.0, delete("ConfigMap", "one"))
}

pub(super) fn orphaned_while_its_kind_is_unserved() -> Scenario {
    Scenario::new(77, &THREE)
        .at(1.0, policy(Placement::Everywhere, true, None))
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(30.0, unserve("europe", 300))
        .at(60.0, delete("ConfigMap", "one"))
}

pub(super) fn deleted_before_its_creation_is_answered() -> Scenario {
    let cut = Action::Cut { server: text("africa"), requests: false, answers: true, seconds: 400 };
    Scenario::new(78, &THREE)
        .at(5.0, apply("ConfigMap", "two", 1))
        .at(24.0, apply("ConfigMap", "one", 1))
        .at(24.001, cut)
        .at(31.5, delete("ConfigMap", "one"))
        .at(120.0, Action::Kill { seconds: 2 })
}

pub(super) fn clock_set_back_during_an_absence() -> Scenario {
    let mut scenario = Scenario::new(70, &THREE)
        .at(5.0, many(8))
        .at(30.0, cut("europe", 4000))
        .at(100.0, policy(only(&["africa", "asia"]), false, None))
        .at(2000.0, Action::ClockJump { seconds: -10_800 });
    scenario.rest = 2800;
    scenario
}

pub(super) fn kind_of_the_same_name_is_missing() -> Scenario {
    let (server, resource) = (text("europe"), text(TWIN_RESOURCE));
    Scenario::new(71, &THREE)
        .at(1.0, Action::Unserve { server, resource, seconds: 100_000 })
        .at(5.0, apply(TWIN, "web", 1))
        .at(20.0, apply("Service", "web", 1))
        .at(60.0, apply("Service", "two", 1))
        .at(100.0, delete("Service", "two"))
        .at(120.0, delete(TWIN, "web"))
}

pub(super) fn version_removed() -> Scenario {
    let other = |server: &str, seconds: u64| Action::OtherVersion {
        server: text(server),
        resource: text("jobs.batch"),
        version: text("v2beta1"),
        seconds,
    };
    Scenario::new(72, &THREE)
        .at(5.0, apply("Job", "kept", 2))
        .at(5.1, apply("Job", "gone", 2))
        .at(30.0, other("europe", 200))
        .at(30.0, other("asia", 400))
        .at(60.0, delete("Job", "gone"))
        .at(100.0, apply("Job", "late", 2))
        .at(120.0, Action::Kill { seconds: 2 })
}

pub(super) fn version_removed_from_a_namespace_that_goes() -> Scenario {
    // The record goes with its namespace: what members list is all that is known.
    let other = Action::OtherVersion {
        server: text("europe"),
        resource: text("jobs.batch"),
        version: text("v2beta1"),
        seconds: 300,
    };
    Scenario::new(85, &THREE)
        .at(5.0, apply("Job", "once", 2))
        .at(30.0, other)
        .at(60.0, Action::Kill { seconds: 30 })
        .at(70.0, delete_namespace())
        .at(200.0, Action::Kill { seconds: 2 })
}

pub(super) fn definition_removed() -> Scenario {
    let removed = |server: &str, seconds: u64| Action::RemoveDefinition {
        server: text(server),
        resource: text(TWIN_RESOURCE),
        seconds,
    };
    Scenario::new(73, &THREE)
        .at(5.0, apply(TWIN, "web", 1))
        .at(5.1, apply(TWIN, "two", 1))
        .at(30.0, removed("europe", 100))
        .at(30.0, removed("asia", 5))
        .at(60.0, delete(TWIN, "two"))
        .at(80.0, Action::Kill { seconds: 2 })
}

pub(super) fn joined_twice_after_the_clock_was_set_back() -> Scenario {
    Scenario::new(74, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, Action::ClockJump { seconds: -3600 })
        .at(40.0, Action::Join { cluster: text("twin"), server: text("europe") })
        .at(60.0, apply("ConfigMap", "one", 2))
        .at(80.0, Action::Kill { seconds: 2 })
        .at(120.0, apply("ConfigMap", "one", 3))
}
