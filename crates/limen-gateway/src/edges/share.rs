//! What this gateway may send to every target that has only so much room.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use limen_core::decide::{Claim, Plan, Vantage, capacity_at, divide, known_capacity, ramp};
use limen_core::edge::Peer;
use limen_core::global;

use super::Busy;
use super::rates::Rates;
use crate::options::Options;
use crate::proxy::{Seen, residency};
use crate::snapshot::{Backend, Ingress};
use crate::upstream::milliseconds;

/// The plans of the other gateways, which change only when backends or vantages do.
#[derive(Default)]
pub(super) struct Shares {
    plans: HashMap<(u64, String), (Vantage, Plan)>,
}

impl Shares {
    /// Backends that nobody asks for and that have all the room there is may be left out.
    pub(super) fn divide(
        &mut self,
        busy: &[Busy<'_>],
        options: &Options,
        rates: &Rates,
        peers: &BTreeMap<String, (Peer, Instant)>,
        elapsed: f64,
    ) {
        let mut used = HashMap::new();
        for Busy { ingress, backend, global } in busy {
            let capacities = capacities(backend, rates, peers);
            if capacities.iter().all(Option::is_none) {
                for target in &backend.targets {
                    target.flow.allow(f64::INFINITY, 1.0);
                }
                continue;
            }
            for (name, (peer, _)) in peers {
                let key = (backend.id, name.clone());
                let vantage = vantage(peer);
                let known = self.plans.remove(&key).filter(|(from, _)| *from == vantage);
                let plan = known.unwrap_or_else(|| planned(ingress, global, vantage));
                used.insert(key, plan);
            }
            allow(backend, options, rates, peers, &used, &capacities, elapsed);
        }
        self.plans = used;
    }
}

fn vantage(peer: &Peer) -> Vantage {
    let mut latencies: BTreeMap<String, f64> = BTreeMap::new();
    for target in &peer.report.targets {
        if let Some(latency) = target.latency_milliseconds {
            let least = latencies.entry(target.cluster.clone()).or_insert(latency);
            *least = least.min(latency);
        }
    }
    Vantage { here: peer.locality.clone(), latencies }
}

fn planned(ingress: &Ingress, backend: &global::Backend, from: Vantage) -> (Vantage, Plan) {
    let plan = Plan::seen_from(backend, &ingress.global.traffic, &from);
    (from, plan)
}

/// What targets can take, as far as that is declared or they say how busy they are.
fn capacities(
    backend: &Backend,
    rates: &Rates,
    peers: &BTreeMap<String, (Peer, Instant)>,
) -> Vec<Option<f64>> {
    let of = rates.of(backend);
    let capacity = |index: usize| {
        let state = &backend.targets[index];
        let (cluster, group) = (&state.target.cluster, state.target.group.as_ref());
        let own = of.and_then(|of| Some(of.target(index, state)?.sent.get())).unwrap_or(0.0);
        let here = |peer: &Peer| {
            let demand = peer.report.wanted(&backend.ingress, &backend.name)?;
            let sent = demand.clusters.iter();
            let mut sent =
                sent.filter(|sent| sent.cluster == *cluster && sent.group.as_ref() == group);
            Some(sent.next()?.requests_per_second)
        };
        let others: f64 = peers.values().filter_map(|(peer, _)| here(peer)).sum();
        let reported = state.flow.capacity(|load| capacity_at(own + others, load));
        known_capacity(state.capacity, reported)
    };
    (0..backend.targets.len()).map(capacity).collect()
}

fn allow(
    backend: &Backend,
    options: &Options,
    rates: &Rates,
    peers: &BTreeMap<String, (Peer, Instant)>,
    plans: &HashMap<(u64, String), (Vantage, Plan)>,
    capacities: &[Option<f64>],
    elapsed: f64,
) {
    let own = Claim {
        plan: &backend.plan,
        residency: residency(backend, options, None),
        demand: rates.wanted(backend),
    };
    let others = peers.iter().filter_map(|(name, (peer, _))| {
        let (_, plan) = plans.get(&(backend.id, name.clone()))?;
        let region: Vec<&str> = peer.locality.region.as_deref().into_iter().collect();
        let wanted = peer.report.wanted(&backend.ingress, &backend.name);
        let demand = wanted.map_or(0.0, |demand| demand.requests_per_second);
        Some(Claim { plan, residency: plan.residency(&region), demand })
    });
    let claims: Vec<Claim<'_>> = [own].into_iter().chain(others).collect();
    let sight = Seen { backend, now: milliseconds(Instant::now()) };
    let division = divide(&claims, capacities, &sight);
    for (index, target) in backend.targets.iter().enumerate() {
        let (wanted, open) = (division.allowed[0][index], division.open[0][index]);
        let allowed = match (target.flow.allowed(), capacities[index]) {
            (Some(before), Some(capacity)) => ramp(before, wanted, capacity, elapsed),
            _ => wanted,
        };
        target.flow.allow(allowed, open);
    }
}
