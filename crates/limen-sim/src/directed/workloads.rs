//! Jobs, autoscalers and waves.

use super::actions::{THREE, apply, cut, delete, foreign, in_waves, meddle, only, policy, text};
use crate::scenario::{Action, Guise, Meddling, Placement, Scenario};

pub(super) fn autoscaler_in_one_cluster() -> Scenario {
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

pub(super) fn autoscaler_arrives() -> Scenario {
    Scenario::new(15, &THREE)
        .at(5.0, apply("Deployment", "web", 1))
        .at(30.0, apply("HorizontalPodAutoscaler", "web", 1))
        .at(90.0, delete("HorizontalPodAutoscaler", "web"))
}

pub(super) fn local_autoscaler() -> Scenario {
    Scenario::new(25, &THREE)
        .at(5.0, apply("Deployment", "web", 1))
        .at(30.0, foreign("europe", "HorizontalPodAutoscaler", "web", Guise::Plain))
}

pub(super) fn job_expires_unwatched() -> Scenario {
    // Jobs finish after some seconds and expire half a minute later: once without a hub, once
    // without the network.
    Scenario::new(54, &THREE)
        .at(5.0, apply("Job", "first", 1))
        .at(6.5, Action::Kill { seconds: 60 })
        .at(100.0, apply("Job", "second", 1))
        .at(101.0, cut("asia", 120))
}

pub(super) fn finished_job_deleted() -> Scenario {
    Scenario::new(27, &THREE)
        .at(5.0, apply("Job", "once", 2))
        .at(30.0, meddle("europe", "Job", "once", Meddling::Delete))
}

pub(super) fn finished_job_of_somebody_else() -> Scenario {
    Scenario::new(88, &THREE)
        .at(4.0, policy(only(&["asia"]), false, None))
        .at(5.0, foreign("asia", "Job", "once", Guise::Forged))
        .at(60.0, apply("Job", "once", 1))
}

pub(super) fn finished_job_expires() -> Scenario {
    Scenario::new(28, &THREE).at(5.0, apply("Job", "once", 1))
}

pub(super) fn job_over_a_restart() -> Scenario {
    Scenario::new(40, &THREE)
        .at(5.0, apply("Job", "once", 2))
        .at(60.0, Action::Kill { seconds: 2 })
        .at(65.0, meddle("europe", "Job", "once", Meddling::Delete))
        .at(90.0, meddle("asia", "Job", "once", Meddling::Delete))
        .at(120.0, Action::Kill { seconds: 2 })
}

pub(super) fn image_that_never_starts() -> Scenario {
    let policy = in_waves(&[&["africa"], &["asia"], &["europe"]], None);
    Scenario::new(14, &THREE)
        .at(4.0, policy)
        .at(5.0, apply("Deployment", "web", 1))
        // Its image cannot be pulled.
        .at(60.0, apply("Deployment", "web", 2))
}

pub(super) fn wave_that_refuses() -> Scenario {
    let policy = in_waves(&[&["africa"], &["asia", "europe"]], Some("Abort"));
    Scenario::new(42, &THREE)
        .at(3.0, foreign("africa", "Deployment", "web", Guise::Plain))
        .at(4.0, policy)
        .at(5.0, apply("Deployment", "web", 1))
        .at(60.0, apply("Deployment", "web", 3))
}

pub(super) fn waves_for_an_absent_member() -> Scenario {
    let policy = in_waves(&[&["africa"], &["asia", "europe"]], None);
    Scenario::new(57, &THREE)
        .at(5.0, cut("asia", 200))
        // Its image cannot be pulled.
        .at(60.0, apply("Deployment", "web", 2))
        .at(150.0, policy)
}

pub(super) fn first_wave_is_absent() -> Scenario {
    Scenario::new(84, &THREE)
        .at(4.0, in_waves(&[&["africa"], &["asia", "europe"]], None))
        .at(5.0, apply("Deployment", "web", 1))
        .at(60.0, cut("africa", 300))
        .at(120.0, apply("Deployment", "web", 3))
}

pub(super) fn job_waits_for_its_wave_over_a_restart() -> Scenario {
    Scenario::new(89, &THREE)
        .at(4.0, in_waves(&[&["africa"], &["asia", "europe"]], None))
        .at(30.0, apply("Job", "once", 1))
        .at(30.9, Action::Kill { seconds: 4 })
}

pub(super) fn removal_is_off_before_it_arrives() -> Scenario {
    // Asia is selected again before it can be told that it was not, and waits for an earlier wave.
    let silence =
        Action::Cut { server: text("africa"), requests: false, answers: true, seconds: 400 };
    Scenario::new(90, &THREE)
        .at(5.0, apply("Service", "web", 1))
        .at(29.0, silence)
        .at(30.0, cut("asia", 120))
        .at(31.0, policy(only(&["europe"]), false, None))
        .at(32.5, in_waves(&[&["africa"], &["asia", "europe"]], None))
}

pub(super) fn finished_job_in_a_member_that_is_deselected() -> Scenario {
    // Africa is away, so that the root does not end.
    Scenario::new(79, &THREE)
        .at(4.0, cut("africa", 500))
        .at(30.0, apply("Job", "once", 2))
        .at(80.0, policy(only(&["africa", "europe"]), false, None))
        .at(110.0, Action::Kill { seconds: 2 })
        .at(140.0, policy(Placement::Everywhere, false, None))
}

pub(super) fn finished_job_in_a_member_without_jobs() -> Scenario {
    // Africa runs the Job last, so that its root does not end before.
    let (server, resource) = (text("asia"), text("jobs.batch"));
    Scenario::new(66, &THREE)
        .at(4.0, cut("africa", 500))
        .at(30.0, apply("Job", "once", 2))
        .at(60.0, meddle("asia", "Job", "once", Meddling::Delete))
        .at(80.0, Action::Unserve { server, resource, seconds: 200 })
        .at(110.0, Action::Kill { seconds: 2 })
}
