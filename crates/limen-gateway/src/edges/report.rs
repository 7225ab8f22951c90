//! What this gateway reports: how well it reaches targets, and what its clients want.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use limen_core::edge::{
    Demand, EdgeReport, MAX_DEMAND, MAX_REASON, MAX_TARGETS, Sent, TargetReport,
};

use super::Busy;
use super::rates::{Figures, Rates};
use crate::compile::Probed;
use crate::health::{Health, Verdict};
use crate::metrics::BOUNDS;
use crate::snapshot::Backend;
use crate::upstream::{Destination, milliseconds};

/// Addresses of one cluster that are told of although they are well.
const WELL: usize = 16;

pub(super) fn report(probed: &Probed, busy: &[Busy<'_>], rates: &Rates, clock: i64) -> EdgeReport {
    let demand = busy.iter().filter_map(|busy| demand_of(busy.backend, rates));
    let mut demand: Vec<Demand> = demand.collect();
    if demand.len() > MAX_DEMAND {
        demand.sort_by(|a, b| b.requests_per_second.total_cmp(&a.requests_per_second));
        demand.truncate(MAX_DEMAND);
    }
    let name = |demand: &Demand| (demand.global_ingress.clone(), demand.backend.clone());
    demand.sort_by_cached_key(name);
    let targets = ways_in(probed, busy, clock);
    EdgeReport { observed_at: Some(clock), stopping: false, targets, demand }
}

/// How well addresses are reached. Thousands of routes may share one, and pods may be thousands:
/// each is told once, and of those that are well only some of each cluster.
fn ways_in(probed: &Probed, busy: &[Busy<'_>], clock: i64) -> Vec<TargetReport> {
    let now = milliseconds(Instant::now());
    let mut found: BTreeMap<(&str, String), TargetReport> = BTreeMap::new();
    for (cluster, health) in probed.iter() {
        let to = health.destination();
        let report = reached(cluster, to, Some(health), false, now, clock);
        if let Some(report) = report {
            // Two ways of asking may not agree.
            let known = found.entry((cluster, to.to_string())).or_insert_with(|| report.clone());
            if known.healthy && !report.healthy {
                *known = report;
            }
        }
    }
    // One backend may find broken what others have not asked yet; only who is asked is ejected.
    for target in busy.iter().flat_map(|busy| &busy.backend.targets) {
        let cluster = target.target.cluster.as_str();
        for address in target.addresses.iter().filter(|address| address.is_ejected(now)) {
            let (to, health) = (&address.endpoint.destination, address.health.as_deref());
            if let Some(report) = reached(cluster, to, health, true, now, clock) {
                found.insert((cluster, to.to_string()), report);
            }
        }
    }
    let mut well: HashMap<&str, usize> = HashMap::new();
    found.retain(|(cluster, _), report| {
        let well = well.entry(cluster).or_default();
        *well += usize::from(report.healthy);
        !report.healthy || *well <= WELL
    });
    found.into_values().take(MAX_TARGETS).collect()
}

fn reached(
    cluster: &str,
    to: &Destination,
    health: Option<&Health>,
    ejected: bool,
    now: u64,
    clock: i64,
) -> Option<TargetReport> {
    let verdict = health.map_or(Verdict::Unknown, Health::verdict);
    if verdict == Verdict::Unknown && !ejected {
        return None;
    }
    let healthy = verdict != Verdict::Unhealthy && !ejected;
    let mut reason = match health.map(Health::reason) {
        Some(reason) if verdict == Verdict::Unhealthy => reason,
        _ => "failures in a row".to_owned(),
    };
    while reason.len() > MAX_REASON {
        reason.pop();
    }
    let since = health.map_or(now, Health::since);
    let ago = i64::try_from(now.saturating_sub(since) / 1000).unwrap_or(0);
    Some(TargetReport {
        cluster: cluster.to_owned(),
        address: Some(to.to_string()),
        healthy,
        reason: (!healthy).then_some(reason),
        since: Some(clock - ago),
        latency_milliseconds: health.and_then(Health::latency),
    })
}

fn demand_of(backend: &Backend, rates: &Rates) -> Option<Demand> {
    let of = rates.of(backend)?;
    let mut clusters = Vec::new();
    for (index, state) in backend.targets.iter().enumerate() {
        let target = &state.target;
        let Some(rates) = of.target(index, state) else { continue };
        let lately = rates.lately();
        if lately.requests == 0 && rates.sent.get() == 0.0 {
            continue;
        }
        let good = lately.requests.saturating_sub(lately.failed) as f64;
        clusters.push(Sent {
            cluster: target.cluster.clone(),
            group: target.group.clone(),
            requests_per_second: rounded(rates.sent.get()),
            requests: state.metrics.answers(),
            success_percent: (lately.requests > 0)
                .then(|| rounded(good / lately.requests as f64 * 100.0)),
            p99_milliseconds: p99(&lately),
        });
    }
    clusters.truncate(256);
    let wanted = rates.wanted(backend);
    (wanted > 0.0 || !clusters.is_empty()).then(|| Demand {
        global_ingress: backend.ingress.clone(),
        backend: backend.name.clone(),
        requests_per_second: rounded(wanted),
        clusters,
    })
}

/// The upper bound of the bucket that one request in a hundred is beyond.
fn p99(figures: &Figures) -> Option<f64> {
    let total: u64 = figures.latency.iter().sum();
    let mut slower = total;
    for (count, bound) in figures.latency.iter().zip(BOUNDS) {
        slower -= count;
        if slower * 100 <= total {
            return (total > 0).then_some(bound as f64 / 1000.0);
        }
    }
    BOUNDS.last().map(|bound| *bound as f64 / 1000.0)
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
