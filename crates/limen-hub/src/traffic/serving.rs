//! Whether clients can use each root: computed with its compile, written as a condition.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use limen_core::global::Global;
use limen_core::serving::{GatewayLiveness, Serving, ServingFacts, serving};

use super::Traffic;
use crate::conditions::condition;

/// Facts beside the compiled root.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Facts {
    pub(super) refused_hosts: Vec<String>,
    pub(super) missing_certificates: Vec<String>,
    pub(super) gateways: GatewayLiveness,
}

/// An answer, and what it was computed from.
pub(super) struct Answered {
    global: Option<Arc<Global>>,
    facts: Facts,
    pub(super) serving: Serving,
}

/// Computes the answer anew where its inputs have changed. Returns whether the answer changes.
pub(super) fn answer(
    known: &mut Option<Answered>,
    global: Option<&Arc<Global>>,
    facts: Facts,
) -> bool {
    let is_same = |before: &Answered| {
        let same = match (&before.global, global) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (before, now) => before.is_none() && now.is_none(),
        };
        same && before.facts == facts
    };
    if known.as_ref().is_some_and(is_same) {
        return false;
    }
    let beside = ServingFacts {
        refused_hosts: &facts.refused_hosts,
        missing_certificates: &facts.missing_certificates,
        gateways: facts.gateways,
    };
    let serving = serving(global.map(Arc::as_ref), &beside);
    let changed = known.as_ref().is_none_or(|before| before.serving != serving);
    *known = Some(Answered { global: global.cloned(), facts, serving });
    changed
}

impl Traffic {
    /// Secrets with certificates that a compiled root names and the hub does not hold.
    pub(super) fn missing_secrets(&self, namespace: &str, global: Option<&Global>) -> Vec<String> {
        let tls = global.into_iter().flat_map(|global| &global.tls);
        let names = tls.filter_map(|tls| tls.secret_name.as_deref());
        let missing = names
            .filter(|name| !self.certificates.exists(&(namespace.to_owned(), (*name).to_owned())));
        missing.map(|name| format!("Secret {name} with the certificate is missing")).collect()
    }
}

/// The conditions of a GlobalIngress. Those that are as they were keep their time; nothing if all
/// are.
pub(super) fn conditions(
    findings: &[String],
    serving: Option<&Serving>,
    before: &[Condition],
) -> Option<Vec<Condition>> {
    let complete = match findings.is_empty() {
        true => ("True", "Whole"),
        false => ("False", "InPart"),
    };
    let mut wanted = vec![("Complete", complete.0, complete.1, findings.join("; "))];
    wanted.extend(serving.map(|Serving { verdict, message }| {
        ("Serving", verdict.status(), verdict.reason(), message.clone())
    }));
    let now = limen_sync::clock::now();
    let made = wanted.into_iter().map(|(type_, status, reason, message)| {
        condition(before, type_, status, reason, &message, now)
    });
    let made: Vec<Condition> = made.collect();
    (made != before).then_some(made)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use limen_core::global::{Backend, PathRule, PathType, Rule};
    use limen_core::serving::ServingVerdict;

    use super::*;

    fn facts(gateways: GatewayLiveness) -> Facts {
        Facts { refused_hosts: Vec::new(), missing_certificates: Vec::new(), gateways }
    }

    #[test]
    fn an_answer_changes_only_with_what_it_says() {
        let path = PathRule {
            path: "/".to_owned(),
            path_type: PathType::Prefix,
            backend: "web".to_owned(),
        };
        let rules = vec![Rule { host: "shop.test".to_owned(), paths: vec![path] }];
        let backends = vec![Backend { name: "web".to_owned(), targets: Vec::new() }];
        let global = Arc::new(Global { rules, backends, ..Global::default() });
        let mut known = None;
        assert!(answer(&mut known, Some(&global), facts(GatewayLiveness::Alive)));
        assert!(!answer(&mut known, Some(&global), facts(GatewayLiveness::Alive)));
        let same = Arc::new((*global).clone());
        assert!(!answer(&mut known, Some(&same), facts(GatewayLiveness::Unused)));
        assert!(answer(&mut known, None, facts(GatewayLiveness::Alive)));
        assert_eq!(known.unwrap().serving.verdict, ServingVerdict::NotServing);
    }

    #[test]
    fn conditions_are_written_only_when_one_of_them_changes() {
        let serving =
            |verdict| Serving { verdict, message: "1 of 2 clusters can serve".to_owned() };
        let first = conditions(&[], Some(&serving(ServingVerdict::Serving)), &[]).unwrap();
        assert_eq!(first[1].type_, "Serving");
        assert_eq!((&*first[1].status, &*first[1].reason), ("True", "Serving"));
        assert_eq!(conditions(&[], Some(&serving(ServingVerdict::Serving)), &first), None);
        let mut old = first;
        for condition in &mut old {
            condition.last_transition_time = Time(jiff::Timestamp::from_second(7).unwrap());
        }
        let next = conditions(&[], Some(&serving(ServingVerdict::Degraded)), &old).unwrap();
        assert_eq!(next[1].reason, "Degraded");
        assert_eq!(next[1].last_transition_time, old[1].last_transition_time, "still True");
        let next = conditions(&[], Some(&serving(ServingVerdict::NotServing)), &old).unwrap();
        assert_ne!(next[1].last_transition_time, old[1].last_transition_time);
        assert_eq!(next[0], old[0]);
    }
}
