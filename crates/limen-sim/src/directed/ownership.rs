//! Foreign objects, rivals, adoption, and namespaces that are not only ours.

use super::actions::{THREE, apply, delete, delete_namespace, foreign, meddle, policy, text};
use crate::scenario::{Action, Guise, Meddling, Placement, Scenario};

pub(super) fn namespace_with_foreign_objects() -> Scenario {
    Scenario::new(1, &THREE)
        .at(5.0, apply("ConfigMap", "ours", 1))
        .at(10.0, foreign("europe", "ConfigMap", "theirs", Guise::Plain))
        .at(10.1, foreign("europe", "Secret", "theirs", Guise::Helm))
        .at(20.0, delete_namespace())
}

/// Watches of ConfigMaps in europe lag.
fn lag() -> Action {
    Action::Lag { server: text("europe"), resource: text("configmaps"), millis: 1200, seconds: 60 }
}

pub(super) fn relabelled_during_watch_lag() -> Scenario {
    Scenario::new(88, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, lag())
        .at(25.0, meddle("europe", "ConfigMap", "one", Meddling::Relabel))
        .at(25.4, delete("ConfigMap", "one"))
}

pub(super) fn foreign_object_during_watch_lag() -> Scenario {
    Scenario::new(11, &THREE)
        .at(4.0, policy(Placement::Everywhere, false, Some("Abort")))
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, lag())
        .at(25.0, meddle("europe", "ConfigMap", "one", Meddling::Replace))
        .at(25.4, apply("ConfigMap", "one", 2))
        .at(60.0, delete("ConfigMap", "one"))
}

pub(super) fn leaf_of_another_root() -> Scenario {
    Scenario::new(13, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.0, meddle("europe", "ConfigMap", "one", Meddling::Relabel))
        .at(40.0, foreign("asia", "ConfigMap", "two", Guise::Forged))
        .at(60.0, apply("ConfigMap", "two", 1))
        .at(80.0, delete("ConfigMap", "one"))
        .at(90.0, delete("ConfigMap", "two"))
}

pub(super) fn adoption_from_helm() -> Scenario {
    Scenario::new(20, &THREE)
        .at(3.0, policy(Placement::Everywhere, false, Some("Adopt")))
        .at(4.0, foreign("europe", "Service", "web", Guise::Helm))
        .at(4.1, foreign("asia", "Service", "web", Guise::Controlled))
        .at(5.0, apply("Service", "web", 1))
        .at(30.0, delete("Service", "web"))
}

pub(super) fn adopted_object_deleted() -> Scenario {
    Scenario::new(21, &THREE)
        .at(3.0, policy(Placement::Everywhere, false, Some("Adopt")))
        .at(4.0, foreign("europe", "Service", "web", Guise::Plain))
        .at(5.0, apply("Service", "web", 1))
        .at(30.0, delete("Service", "web"))
}

pub(super) fn policy_that_aborts() -> Scenario {
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

pub(super) fn rival_manager() -> Scenario {
    let rival = Action::Rival {
        server: text("europe"),
        kind: text("ConfigMap"),
        namespace: text("shop"),
        name: text("one"),
        seconds: 100_000,
    };
    Scenario::new(26, &THREE).at(5.0, apply("ConfigMap", "one", 1)).at(20.0, rival)
}

pub(super) fn answer_overtaken_by_an_event() -> Scenario {
    let weather = crate::network::Weather { answers_late: 1000, ..Default::default() };
    Scenario::new(23, &THREE)
        .at(5.0, apply("ConfigMap", "one", 1))
        .at(20.9, Action::Storm { weather, seconds: 1 })
        .at(21.0, apply("ConfigMap", "one", 2))
        .at(21.3, meddle("europe", "ConfigMap", "one", Meddling::Delete))
        .at(21.3, meddle("asia", "ConfigMap", "one", Meddling::Delete))
}
