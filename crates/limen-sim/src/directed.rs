//! Directed scenarios: each is a way in which a federation can do harm.

use crate::scenario::{Action, Guise, Meddling, Placement, Scenario};
use crate::world::HUB;

/// A directed scenario: its name, the laws that are at stake, and the history.
pub type Directed = (&'static str, &'static [u8], fn() -> Scenario);

/// Every directed scenario.
pub const DIRECTED: &[Directed] = &[
    ("namespace-with-foreign-objects", &[2], namespace_with_foreign_objects),
    ("namespace-with-many-roots", &[4, 5], namespace_with_many_roots),
    ("orphans-in-a-deleted-namespace", &[3], orphans_in_a_deleted_namespace),
    ("relabel-during-a-hold", &[3, 4, 5], relabel_during_a_hold),
    ("restart-during-a-hold", &[3, 4, 5], restart_during_a_hold),
    ("kind-unserved-during-a-hold", &[3, 4, 5, 11], kind_unserved_during_a_hold),
    ("kind-unserved-during-a-held-deletion", &[3, 4, 5, 11], kind_unserved_during_a_held_deletion),
    ("hold-before-an-answer", &[3, 4, 5], hold_before_an_answer),
    ("restart-while-the-store-is-away", &[11], restart_while_the_store_is_away),
    ("restart-during-a-held-deletion", &[3, 4, 5], restart_during_a_held_deletion),
    ("nothing-selected", &[5], nothing_selected),
    ("reports-before-the-first-plan", &[11], reports_before_the_first_plan),
    ("orphan-policy-for-an-unreadable-root", &[3], orphan_policy_for_an_unreadable_root),
    ("unreadable-policy-goes-with-its-namespace", &[3], unreadable_policy_goes_with_namespace),
    ("leader-suspended-alone", &[7], leader_suspended_alone),
    ("leader-suspended-briefly", &[7], leader_suspended_briefly),
    ("autoscaler-in-one-cluster", &[9], autoscaler_in_one_cluster),
    ("leaf-lost-under-an-unreadable-policy", &[6], leaf_lost_under_an_unreadable_policy),
    ("job-expires-unwatched", &[12], job_expires_unwatched),
    ("unread-policy-goes-with-its-namespace", &[3], unread_policy_goes_with_namespace),
    ("hub-joins-itself", &[2, 3, 8], hub_joins_itself),
    ("one-cluster-under-two-names", &[3, 8, 11], one_cluster_under_two_names),
    ("replaced-cluster", &[6, 8, 11], replaced_cluster),
    ("store-restored-from-backup", &[3, 5], store_restored_from_backup),
    ("store-copied", &[3, 8], store_copied),
    ("foreign-object-during-watch-lag", &[1, 2], foreign_object_during_watch_lag),
    ("suspended-leader", &[7], suspended_leader),
    ("leaf-of-another-root", &[1, 2, 3], leaf_of_another_root),
    ("image-that-never-starts", &[10], image_that_never_starts),
    ("autoscaler-arrives", &[9], autoscaler_arrives),
    ("policy-deleted", &[6], policy_deleted),
    ("policy-unreadable", &[3, 6], policy_unreadable),
    ("orphan-with-a-bad-annotation", &[3], orphan_with_a_bad_annotation),
    ("policy-and-root-deleted-together", &[3], policy_and_root_deleted_together),
    ("adoption-from-helm", &[2], adoption_from_helm),
    ("adopted-object-deleted-with-its-root", &[2], adopted_object_deleted),
    ("member-restored-from-backup", &[11], member_restored_from_backup),
    ("answer-overtaken-by-an-event", &[11], answer_overtaken_by_an_event),
    ("deletions-during-an-absence", &[3, 5], deletions_during_an_absence),
    ("local-autoscaler", &[9, 11], local_autoscaler),
    ("rival-manager", &[11], rival_manager),
    ("finished-job-deleted", &[12], finished_job_deleted),
    ("finished-job-expires", &[11, 12], finished_job_expires),
    ("cluster-deleted", &[11], cluster_deleted),
    ("earlier-root-in-a-deselected-cluster", &[3, 11], earlier_root_in_a_deselected_cluster),
    ("everyday-deletions", &[14], everyday_deletions),
    ("many-roots-deleted-by-name", &[4, 5], many_roots_deleted_by_name),
    ("deletions-in-two-steps", &[4, 5], deletions_in_two_steps),
    ("deselected-in-small-steps", &[4, 5], deselected_in_small_steps),
    ("the-same-accident-after-a-release", &[4, 5], same_accident_after_a_release),
    ("removal-just-before-an-absence", &[3, 5], removal_just_before_an_absence),
    ("absence-over-a-restart", &[3, 5], absence_over_a_restart),
    ("orphan-by-request", &[3], orphan_by_request),
    ("deleted-at-once", &[3, 11], deleted_at_once),
    ("job-over-a-restart", &[12], job_over_a_restart),
    ("policy-that-aborts", &[1, 2], policy_that_aborts),
    ("wave-that-refuses", &[10], wave_that_refuses),
    ("waves-for-an-absent-member", &[10], waves_for_an_absent_member),
];

const THREE: [&str; 3] = ["africa", "asia", "europe"];

fn text(text: &str) -> String {
    text.to_owned()
}

fn apply(kind: &str, name: &str, revision: u32) -> Action {
    Action::Apply { kind: text(kind), namespace: text("shop"), name: text(name), revision }
}

fn delete(kind: &str, name: &str) -> Action {
    Action::Delete { kind: text(kind), namespace: text("shop"), name: text(name), orphan: false }
}

fn many(count: u32) -> Action {
    Action::ApplyMany { namespace: text("shop"), count }
}

fn foreign(server: &str, kind: &str, name: &str, guise: Guise) -> Action {
    let (server, kind) = (text(server), text(kind));
    Action::Foreign { server, kind, namespace: text("shop"), name: text(name), guise }
}

fn meddle(server: &str, kind: &str, name: &str, how: Meddling) -> Action {
    let (server, kind) = (text(server), text(kind));
    Action::Meddle { server, kind, namespace: text("shop"), name: text(name), how }
}

fn policy(placement: Placement, orphan: bool, conflict: Option<&str>) -> Action {
    Action::Policy {
        namespace: text("shop"),
        name: text("policy"),
        placement,
        orphan,
        conflict: conflict.map(text),
        waves: Vec::new(),
    }
}

fn only(names: &[&str]) -> Placement {
    Placement::Only(names.iter().copied().map(text).collect())
}

fn delete_policy() -> Action {
    Action::DeletePolicy { namespace: text("shop"), name: text("policy") }
}

fn delete_namespace() -> Action {
    Action::DeleteNamespace { name: text("shop") }
}

fn cut(server: &str, seconds: u64) -> Action {
    Action::Cut { server: text(server), requests: true, answers: true, seconds }
}

fn namespace_with_foreign_objects() -> Scenario {
    Scenario::new(1, &THREE)
        .at(5.0, apply("ConfigMap", "ours", 1))
        .at(10.0, foreign("europe", "ConfigMap", "theirs", Guise::Plain))
        .at(10.1, foreign("europe", "Secret", "theirs", Guise::Helm))
        .at(20.0, delete_namespace())
}

fn namespace_with_many_roots() -> Scenario {
    Scenario::new(2, &THREE).at(5.0, many(100)).at(30.0, delete_namespace())
}

fn orphans_in_a_deleted_namespace() -> Scenario {
    Scenario::new(3, &THREE)
        .at(4.0, policy(Placement::Everywhere, true, None))
        .at(5.0, apply("ConfigMap", "kept", 1))
        .at(20.0, delete_namespace())
}

fn relabel_during_a_hold() -> Scenario {
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

fn restart_during_a_hold() -> Scenario {
    Scenario::new(5, &THREE)
        .at(5.0, many(40))
        .at(30.0, policy(only(&["europe"]), false, None))
        .at(60.0, Action::Kill { seconds: 2 })
        .at(120.0, Action::Kill { seconds: 2 })
}

fn unserve(server: &str, seconds: u64) -> Action {
    Action::Unserve { server: text(server), resource: text("configmaps"), seconds }
}

fn kind_unserved_during_a_hold() -> Scenario {
    Scenario::new(31, &THREE)
        .at(5.0, many(40))
        .at(30.0, policy(only(&["europe"]), false, None))
        .at(60.0, unserve("asia", 60))
        .at(90.0, Action::Kill { seconds: 2 })
        .at(200.0, unserve("africa", 60))
        .at(230.0, policy(Placement::Everywhere, false, None))
}

fn kind_unserved_during_a_held_deletion() -> Scenario {
    Scenario::new(32, &THREE)
        .at(5.0, many(60))
        .at(30.0, delete_namespace())
        .at(60.0, unserve("africa", 60))
        .at(60.0, unserve("asia", 60))
        .at(60.0, unserve("europe", 60))
        .at(300.0, unserve("europe", 100))
        .at(330.0, Action::Release)
}

fn hold_before_an_answer() -> Scenario {
    let silence = Action::Cut { server: text("asia"), requests: false, answers: true, seconds: 60 };
    Scenario::new(43, &THREE)
        .at(11.0, silence)
        .at(12.0, apply("Secret", "two", 1))
        .at(25.0, policy(Placement::Region(text("nowhere")), false, None))
}

fn restart_while_the_store_is_away() -> Scenario {
    let cut = Action::Cut { server: text(HUB), requests: true, answers: false, seconds: 100 };
    Scenario::new(44, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(30.0, cut)
        .at(40.0, apply("ConfigMap", "one", 2))
        .at(60.0, Action::Kill { seconds: 10 })
}

fn restart_during_a_held_deletion() -> Scenario {
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

fn nothing_selected() -> Scenario {
    Scenario::new(46, &THREE)
        .at(4.0, policy(only(&["europe"]), false, None))
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(30.0, policy(Placement::Region(text("nowhere")), false, None))
}

fn reports_before_the_first_plan() -> Scenario {
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

fn orphan_policy_for_an_unreadable_root() -> Scenario {
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

fn unreadable_policy_goes_with_namespace() -> Scenario {
    Scenario::new(49, &THREE)
        .at(4.0, policy(only(&["africa"]), false, None))
        .at(5.0, apply("ConfigMap", "kept", 1))
        .at(30.0, policy(Placement::Broken, true, None))
        .at(200.0, delete_namespace())
}

fn leader_suspended_alone() -> Scenario {
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

fn leader_suspended_briefly() -> Scenario {
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

fn autoscaler_in_one_cluster() -> Scenario {
    let here = Action::Select {
        kind: text("HorizontalPodAutoscaler"),
        namespace: text("shop"),
        name: text("web"),
        selector: Some(text(r#"[{"key": "region", "operator": "in", "values": ["europe"]}]"#)),
    };
    Scenario::new(52, &THREE)
        .at(5.0, apply("HorizontalPodAutoscaler", "web", 1))
        .at(6.0, here)
        .at(30.0, apply("Deployment", "web", 1))
        .at(60.0, delete("Deployment", "web"))
        .at(90.0, apply("Deployment", "web", 1))
}

fn leaf_lost_under_an_unreadable_policy() -> Scenario {
    Scenario::new(53, &THREE)
        .at(4.0, policy(only(&["europe"]), false, None))
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(30.0, policy(Placement::Malformed, false, None))
        .at(150.0, meddle("europe", "ConfigMap", "one", Meddling::Delete))
}

fn job_expires_unwatched() -> Scenario {
    // Jobs finish after some seconds and expire half a minute later: once without a hub, once
    // without the network.
    Scenario::new(54, &THREE)
        .at(5.0, apply("Job", "first", 1))
        .at(6.5, Action::Kill { seconds: 60 })
        .at(100.0, apply("Job", "second", 1))
        .at(101.0, cut("asia", 120))
}

fn unread_policy_goes_with_namespace() -> Scenario {
    Scenario::new(55, &THREE)
        .at(5.0, apply("Ingress", "kept", 1))
        .at(30.0, policy(Placement::Malformed, true, None))
        .at(200.0, delete_namespace())
}

fn hub_joins_itself() -> Scenario {
    Scenario::new(6, &THREE)
        .at(5.0, apply("Service", "one", 1))
        .at(15.0, Action::Join { cluster: text("self"), server: text(HUB) })
        .at(45.0, Action::Unjoin { cluster: text("self"), delete: true })
}

fn one_cluster_under_two_names() -> Scenario {
    Scenario::new(7, &THREE)
        .at(4.0, policy(only(&["europe"]), false, None))
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, Action::Join { cluster: text("twin"), server: text("europe") })
        .at(40.0, policy(only(&["twin"]), false, None))
        .at(60.0, apply("ConfigMap", "one", 2))
}

fn replaced_cluster() -> Scenario {
    Scenario::new(8, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, Action::Reset { server: text("europe") })
        .at(60.0, apply("ConfigMap", "one", 2))
}

fn store_restored_from_backup() -> Scenario {
    Scenario::new(9, &THREE)
        .at(4.0, policy(only(&["europe"]), false, None))
        .at(5.0, apply("ConfigMap", "old", 1))
        .at(20.0, Action::BackUp { server: text(HUB) })
        .at(25.0, policy(Placement::Everywhere, false, None))
        .at(30.0, apply("ConfigMap", "new", 1))
        .at(120.0, Action::Restore { server: text(HUB) })
}

fn store_copied() -> Scenario {
    Scenario::new(10, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, Action::CloneHub)
        .at(40.0, apply("ConfigMap", "one", 2))
        .at(60.0, apply("ConfigMap", "two", 1))
        .at(80.0, delete("ConfigMap", "one"))
}

fn foreign_object_during_watch_lag() -> Scenario {
    let lag = |resource: &str| Action::Lag {
        server: text("europe"),
        resource: text(resource),
        millis: 1200,
        seconds: 60,
    };
    Scenario::new(11, &THREE)
        .at(4.0, policy(Placement::Everywhere, false, Some("Abort")))
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, lag("configmaps"))
        .at(25.0, meddle("europe", "ConfigMap", "one", Meddling::Replace))
        .at(25.4, apply("ConfigMap", "one", 2))
        .at(60.0, delete("ConfigMap", "one"))
}

fn suspended_leader() -> Scenario {
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

fn leaf_of_another_root() -> Scenario {
    Scenario::new(13, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, meddle("europe", "ConfigMap", "one", Meddling::Relabel))
        .at(40.0, foreign("asia", "ConfigMap", "two", Guise::Forged))
        .at(60.0, apply("ConfigMap", "two", 1))
        .at(80.0, delete("ConfigMap", "one"))
        .at(90.0, delete("ConfigMap", "two"))
}

fn image_that_never_starts() -> Scenario {
    let waves = vec![vec![text("africa")], vec![text("asia")], vec![text("europe")]];
    let policy = Action::Policy {
        namespace: text("shop"),
        name: text("policy"),
        placement: Placement::Everywhere,
        orphan: false,
        conflict: None,
        waves,
    };
    Scenario::new(14, &THREE)
        .at(4.0, policy)
        .at(5.0, apply("Deployment", "web", 1))
        // Its image cannot be pulled.
        .at(60.0, apply("Deployment", "web", 2))
}

fn autoscaler_arrives() -> Scenario {
    Scenario::new(15, &THREE)
        .at(5.0, apply("Deployment", "web", 1))
        .at(30.0, apply("HorizontalPodAutoscaler", "web", 1))
        .at(90.0, delete("HorizontalPodAutoscaler", "web"))
}

fn policy_deleted() -> Scenario {
    Scenario::new(16, &THREE)
        .at(4.0, policy(only(&["europe"]), false, None))
        .at(5.0, apply("Secret", "personal", 1))
        .at(6.0, foreign("asia", "Service", "web", Guise::Plain))
        .at(7.0, apply("Service", "web", 1))
        .at(30.0, delete_policy())
}

fn policy_unreadable() -> Scenario {
    Scenario::new(17, &THREE)
        .at(4.0, policy(only(&["europe"]), false, None))
        .at(5.0, apply("Secret", "personal", 1))
        .at(30.0, policy(Placement::Malformed, false, None))
        .at(60.0, Action::Kill { seconds: 2 })
}

fn orphan_with_a_bad_annotation() -> Scenario {
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

fn policy_and_root_deleted_together() -> Scenario {
    Scenario::new(19, &THREE)
        .at(4.0, policy(Placement::Everywhere, true, None))
        .at(5.0, apply("ConfigMap", "kept", 1))
        .at(100.0, delete_policy())
        .at(100.001, delete("ConfigMap", "kept"))
}

fn adoption_from_helm() -> Scenario {
    Scenario::new(20, &THREE)
        .at(3.0, policy(Placement::Everywhere, false, Some("Adopt")))
        .at(4.0, foreign("europe", "Service", "web", Guise::Helm))
        .at(4.1, foreign("asia", "Service", "web", Guise::Controlled))
        .at(5.0, apply("Service", "web", 1))
        .at(30.0, delete("Service", "web"))
}

fn adopted_object_deleted() -> Scenario {
    Scenario::new(21, &THREE)
        .at(3.0, policy(Placement::Everywhere, false, Some("Adopt")))
        .at(4.0, foreign("europe", "Service", "web", Guise::Plain))
        .at(5.0, apply("Service", "web", 1))
        .at(30.0, delete("Service", "web"))
}

fn member_restored_from_backup() -> Scenario {
    Scenario::new(22, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(5.1, apply("ConfigMap", "two", 1))
        .at(10.0, Action::BackUp { server: text("europe") })
        .at(15.0, apply("ConfigMap", "one", 2))
        .at(15.1, apply("ConfigMap", "two", 2))
        .at(30.0, Action::Restore { server: text("europe") })
}

fn answer_overtaken_by_an_event() -> Scenario {
    let weather = crate::network::Weather { answers_late: 1000, ..Default::default() };
    Scenario::new(23, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, Action::Storm { weather, seconds: 60 })
        .at(21.0, apply("ConfigMap", "one", 2))
        .at(21.3, meddle("europe", "ConfigMap", "one", Meddling::Delete))
        .at(21.3, meddle("asia", "ConfigMap", "one", Meddling::Delete))
}

fn deletions_during_an_absence() -> Scenario {
    let mut scenario = Scenario::new(24, &THREE)
        .at(5.0, many(8))
        .at(30.0, cut("europe", 4000))
        .at(100.0, policy(only(&["africa", "asia"]), false, None));
    scenario.rest = 4800;
    scenario
}

fn local_autoscaler() -> Scenario {
    Scenario::new(25, &THREE)
        .at(5.0, apply("Deployment", "web", 1))
        .at(30.0, foreign("europe", "HorizontalPodAutoscaler", "web", Guise::Plain))
}

fn rival_manager() -> Scenario {
    let rival = Action::Rival {
        server: text("europe"),
        kind: text("ConfigMap"),
        namespace: text("shop"),
        name: text("one"),
        seconds: 100_000,
    };
    Scenario::new(26, &THREE).at(5.0, apply("ConfigMap", "one", 1)).at(20.0, rival)
}

fn finished_job_deleted() -> Scenario {
    Scenario::new(27, &THREE)
        .at(5.0, apply("Job", "once", 2))
        .at(30.0, meddle("europe", "Job", "once", Meddling::Delete))
}

fn finished_job_expires() -> Scenario {
    Scenario::new(28, &THREE).at(5.0, apply("Job", "once", 1))
}

fn cluster_deleted() -> Scenario {
    Scenario::new(29, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, cut("europe", 60))
        .at(40.0, delete("ConfigMap", "one"))
        .at(60.0, Action::DeleteCluster { cluster: text("europe") })
        .at(70.0, Action::Kill { seconds: 2 })
        .at(120.0, Action::Join { cluster: text("europe"), server: text("europe") })
}

fn earlier_root_in_a_deselected_cluster() -> Scenario {
    Scenario::new(60, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, cut("europe", 60))
        .at(30.0, delete("ConfigMap", "one"))
        .at(40.0, policy(only(&["africa"]), false, None))
        .at(45.0, apply("ConfigMap", "one", 2))
}

fn everyday_deletions() -> Scenario {
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

fn many_roots_deleted_by_name() -> Scenario {
    Scenario::new(33, &THREE)
        .at(5.0, many(80))
        .at(30.0, Action::DeleteMany { namespace: text("shop"), count: 70 })
}

fn deletions_in_two_steps() -> Scenario {
    // Each step is of everyday size, both together are not; the hub restarts between them.
    Scenario::new(34, &THREE)
        .at(5.0, many(80))
        .at(60.0, Action::DeleteMany { namespace: text("shop"), count: 40 })
        .at(70.0, Action::Kill { seconds: 1 })
        .at(85.0, Action::DeleteMany { namespace: text("shop"), count: 75 })
}

fn deselected_in_small_steps() -> Scenario {
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

fn same_accident_after_a_release() -> Scenario {
    let nowhere = || policy(Placement::Region(text("nowhere")), false, None);
    Scenario::new(36, &THREE)
        .at(4.0, policy(Placement::Everywhere, false, None))
        .at(5.0, many(20))
        .at(30.0, nowhere())
        .at(60.0, Action::Release)
        .at(120.0, policy(Placement::Everywhere, false, None))
        .at(240.0, nowhere())
}

fn removal_just_before_an_absence() -> Scenario {
    let mut scenario = Scenario::new(56, &THREE)
        .at(5.0, many(8))
        .at(30.0, cut("europe", 4000))
        .at(31.0, policy(only(&["africa", "asia"]), false, None));
    scenario.rest = 4800;
    scenario
}

fn absence_over_a_restart() -> Scenario {
    let mut scenario = Scenario::new(37, &THREE)
        .at(5.0, many(8))
        .at(30.0, cut("europe", 4000))
        .at(100.0, policy(only(&["africa", "asia"]), false, None))
        .at(3900.0, Action::Kill { seconds: 2 });
    scenario.rest = 1000;
    scenario
}

fn orphan_by_request() -> Scenario {
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

fn deleted_at_once() -> Scenario {
    let once = |scenario: Scenario, step: u32| {
        let at = 10.0 + f64::from(step) * 7.0;
        let name = format!("brief-{step}");
        scenario
            .at(at, apply("ConfigMap", &name, 1))
            .at(at + 0.004 * f64::from(step), delete("ConfigMap", &name))
    };
    (1..12).fold(Scenario::new(39, &THREE), once)
}

fn job_over_a_restart() -> Scenario {
    Scenario::new(40, &THREE)
        .at(5.0, apply("Job", "once", 2))
        .at(60.0, Action::Kill { seconds: 2 })
        .at(65.0, meddle("europe", "Job", "once", Meddling::Delete))
        .at(90.0, meddle("asia", "Job", "once", Meddling::Delete))
        .at(120.0, Action::Kill { seconds: 2 })
}

fn policy_that_aborts() -> Scenario {
    Scenario::new(41, &THREE)
        .at(4.0, foreign("europe", "Service", "web", Guise::Plain))
        .at(4.1, foreign("asia", "Ingress", "web", Guise::Plain))
        .at(4.2, foreign("asia", "Ingress", "api", Guise::Plain))
        .at(4.3, policy(Placement::Everywhere, false, Some("Abort")))
        .at(5.0, apply("Service", "web", 1))
        .at(5.1, apply("Ingress", "web", 1))
        // By default an Ingress is adopted.
        .at(200.0, policy(Placement::Everywhere, false, None))
        .at(210.0, apply("Ingress", "api", 1))
        .at(300.0, delete("Ingress", "api"))
}

fn wave_that_refuses() -> Scenario {
    let waves = vec![vec![text("africa")], vec![text("asia"), text("europe")]];
    let policy = Action::Policy {
        namespace: text("shop"),
        name: text("policy"),
        placement: Placement::Everywhere,
        orphan: false,
        conflict: Some(text("Abort")),
        waves,
    };
    Scenario::new(42, &THREE)
        .at(3.0, foreign("africa", "Deployment", "web", Guise::Plain))
        .at(4.0, policy)
        .at(5.0, apply("Deployment", "web", 1))
        .at(60.0, apply("Deployment", "web", 3))
}

fn waves_for_an_absent_member() -> Scenario {
    let waves = vec![vec![text("africa")], vec![text("asia"), text("europe")]];
    let policy = Action::Policy {
        namespace: text("shop"),
        name: text("policy"),
        placement: Placement::Everywhere,
        orphan: false,
        conflict: None,
        waves,
    };
    Scenario::new(57, &THREE)
        .at(5.0, cut("asia", 200))
        // Its image cannot be pulled.
        .at(60.0, apply("Deployment", "web", 2))
        .at(150.0, policy)
}
