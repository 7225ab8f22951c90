//! Which cluster an answer names: the decisions of `limen-core`, as seen from a client's place.
//!
//! A gateway decides for each request and remembers whose turn it is. A DNS server cannot: its
//! answers are kept and shared by resolvers. So the same decision is asked for a whole round of
//! turns, which gives the exact share of each cluster, and a client's network gets a fixed point
//! among the shares: the same network the same cluster, and all networks together the weights.

use std::borrow::Cow;
use std::net::IpAddr;

use limen_core::decide::{Ask, Memory, Plan, Readiness, Vantage, Vantages};
use limen_core::global::{Backend, Target, TrafficRules};

use crate::place::Place;
use crate::zone::{Host, HostPlan, Ways};

/// The ways in that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    /// IPv4 addresses.
    Four,
    /// IPv6 addresses.
    Six,
    /// Any, also an alias.
    Any,
}

impl Family {
    /// Whether a cluster has such a way in.
    pub(crate) fn is_in(self, ways: &Ways) -> bool {
        match self {
            Self::Four => !ways.four.is_empty(),
            Self::Six => !ways.six.is_empty(),
            Self::Any => *ways != Ways::default(),
        }
    }
}

/// What can be answered to the clients of one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Targets, each with where its share ends, of 2^32.
    pub(crate) shares: Vec<(u16, u64)>,
    /// All targets that are as ready as the best, nearest first.
    pub(crate) ready: Vec<u16>,
    /// Whether clients elsewhere may get another answer.
    pub(crate) by_place: bool,
}

/// The most turns that are asked for. More weight than that is rounded, by less than a thousandth:
/// whoever asks from many places must not cost much.
const MOST_TURNS: u64 = 1000;

impl Choice {
    /// What the clients of a place are answered. There is nothing to choose from if no cluster has
    /// such a way in, or none may serve them.
    ///
    /// Who can use both families mostly takes IPv6. So there is no IPv6 where it leads to worse
    /// clusters than IPv4 does. And where somebody says what each cluster gets, the shares of IPv6
    /// are those of all ways in: a point may be that of a cluster without IPv6, which gets its
    /// clients by being answered for IPv4 alone. IPv4 is never kept back: many have nothing else.
    pub(crate) fn new(host: &Host, family: Family, place: &Place, vantages: &Vantages) -> Self {
        let plan = &host.plan;
        let mut open = open(host, family);
        if family == Family::Six && is_bound(host, &open) {
            open = self::open(host, Family::Any);
        }
        let backend = with_only(&plan.backend, &open);
        let state = |index: usize| host.readiness[open[index]];
        let vantage = vantages.of(&place.locality);
        let order = Plan::seen_from(&backend, &plan.rules, &vantage);
        let by_place = depends_on_place(&backend.targets, &plan.rules, plan.dns.round_robin);
        let names = place.names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let ask = Ask { residency: order.residency(&names), ..Ask::default() };
        let ready = ready(&order, state, ask);
        if family == Family::Six
            && let Some(best) = ready.first().map(|index| open[*index])
            && is_outdone(host, best, open.len(), &vantage, &names)
        {
            return Self { by_place, ..Self::default() };
        }
        let turns = turns(&backend.targets, &plan.rules, &order, &ready);
        let mut counts = vec![0_u64; open.len()];
        let mut memory = Memory::new(&order);
        for _ in 0..turns {
            let Some(decided) = order.decide(state, &mut memory, ask) else { break };
            counts[decided.target] += 1;
        }
        let mut end = 0;
        let mut shares = Vec::new();
        for (index, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            end += count;
            shares.push((open[index] as u16, (end << 32) / turns));
        }
        Self {
            shares,
            ready: ready.into_iter().map(|index| open[index] as u16).collect(),
            by_place,
        }
    }

    /// The target at a point.
    pub(crate) fn at(&self, point: u32) -> Option<usize> {
        let found = self.shares.iter().find(|(_, end)| u64::from(point) < *end);
        found.or(self.shares.last()).map(|(target, _)| usize::from(*target))
    }

    /// Whether the answer differs from network to network.
    pub(crate) fn is_shared(&self) -> bool {
        self.shares.len() > 1
    }
}

/// All that are as ready as the best, best first: each time the decision without those before.
/// Targets of weight 0 are among them only where no weighted one is.
fn ready(order: &Plan, state: impl Fn(usize) -> Readiness, ask: Ask) -> Vec<usize> {
    let decide = |tried| order.decide(&state, &mut Memory::new(order), Ask { tried, ..ask });
    let Some(first) = decide(0) else { return Vec::new() };
    let mut ready = vec![first.target];
    let mut tried = bit(first.target);
    while let Some(next) = decide(tried) {
        let again = next.target >= 64 || tried & bit(next.target) != 0;
        let weighted = |target| order.has_weight(target);
        let equal = weighted(next.target) == weighted(first.target);
        if again || !equal || next.readiness != first.readiness {
            break;
        }
        ready.push(next.target);
        tried |= bit(next.target);
    }
    ready
}

/// Targets beyond the 64th cannot be told that they have been tried.
fn bit(target: usize) -> u64 {
    if target < 64 { 1 << target } else { 0 }
}

/// A backend with some of its targets; mostly with all of them.
fn with_only<'a>(backend: &'a Backend, open: &[usize]) -> Cow<'a, Backend> {
    if open.len() == backend.targets.len() {
        return Cow::Borrowed(backend);
    }
    let targets = open.iter().map(|index| backend.targets[*index].clone()).collect();
    Cow::Owned(Backend { name: backend.name.clone(), targets })
}

/// The targets that have such a way in.
fn open(host: &Host, family: Family) -> Vec<usize> {
    (0..host.ways.len()).filter(|index| family.is_in(&host.ways[*index])).collect()
}

/// Whether somebody says what part of the clients each cluster gets, and some of the clusters have
/// no such way in. Where all take turns nobody does.
fn is_bound(host: &Host, some: &[usize]) -> bool {
    let HostPlan { backend, rules, dns, .. } = &*host.plan;
    let all = open(host, Family::Any);
    if some.is_empty() || all.len() == some.len() || dns.round_robin {
        return false;
    }
    let any = |of: &[usize], is: &dyn Fn(&Target) -> bool| {
        of.iter().any(|index| is(&backend.targets[*index]))
    };
    let is_split = rules.split.as_ref().is_some_and(|split| {
        let mut groups = split.groups.iter().filter(|(_, weight)| **weight > 0);
        let has =
            |of: &[usize], group: &String| any(of, &|target| target.group.as_ref() == Some(group));
        !split.clusters.is_empty() || groups.any(|(group, _)| has(&all, group) && !has(some, group))
    });
    is_split
        || any(&all, &|target| rules.failover.contains(&target.cluster))
        || any(some, &|target| (1..100).contains(&target.drained_percent))
}

/// Whether clients in these places may be served by a better target than the best of some, if they
/// take any way in.
fn is_outdone(host: &Host, best: usize, some: usize, from: &Vantage, names: &[&str]) -> bool {
    let all = open(host, Family::Any);
    if all.len() == some {
        return false;
    }
    let backend = with_only(&host.plan.backend, &all);
    let order = Plan::seen_from(&backend, &host.plan.rules, from);
    let state = |index: usize| host.readiness[all[index]];
    let ask = Ask { residency: order.residency(names), ..Ask::default() };
    let first = order.decide(state, &mut Memory::new(&order), ask);
    let best = all.iter().position(|index| *index == best);
    let level = |index: usize| order.level(&state, index);
    first.zip(best).is_some_and(|(first, best)| level(first.target) < level(best))
}

/// How many turns make a whole round: after them every weight has had exactly its share.
fn turns(targets: &[Target], rules: &TrafficRules, order: &Plan, ready: &[usize]) -> u64 {
    let split = rules.split.as_ref().map_or(1, |split| {
        let total = |weights: &std::collections::BTreeMap<String, u32>| {
            weights.values().map(|weight| u64::from(*weight)).sum::<u64>().max(1)
        };
        total(&split.groups).saturating_mul(total(&split.clusters))
    });
    let tier_of = |wanted: usize| order.preferred().find(|(index, _)| *index == wanted);
    let mut tiers: Vec<(u16, u64)> = Vec::new();
    for index in ready {
        let weight = u64::from(targets[*index].ready_endpoints.unwrap_or(1).max(1));
        let tier = tier_of(*index).map_or(0, |(_, tier)| tier);
        match tiers.last_mut().filter(|(last, _)| *last == tier) {
            Some((_, sum)) => *sum += weight,
            None => tiers.push((tier, weight)),
        }
    }
    // Only the members of a tier take turns; one alone in it gets all of them.
    let shared = ready.len() > tiers.len();
    let within = if shared { tiers.iter().map(|(_, sum)| *sum).max().unwrap_or(1) } else { 1 };
    let drained = targets.iter().any(|target| (1..100).contains(&target.drained_percent));
    let turns = split.saturating_mul(within).saturating_mul(if drained { 100 } else { 1 });
    turns.clamp(1, MOST_TURNS)
}

fn depends_on_place(targets: &[Target], rules: &TrafficRules, round_robin: bool) -> bool {
    let listed = |target: &Target| rules.failover.contains(&target.cluster);
    let restricted = !targets.is_empty() && !rules.residency.is_empty();
    restricted || targets.len() > 1 && !round_robin && !targets.iter().all(listed)
}

/// Networks as small as this are told apart where weights are used.
pub(crate) fn sticky_prefix(address: IpAddr) -> u8 {
    if address.is_ipv4() { 24 } else { 56 }
}

/// The point of a client's network among the shares of a host.
///
/// Neighbouring networks are a golden section apart, so that the networks of any provider, and not
/// only those of the whole world, divide as the weights say.
pub(crate) fn point(address: IpAddr, host_hash: u32) -> u32 {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let network = match address {
        IpAddr::V4(address) => u64::from(u32::from(address) >> 8),
        IpAddr::V6(address) => (u128::from(address) >> 72) as u64,
    };
    ((network.wrapping_mul(GOLDEN) >> 32) as u32).wrapping_add(host_hash)
}

#[cfg(test)]
mod tests;
