//! What the edges agree on about ways into clusters.

use std::collections::BTreeMap;

use crate::edge::EdgeReport;
use crate::global::Verdict;
use crate::health::{Judged, Thresholds};

/// Agreements in a row that change a verdict. Edges have waited already, each for itself.
const THRESHOLDS: Thresholds = Thresholds { failures: 2, successes: 2 };

/// A cluster and an address of it; an empty address stands for the whole cluster.
pub type WayIn = (String, String);

/// The verdicts after one more look at the edges' reports: a way in is well if at least half of
/// the edges that have tried it say so. Reports older than `fresh` seconds say nothing, and what
/// nobody speaks of is forgotten.
pub fn quorum<'a>(
    before: &BTreeMap<WayIn, Judged>,
    reports: impl Iterator<Item = &'a EdgeReport>,
    fresh: i64,
    now: i64,
) -> BTreeMap<WayIn, Judged> {
    let mut votes: BTreeMap<WayIn, (usize, usize)> = BTreeMap::new();
    let fresh = |report: &&EdgeReport| report.observed_at.is_some_and(|at| now - at <= fresh);
    for target in reports.filter(fresh).flat_map(|report| &report.targets) {
        let way = (target.cluster.clone(), target.address.clone().unwrap_or_default());
        let (well, all) = votes.entry(way).or_default();
        *well += usize::from(target.healthy);
        *all += 1;
    }
    let judge = |(way, (well, all)): (WayIn, (usize, usize))| {
        let old = before.get(&way).copied().unwrap_or_default();
        let judged = old.after(well * 2 >= all, THRESHOLDS, now);
        (way, judged)
    };
    votes.into_iter().map(judge).collect()
}

/// Whether a cluster can be reached at all: by any of its ways in.
pub fn reachable(judged: &BTreeMap<WayIn, Judged>, cluster: &str) -> Judged {
    let from = (cluster.to_owned(), String::new());
    let mut found = Judged::default();
    for (_, judged) in judged.range(from..).take_while(|((name, _), _)| name == cluster) {
        match (judged.verdict, found.verdict) {
            (Verdict::Healthy, Verdict::Healthy) => found.since = found.since.min(judged.since),
            (Verdict::Healthy, _) => found = *judged,
            (Verdict::Unhealthy, Verdict::Unhealthy) => found.since = found.since.max(judged.since),
            (Verdict::Unhealthy, Verdict::Unknown) => found = *judged,
            _ => {}
        }
    }
    found
}
