//! How rules are said in words.

use std::collections::BTreeMap;

use super::super::readiness::Readiness;
use crate::global::{HeaderMatch, Split, Target, Verdict};

/// Names that are listed before the rest is only counted.
const MOST: usize = 6;

/// Several things in one sentence.
pub(super) fn listed(mut parts: Vec<String>) -> String {
    let more = parts.len().saturating_sub(MOST);
    if more > 0 {
        parts.truncate(MOST);
        parts.push(format!("and {more} more"));
    }
    parts.join(", ")
}

/// A rate, as people say it.
pub(super) fn rate(requests_per_second: f64) -> String {
    match requests_per_second {
        few if few > 0.0 && few < 0.95 => "less than 1 request/s".to_owned(),
        one if one < 1.5 => format!("{one:.0} request/s"),
        many => format!("{many:.0} requests/s"),
    }
}

/// Why a target is not ready, as something that can be said of it.
pub(super) fn unready(target: &Target, readiness: Readiness) -> &'static str {
    match readiness {
        Readiness::Ready => "is ready",
        Readiness::Draining => "is drained",
        Readiness::Stale if target.verdicts.lost_kind.is_some() => {
            "is stale: one of its kinds cannot be watched, health unknown"
        }
        Readiness::Stale => "is stale: API unreachable, health unknown",
        Readiness::Unhealthy
            if target.addresses.is_empty() && target.ready_endpoints != Some(0) =>
        {
            "has no way in"
        }
        Readiness::Unhealthy
            if target.ready_endpoints == Some(0)
                || target.verdicts.endpoints == Verdict::Unhealthy =>
        {
            "has no ready pods"
        }
        Readiness::Unhealthy => "does not answer",
    }
}

/// What is done when the best that there is is this.
pub(super) fn fallen_back(best: Readiness, reasons: Vec<String>) -> String {
    let who = match best {
        Readiness::Ready => return "only clusters that are ready are used".to_owned(),
        Readiness::Draining => "those that are drained are used all the same",
        Readiness::Stale => "stale ones are tried",
        Readiness::Unhealthy => "they are tried all the same",
    };
    format!("no cluster is ready ({}), so {who}", listed(reasons))
}

/// The fallback from weighted targets to those of weight 0.
pub(super) const WEIGHTLESS: &str =
    "; no cluster that has a weight is left, so those of weight 0 serve";

/// What a split says; nothing if it says nothing.
pub(super) fn split(split: &Split) -> Option<String> {
    let weights = |of: &BTreeMap<String, u32>| -> Vec<String> {
        of.iter().map(|(name, weight)| format!("{name} {weight}")).collect()
    };
    let mut said = Vec::new();
    for (what, weights) in
        [("version groups", weights(&split.groups)), ("clusters", weights(&split.clusters))]
    {
        if !weights.is_empty() {
            said.push(format!("{what} have the weights {}", listed(weights)));
        }
    }
    said.extend(split.matches.iter().map(matched));
    (!said.is_empty()).then(|| said.join("; "))
}

fn matched(rule: &HeaderMatch) -> String {
    let named = |what: &str, name: &Option<String>| {
        let value = rule.value.as_ref().map(|value| format!("={value}")).unwrap_or_default();
        name.as_ref().map(|name| format!("with the {what} {name}{value}"))
    };
    let with = named("header", &rule.header).or_else(|| named("cookie", &rule.cookie));
    let share = rule.percent.map(|percent| format!("{percent}% of ")).unwrap_or_default();
    let with = with.map(|with| format!(" {with}")).unwrap_or_default();
    format!("{share}requests{with} go to {} whatever the weights", rule.group)
}

/// How requests find room. `room` has the clusters that have only so much.
pub(super) fn room(order: &str, demand: f64, room: Vec<(String, f64)>, crowded: bool) -> String {
    if room.is_empty() {
        return format!("{order}; no cluster has a limit");
    }
    let come = match demand > 0.0 {
        true => format!("{} come in", rate(demand)),
        false => "no requests come in at the moment".to_owned(),
    };
    let room = room.into_iter().map(|(name, room)| format!("{name} for {}", rate(room)));
    let room = listed(room.collect());
    let crowded = match crowded {
        true => "; that is too little, so that clusters get more than they should",
        false => "",
    };
    format!("{order}; {come}, and there is room in {room}{crowded}")
}
