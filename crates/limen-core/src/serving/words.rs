//! The reasons, in words.

use std::collections::BTreeMap;

use super::Grade;
use crate::decide::{OwnKnowledge, Readiness, readiness};
use crate::global::{Backend, Target, Verdict};

pub(super) const NEVER_READY: &str = "no cluster has had ready endpoints yet";
pub(super) const NO_RULE: &str = "no rule and no default backend";
pub(super) const NO_GATEWAY: &str = "no gateway has reported lately";

/// Items that are listed before the rest is only counted.
const MOST: usize = 6;

/// Reasons in one line.
pub(super) fn joined(reasons: Vec<String>) -> String {
    listed(reasons, "; ")
}

fn listed(mut parts: Vec<String>, between: &str) -> String {
    let more = parts.len().saturating_sub(MOST);
    if more > 0 {
        parts.truncate(MOST);
        parts.push(format!("and {more} more"));
    }
    parts.join(between)
}

/// A line for each backend that is not fully served, or one for all where each is.
pub(super) fn backends(graded: &[(&str, Option<&Backend>, Grade)]) -> Vec<String> {
    let line = |(name, backend, _): &(&str, Option<&Backend>, Grade)| match backend {
        None => format!("backend {name} is not compiled"),
        Some(backend) if graded.len() == 1 => clusters(backend).text,
        Some(backend) => format!("backend {name}: {}", clusters(backend).text),
    };
    if let [only] = graded {
        return vec![line(only)];
    }
    let failing = graded.iter().filter(|(.., grade)| *grade != Grade::Full);
    let failing: Vec<String> = failing.map(line).collect();
    if !failing.is_empty() {
        return failing;
    }
    let counts = graded.iter().filter_map(|(_, backend, _)| backend.map(clusters));
    let least = counts.min_by_key(|clusters| (clusters.ready, clusters.all));
    least.map_or_else(Vec::new, |least| {
        let Clusters { ready, all, .. } = least;
        vec![format!("{ready} of {all} clusters can serve each of {} backends", graded.len())]
    })
}

struct Clusters {
    ready: usize,
    all: usize,
    text: String,
}

/// How many clusters can serve a backend, and what keeps the others from it.
fn clusters(backend: &Backend) -> Clusters {
    let mut best: BTreeMap<&str, (Readiness, &Target)> = BTreeMap::new();
    for target in &backend.targets {
        let found = readiness(target, OwnKnowledge::None);
        let known = best.entry(&target.cluster).or_insert((found, target));
        if found < known.0 {
            *known = (found, target);
        }
    }
    let ready = best.values().filter(|(found, _)| *found == Readiness::Ready).count();
    let all = best.len();
    let others = best.iter().filter(|(_, (found, _))| *found != Readiness::Ready);
    let others: Vec<String> = others
        .map(|(cluster, (found, target))| format!("{cluster}: {}", obstacle(*found, target)))
        .collect();
    let others = match others.is_empty() {
        true => String::new(),
        false => format!(" ({})", listed(others, "; ")),
    };
    let text = format!("{ready} of {all} clusters can serve{others}");
    Clusters { ready, all, text }
}

fn obstacle(readiness: Readiness, target: &Target) -> String {
    match readiness {
        Readiness::Ready => "ready".to_owned(),
        Readiness::Draining => "drained".to_owned(),
        Readiness::Stale => match &target.verdicts.lost_kind {
            Some(kind) => format!("unknown, the watch of {kind} objects fails"),
            None => "unknown, API unreachable".to_owned(),
        },
        Readiness::Unhealthy
            if target.ready_endpoints == Some(0)
                || target.verdicts.endpoints == Verdict::Unhealthy =>
        {
            "no ready endpoints".to_owned()
        }
        Readiness::Unhealthy if target.addresses.is_empty() => "no address".to_owned(),
        Readiness::Unhealthy => "unreachable".to_owned(),
    }
}
