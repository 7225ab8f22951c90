//! What the edges agree on about ways into clusters.

use std::collections::BTreeMap;

use crate::edge::EdgeReport;
use crate::global::Verdict;
use crate::health::{Judged, Thresholds};

/// Agreements in a row that change a verdict. Edges have waited already, each for itself.
const THRESHOLDS: Thresholds = Thresholds { failures: 2, successes: 2 };

/// A cluster and an address of it; an empty address stands for the whole cluster.
pub type TargetAddress = (String, String);

/// The verdicts after one more look at the edges' fresh reports: a way in is well if at least half
/// of the edges that have tried it say so. What nobody speaks of is forgotten.
pub fn quorum<'a>(
    before: &BTreeMap<TargetAddress, Judged>,
    reports: impl Iterator<Item = &'a EdgeReport>,
    now: i64,
) -> BTreeMap<TargetAddress, Judged> {
    let mut votes: BTreeMap<TargetAddress, (usize, usize)> = BTreeMap::new();
    for target in reports.flat_map(|report| &report.targets) {
        let way = (target.cluster.clone(), target.address.clone().unwrap_or_default());
        let (well, all) = votes.entry(way).or_default();
        *well += usize::from(target.healthy);
        *all += 1;
    }
    let judge = |(way, (well, all)): (TargetAddress, (usize, usize))| {
        let old = before.get(&way).copied().unwrap_or_default();
        let judged = old.after(well * 2 >= all, THRESHOLDS, now);
        (way, judged)
    };
    votes.into_iter().map(judge).collect()
}

/// Lets ways in stay well for `keep` seconds after the last edge has spoken of them. `unspoken` has
/// since when nobody does.
pub fn remember(
    before: &BTreeMap<TargetAddress, Judged>,
    judged: &mut BTreeMap<TargetAddress, Judged>,
    unspoken: &mut BTreeMap<TargetAddress, i64>,
    keep: i64,
    now: i64,
) {
    unspoken.retain(|way, _| !judged.contains_key(way));
    for (way, old) in before.iter().filter(|(_, old)| old.verdict == Verdict::Healthy) {
        if !judged.contains_key(way) && now - *unspoken.entry(way.clone()).or_insert(now) <= keep {
            judged.insert(way.clone(), *old);
        }
    }
    unspoken.retain(|way, _| judged.contains_key(way));
}

/// Whether a cluster can be reached at all: by any of its ways in.
pub fn reachable(judged: &BTreeMap<TargetAddress, Judged>, cluster: &str) -> Judged {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_in_stays_well_for_a_while_when_nobody_speaks_of_it_any_more() {
        let way = |address: &str| ("c".to_owned(), address.to_owned());
        let judged = |verdict| Judged { verdict, ..Judged::default() };
        let mut known = BTreeMap::from([
            (way("well"), judged(Verdict::Healthy)),
            (way("broken"), judged(Verdict::Unhealthy)),
        ]);
        let mut unspoken = BTreeMap::new();
        for second in 0..=61 {
            let mut next = BTreeMap::new();
            if second == 30 {
                // Somebody does once.
                next.insert(way("well"), judged(Verdict::Healthy));
            }
            remember(&known, &mut next, &mut unspoken, 30, second);
            let well = next.contains_key(&way("well"));
            assert_eq!(well, second <= 61, "after {second} s");
            assert!(!next.contains_key(&way("broken")), "what is broken is asked anew");
            known = next;
        }
        let mut next = BTreeMap::new();
        remember(&known, &mut next, &mut unspoken, 30, 62);
        assert!(next.is_empty() && unspoken.is_empty(), "{next:?} {unspoken:?}");
    }
}
