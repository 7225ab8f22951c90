//! Hubs that restart, lead, lose the lead, or have an old store.

use super::actions::{THREE, apply, delete, many, meddle, only, policy, text};
use crate::network::Weather;
use crate::scenario::{Action, Meddling, Placement, Scenario};
use crate::world::HUB;

pub(super) fn restart_while_the_store_is_away() -> Scenario {
    let cut = Action::Cut { server: text(HUB), requests: true, answers: false, seconds: 100 };
    Scenario::new(44, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(30.0, cut)
        .at(40.0, apply("ConfigMap", "one", 2))
        .at(60.0, Action::Kill { seconds: 10 })
}

pub(super) fn reports_before_the_first_plan() -> Scenario {
    let outage = |plural: &str, seconds: u64| Action::Outage {
        server: text(HUB),
        method: Some(text("GET")),
        plural: Some(text(plural)),
        code: 403,
        seconds,
    };
    // A hub that has read everything connects to members, and plans once it can read policies again.
    Scenario::new(47, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(57.0, outage("jobs", 10))
        .at(58.0, Action::Kill { seconds: 2 })
        .at(62.0, outage("placementpolicies", 60))
        .at(100.0, delete("ConfigMap", "one"))
}

pub(super) fn store_restored_from_backup() -> Scenario {
    Scenario::new(9, &THREE)
        .at(4.0, policy(only(&["europe"]), false, None))
        .at(5.0, apply("ConfigMap", "old", 1))
        .at(20.0, Action::BackUp { server: text(HUB) })
        .at(25.0, policy(Placement::Everywhere, false, None))
        .at(30.0, apply("ConfigMap", "new", 1))
        .at(120.0, Action::Restore { server: text(HUB) })
}

pub(super) fn store_restored_and_claims_deleted() -> Scenario {
    let outage = |server: &str| Action::Outage {
        server: text(server),
        method: Some(text("GET")),
        plural: Some(text("services")),
        code: 503,
        seconds: 30,
    };
    let claim = |server: &str| Action::Meddle {
        server: text(server),
        kind: text("ConfigMap"),
        namespace: text("limen-system"),
        name: text("limen-hub-hub-2"),
        how: Meddling::Delete,
    };
    let scenario = Scenario::new(87, &THREE)
        .at(5.0, apply("Service", "web", 1))
        .at(20.0, Action::BackUp { server: text(HUB) })
        .at(25.0, Action::Kill { seconds: 2 })
        .at(40.0, Action::Kill { seconds: 2 })
        .at(60.0, apply("Service", "web", 2))
        .at(100.0, Action::Kill { seconds: 100_000 });
    // Leaves are all that tells of the later epoch, and members are claimed before they list them.
    let deleted = |scenario: Scenario, member: &&str| scenario.at(101.0, claim(member));
    let scenario = THREE.iter().fold(scenario, deleted);
    let silent = |scenario: Scenario, member: &&str| scenario.at(102.0, outage(member));
    let scenario = THREE.iter().fold(scenario, silent);
    scenario.at(103.0, Action::Restore { server: text(HUB) })
}

pub(super) fn store_copied() -> Scenario {
    Scenario::new(10, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, Action::CloneHub)
        .at(40.0, apply("ConfigMap", "one", 2))
        .at(60.0, apply("ConfigMap", "two", 1))
        .at(80.0, delete("ConfigMap", "one"))
}

pub(super) fn suspended_leader() -> Scenario {
    let mut scenario = Scenario::new(12, &THREE)
        .at(30.0, apply("ConfigMap", "one", 1))
        .at(31.0, many(30))
        .at(50.0, Action::SecondHub)
        .at(60.0, Action::Suspend { seconds: 40 })
        .at(85.0, apply("ConfigMap", "one", 2))
        .at(85.1, apply("ConfigMap", "many-1", 3));
    scenario.elects = true;
    scenario
}

pub(super) fn leader_suspended_alone() -> Scenario {
    // It runs again before its fence would have ended if that lasted as long as the lease, twice.
    let mut scenario = Scenario::new(50, &THREE).at(30.0, many(30));
    for step in 0..4 {
        let at = 60.0 + f64::from(step) * 100.0;
        scenario = scenario
            .at(at, Action::Suspend { seconds: 25 })
            .at(at + 10.0, apply("ConfigMap", "many-1", 2 + step))
            .at(at + 24.0, apply("ConfigMap", "many-2", 2 + step));
    }
    scenario.elects = true;
    scenario
}

pub(super) fn leader_suspended_briefly() -> Scenario {
    let mut scenario = Scenario::new(51, &THREE).at(30.0, many(30)).at(40.0, Action::SecondHub);
    for step in 0..6 {
        let at = 60.0 + f64::from(step) * 50.0;
        scenario = scenario
            .at(at, Action::Suspend { seconds: 8 })
            .at(at + 7.9, apply("ConfigMap", "many-1", 2 + step))
            .at(at + 8.1, apply("ConfigMap", "many-2", 2 + step))
            .at(at + 8.3, apply("ConfigMap", "many-3", 2 + step));
    }
    scenario.elects = true;
    scenario
}

pub(super) fn policies_that_cannot_be_listed() -> Scenario {
    let outage = Action::Outage {
        server: text(HUB),
        method: Some(text("GET")),
        plural: Some(text("placementpolicies")),
        code: 403,
        seconds: 300,
    };
    Scenario::new(65, &THREE)
        .at(4.0, policy(Placement::Everywhere, false, None))
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(30.0, outage)
        .at(40.0, policy(only(&["europe"]), false, None))
        .at(150.0, apply("Secret", "personal", 1))
}

pub(super) fn records_written_twice() -> Scenario {
    // The record of a change comes again after the record of the placement that follows it.
    let weather = Weather { doubled: 1000, ..Weather::default() };
    let scenario =
        Scenario::new(81, &THREE).at(5.0, many(4)).at(20.0, Action::Storm { weather, seconds: 30 });
    let changed = (0..4).fold(scenario, |scenario, index| {
        scenario.at(22.0, apply("ConfigMap", &format!("many-{index}"), 2))
    });
    changed.at(24.5, policy(only(&["africa"]), false, None))
}

pub(super) fn store_copied_twice() -> Scenario {
    // Both copies have the same epoch: the revision tells which of them is newer.
    let scenario = Scenario::new(67, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, Action::CloneHub)
        .at(40.0, Action::CloneHub);
    (0..6).fold(scenario, |scenario, step| {
        let at = 80.0 + f64::from(step) * 20.0;
        scenario.at(at, meddle("europe", "ConfigMap", "one", Meddling::Delete))
    })
}

pub(super) fn store_copied_twice_at_once() -> Scenario {
    // Both copies have the same epoch and revision: only the claim tells them apart.
    let scenario = Scenario::new(80, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, Action::CloneHub)
        .at(20.0, Action::CloneHub);
    (0..8).fold(scenario, |scenario, step| {
        let at = 40.0 + f64::from(step) * 20.0;
        THREE.iter().fold(scenario, |scenario, member| {
            scenario.at(at, meddle(member, "ConfigMap", "one", Meddling::Delete))
        })
    })
}

pub(super) fn lease_not_renewed_for_a_moment() -> Scenario {
    // When the store takes writes again, the candidate may be the first to write to the lease.
    let outage = Action::Outage {
        server: text(HUB),
        method: Some(text("PUT")),
        plural: Some(text("leases")),
        code: 503,
        seconds: 4,
    };
    let mut scenario = Scenario::new(81, &THREE).at(30.0, many(20)).at(40.0, Action::SecondHub);
    for step in 0..10 {
        let at = 60.0 + f64::from(step) * 40.0;
        scenario = scenario.at(at, outage.clone());
        for leaf in 0..20 {
            let edit = meddle("europe", "ConfigMap", &format!("many-{leaf}"), Meddling::Edit);
            scenario = scenario.at(at + 4.0 + f64::from(leaf) * 0.2, edit);
        }
    }
    scenario.elects = true;
    scenario
}

pub(super) fn clock_set_forward_between_deletions() -> Scenario {
    Scenario::new(68, &THREE)
        .at(5.0, many(80))
        .at(60.0, Action::DeleteMany { namespace: text("shop"), count: 40 })
        .at(70.0, Action::ClockJump { seconds: 7200 })
        .at(85.0, Action::DeleteMany { namespace: text("shop"), count: 75 })
}

pub(super) fn clock_set_back_after_deletions() -> Scenario {
    // Once while the hub runs, and once before it starts.
    Scenario::new(69, &THREE)
        .at(5.0, many(120))
        .at(60.0, Action::DeleteMany { namespace: text("shop"), count: 45 })
        .at(70.0, Action::ClockJump { seconds: -86_400 })
        .at(200.0, Action::DeleteMany { namespace: text("shop"), count: 90 })
        .at(210.0, Action::ClockJump { seconds: -86_400 })
        .at(211.0, Action::Kill { seconds: 2 })
        .at(400.0, Action::DeleteMany { namespace: text("shop"), count: 115 })
}
