//! Actions of directed scenarios: most happen in the namespace `shop`.

use crate::scenario::{Action, Guise, Meddling, Placement};

/// The members of most scenarios.
pub(super) const THREE: [&str; 3] = ["africa", "asia", "europe"];

pub(super) fn text(text: &str) -> String {
    text.to_owned()
}

pub(super) fn apply(kind: &str, name: &str, revision: u32) -> Action {
    Action::Apply { kind: text(kind), namespace: text("shop"), name: text(name), revision }
}

pub(super) fn delete(kind: &str, name: &str) -> Action {
    Action::Delete { kind: text(kind), namespace: text("shop"), name: text(name), orphan: false }
}

pub(super) fn many(count: u32) -> Action {
    Action::ApplyMany { namespace: text("shop"), count }
}

pub(super) fn foreign(server: &str, kind: &str, name: &str, guise: Guise) -> Action {
    let (server, kind) = (text(server), text(kind));
    Action::Foreign { server, kind, namespace: text("shop"), name: text(name), guise }
}

pub(super) fn meddle(server: &str, kind: &str, name: &str, how: Meddling) -> Action {
    let (server, kind) = (text(server), text(kind));
    Action::Meddle { server, kind, namespace: text("shop"), name: text(name), how }
}

pub(super) fn policy(placement: Placement, orphan: bool, conflict: Option<&str>) -> Action {
    Action::Policy {
        namespace: text("shop"),
        name: text("policy"),
        placement,
        orphan,
        conflict: conflict.map(text),
        waves: Vec::new(),
    }
}

/// A policy for all clusters, in waves.
pub(super) fn in_waves(names: &[&[&str]], conflict: Option<&str>) -> Action {
    let mut action = policy(Placement::Everywhere, false, conflict);
    if let Action::Policy { waves, .. } = &mut action {
        *waves = names.iter().map(|wave| wave.iter().copied().map(text).collect()).collect();
    }
    action
}

pub(super) fn only(names: &[&str]) -> Placement {
    Placement::Only(names.iter().copied().map(text).collect())
}

pub(super) fn delete_policy() -> Action {
    Action::DeletePolicy { namespace: text("shop"), name: text("policy") }
}

pub(super) fn delete_namespace() -> Action {
    Action::DeleteNamespace { name: text("shop") }
}

pub(super) fn cut(server: &str, seconds: u64) -> Action {
    Action::Cut { server: text(server), requests: true, answers: true, seconds }
}

pub(super) fn unserve(server: &str, seconds: u64) -> Action {
    Action::Unserve { server: text(server), resource: text("configmaps"), seconds }
}
