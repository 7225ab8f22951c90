//! Whether clients can use a root: Serving, Degraded, NotServing or Unknown, with the reason.
//!
//! ```text
//! compiled Global ─── decide, for each rule's backend ──┐
//! hosts refused, certificates missing, gateways alive ──┴─► Serving { verdict, message }
//! ```
//!
//! Each backend that a rule or the default leads to is graded by the target that
//! [`Plan::decide`](crate::decide::Plan::decide) picks for a client without residency restrictions,
//! from what the hub knows:
//!
//! | picked | grade |
//! | --- | --- |
//! | a Ready target | full |
//! | a Draining target | worse |
//! | a Stale target | unknown |
//! | an Unhealthy target, or none | failed |
//!
//! Laws:
//! - *Serving*: every backend is full, every host is granted, every certificate is present, and a
//!   gateway is alive wherever gateways are used.
//! - *NotServing*: nothing is compiled, no rule is granted, or every backend has failed.
//! - *Unknown*: no backend is full or worse, and one is unknown; or otherwise a backend serves and
//!   no gateway has reported lately.
//! - *Degraded*: everything else.

#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeSet;
use std::fmt;

use crate::decide::{Ask, Memory, OwnKnowledge, Plan, Readiness, readiness};
use crate::global::{Backend, Global};
use crate::locality::Locality;

/// Whether clients can use a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// The answer.
    pub verdict: ServingVerdict,
    /// The reason.
    pub message: String,
}

/// Whether clients can use a root, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServingVerdict {
    /// Every request has a ready target.
    Serving,
    /// Some requests fail, or go to a worse target.
    Degraded,
    /// Every request fails.
    NotServing,
    /// Nothing is known to serve, and something may.
    Unknown,
}

impl ServingVerdict {
    /// The reason of the condition `Serving`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Serving => "Serving",
            Self::Degraded => "Degraded",
            Self::NotServing => "NotServing",
            Self::Unknown => "Unknown",
        }
    }

    /// The status of the condition `Serving`.
    pub fn status(self) -> &'static str {
        match self {
            Self::Serving | Self::Degraded => "True",
            Self::NotServing => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl fmt::Display for Serving {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.verdict {
            ServingVerdict::Serving => "SERVING",
            ServingVerdict::Degraded => "DEGRADED",
            ServingVerdict::NotServing => "NOT SERVING",
            ServingVerdict::Unknown => "UNKNOWN",
        };
        write!(to, "{word}: {}", self.message)
    }
}

/// Facts beside the compiled root.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServingFacts<'a> {
    /// Hosts that the root asks for and does not get, each with the reason.
    pub refused_hosts: &'a [String],
    /// Certificates that are missing, each with the reason.
    pub missing_certificates: &'a [String],
    /// Gateways.
    pub gateways: GatewayLiveness,
}

/// Whether any gateway is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GatewayLiveness {
    /// No gateway has registered: DNS leads clients to the clusters themselves.
    #[default]
    Unused,
    /// At least one has reported lately.
    Alive,
    /// All that have registered are silent or stopping.
    Silent,
}

/// How well one backend is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Grade {
    Full,
    Worse,
    Unknown,
    Failed,
}

/// Whether clients can use a root, from what it compiles to.
pub fn serving(global: Option<&Global>, facts: &ServingFacts<'_>) -> Serving {
    let hosts = facts.refused_hosts;
    let said = |verdict, message: String| Serving { verdict, message };
    let Some(global) = global else {
        let message = match hosts.is_empty() {
            true => words::NEVER_READY.to_owned(),
            false => words::joined(hosts.to_vec()),
        };
        return said(ServingVerdict::NotServing, message);
    };
    let names = used_backends(global);
    if names.is_empty() {
        let none = || vec![words::NO_RULE.to_owned()];
        let reasons = if hosts.is_empty() { none() } else { hosts.to_vec() };
        return said(ServingVerdict::NotServing, words::joined(reasons));
    }
    let graded: Vec<(&str, Option<&Backend>, Grade)> = names
        .into_iter()
        .map(|name| {
            let backend = global.backends.iter().find(|backend| backend.name == name);
            (name, backend, backend.map_or(Grade::Failed, |backend| grade(global, backend)))
        })
        .collect();
    let has = |wanted: Grade| graded.iter().any(|(.., grade)| *grade == wanted);
    let mut reasons = words::backends(&graded);
    if facts.gateways == GatewayLiveness::Silent {
        reasons.push(words::NO_GATEWAY.to_owned());
    }
    reasons.extend(hosts.iter().chain(facts.missing_certificates).cloned());
    let verdict = match has(Grade::Full) || has(Grade::Worse) {
        true if facts.gateways == GatewayLiveness::Silent => ServingVerdict::Unknown,
        true => {
            let whole = graded.iter().all(|(.., grade)| *grade == Grade::Full)
                && hosts.is_empty()
                && facts.missing_certificates.is_empty();
            if whole { ServingVerdict::Serving } else { ServingVerdict::Degraded }
        }
        false if has(Grade::Unknown) => ServingVerdict::Unknown,
        false => ServingVerdict::NotServing,
    };
    said(verdict, words::joined(reasons))
}

/// The backends that rules and the default lead to.
fn used_backends(global: &Global) -> BTreeSet<&str> {
    let paths = global.rules.iter().flat_map(|rule| &rule.paths);
    let named = paths.map(|path| path.backend.as_str());
    named.chain(global.default_backend.as_deref()).collect()
}

fn grade(global: &Global, backend: &Backend) -> Grade {
    let plan = Plan::new(backend, &global.traffic, &Locality::default());
    let ask = Ask { residency: plan.residency(&[]), ..Ask::default() };
    let sight = |target: usize| readiness(&backend.targets[target], OwnKnowledge::None);
    let decided = plan.decide(sight, &mut Memory::new(&plan), ask);
    match decided.map(|decided| decided.readiness) {
        Some(Readiness::Ready) => Grade::Full,
        Some(Readiness::Draining) => Grade::Worse,
        Some(Readiness::Stale) => Grade::Unknown,
        Some(Readiness::Unhealthy) | None => Grade::Failed,
    }
}
