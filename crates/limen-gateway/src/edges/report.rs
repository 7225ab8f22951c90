//! What this gateway reports: how well it reaches targets, and what its clients want.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use limen_core::edge::{
    Demand, EdgeReport, MAX_DEMAND, MAX_REASON, MAX_TARGETS, Sent, TargetReport,
};

use super::rates::{Figures, Rates};
use crate::health::{Health, Verdict};
use crate::metrics::BOUNDS;
use crate::snapshot::{Backend, Snapshot, TargetState};
use crate::upstream::{Address, milliseconds};

/// Addresses of one cluster that are told of although they are well.
const WELL: usize = 16;

pub(super) fn report(snapshot: &Snapshot, rates: &Rates, clock: i64) -> EdgeReport {
    let backends = || snapshot.ingresses.iter().flat_map(|ingress| &ingress.backends);
    let mut demand: Vec<Demand> =
        backends().filter_map(|backend| demand_of(backend, rates)).collect();
    if demand.len() > MAX_DEMAND {
        demand.sort_by(|a, b| b.requests_per_second.total_cmp(&a.requests_per_second));
        demand.truncate(MAX_DEMAND);
    }
    let name = |demand: &Demand| (demand.global_ingress.clone(), demand.backend.clone());
    demand.sort_by_cached_key(name);
    let targets = ways_in(backends().flat_map(|backend| &backend.targets), clock);
    EdgeReport { observed_at: Some(clock), stopping: false, targets, demand }
}

/// How well addresses are reached. Thousands of routes may share one, and pods may be thousands:
/// each is told once, and of those that are well only some of each cluster.
fn ways_in<'a>(targets: impl Iterator<Item = &'a TargetState>, clock: i64) -> Vec<TargetReport> {
    let now = milliseconds(Instant::now());
    let mut told: HashSet<(&str, *const Health)> = HashSet::new();
    let mut found: BTreeMap<(&str, String), TargetReport> = BTreeMap::new();
    for target in targets {
        let cluster = target.target.cluster.as_str();
        for address in &target.addresses {
            // One backend may find broken what another has not asked yet.
            if let Some(health) = &address.health
                && !told.insert((cluster, Arc::as_ptr(health)))
                && !address.is_ejected(now)
            {
                continue;
            }
            let to = address.endpoint.destination.to_string();
            let Some(report) = reached(cluster, &to, address, now, clock) else { continue };
            match found.entry((cluster, to)) {
                Entry::Vacant(slot) => drop(slot.insert(report)),
                Entry::Occupied(mut known) if known.get().healthy && !report.healthy => {
                    known.insert(report);
                }
                Entry::Occupied(_) => {}
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
    to: &str,
    address: &Address,
    now: u64,
    clock: i64,
) -> Option<TargetReport> {
    let health = address.health.as_ref();
    let verdict = health.map_or(Verdict::Unknown, |health| health.verdict());
    let ejected = address.is_ejected(now);
    if verdict == Verdict::Unknown && !ejected {
        return None;
    }
    let healthy = verdict != Verdict::Unhealthy && !ejected;
    let mut reason = match health.map(|health| health.reason()) {
        Some(reason) if verdict == Verdict::Unhealthy => reason,
        _ => "failures in a row".to_owned(),
    };
    while reason.len() > MAX_REASON {
        reason.pop();
    }
    let since = health.map_or(now, |health| health.since());
    let ago = i64::try_from(now.saturating_sub(since) / 1000).unwrap_or(0);
    Some(TargetReport {
        cluster: cluster.to_owned(),
        address: Some(to.to_owned()),
        healthy,
        reason: (!healthy).then_some(reason),
        since: Some(clock - ago),
        latency_milliseconds: health.and_then(|health| health.latency()),
    })
}

fn demand_of(backend: &Backend, rates: &Rates) -> Option<Demand> {
    let of = rates.of(backend)?;
    let mut clusters = Vec::new();
    for state in &backend.targets {
        let target = &state.target;
        let Some(rates) = of.target(&target.cluster, target.group.as_ref()) else { continue };
        let lately = rates.lately(&state.metrics);
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
