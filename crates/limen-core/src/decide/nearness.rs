//! How near a cluster is to an edge.

use std::collections::BTreeMap;

use crate::global::{Target, TrafficRules};
use crate::locality::Locality;

/// How near something is; the smaller, the nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// In the same zone.
    Zone,
    /// In the same region.
    Region,
    /// This many kilometres away.
    Kilometres(u32),
    /// Nobody knows.
    Unknown,
}

impl Nearness {
    /// How long a round trip would take, so that what was measured and what was not can be
    /// compared. Light takes 10 µs for a kilometre of fibre there and back, and fibre is not
    /// straight.
    pub fn milliseconds(self) -> f64 {
        match self {
            Self::Zone => 0.5,
            Self::Region => 1.5,
            Self::Kilometres(distance) => 2.0 + f64::from(distance) * 0.015,
            Self::Unknown => f64::INFINITY,
        }
    }
}

/// How near `there` is to `here`.
pub fn nearness(here: &Locality, there: &Locality) -> Nearness {
    let same_region = here.region.is_some() && here.region == there.region;
    // Zone names repeat between providers; regions tell them apart where they are known.
    let regions_differ = here.region.is_some() && there.region.is_some() && !same_region;
    if here.zone.is_some() && here.zone == there.zone && !regions_differ {
        return Nearness::Zone;
    }
    if same_region {
        return Nearness::Region;
    }
    match (here.coordinates, there.coordinates) {
        // No distance on Earth is beyond a u32, and a float that is none becomes 0.
        (Some(here), Some(there)) => Nearness::Kilometres(here.kilometres_to(there) as u32),
        _ => Nearness::Unknown,
    }
}

/// Where an edge is, and what it has measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vantage {
    /// Where it is.
    pub here: Locality,
    /// How long a connection to a cluster takes, in milliseconds, for those that were measured.
    pub latencies: BTreeMap<String, f64>,
}

/// How far a target is preferred to others; the smaller, the more. Equal ones take turns.
type Rank = (usize, i32, u8, u32);

impl Vantage {
    /// A place that nothing was measured from.
    pub fn at(here: &Locality) -> Self {
        Self { here: here.clone(), ..Self::default() }
    }

    /// How long a round trip to a target takes, as far as anybody knows.
    pub fn milliseconds(&self, target: &Target) -> f64 {
        let near = nearness(&self.here, &target.locality);
        self.measured(target, near).unwrap_or_else(|| near.milliseconds())
    }

    /// What was measured, unless no light is that fast: then the map and the network disagree, as
    /// they do where distances are only pretended.
    fn measured(&self, target: &Target, near: Nearness) -> Option<f64> {
        let least = match near {
            Nearness::Kilometres(distance) => f64::from(distance) * 0.01,
            _ => 0.0,
        };
        let measured = self.latencies.get(&target.cluster).copied();
        measured.filter(|latency| latency.is_finite() && *latency >= least)
    }

    /// Latencies are never the same twice, so what is within a quarter of another is as near, and
    /// so is everything within a millisecond. Of those the map tells who is nearer.
    fn rank(&self, target: &Target, rules: &TrafficRules) -> Rank {
        let place = rules.failover.iter().position(|name| *name == target.cluster);
        let near = nearness(&self.here, &target.locality);
        let measured = self.measured(target, near);
        let milliseconds = measured.unwrap_or_else(|| near.milliseconds()).max(1.0);
        let steps = if milliseconds.is_finite() {
            // No latency that is a number is beyond an i32 of quarters.
            (milliseconds.ln() / 1.25_f64.ln()).floor() as i32
        } else {
            i32::MAX
        };
        let (class, distance) = match near {
            Nearness::Zone => (0, 0),
            Nearness::Region => (1, 0),
            Nearness::Kilometres(_) if measured.is_some() => (2, 0),
            Nearness::Kilometres(distance) => (2, distance),
            Nearness::Unknown => (2, u32::MAX),
        };
        (place.unwrap_or(usize::MAX), steps, class, distance)
    }
}

/// The targets nearest first, each with its tier: those of one tier are equally near. An order
/// that the rules give comes before any distance.
pub(super) fn tiers(targets: &[Target], rules: &TrafficRules, from: &Vantage) -> Vec<(u16, u16)> {
    let ranks: Vec<Rank> = targets.iter().map(|target| from.rank(target, rules)).collect();
    let mut order: Vec<u16> = (0..targets.len() as u16).collect();
    order.sort_by_key(|index| {
        let target = &targets[usize::from(*index)];
        // By name where all else is equal, so that the order of observations does not matter.
        (ranks[usize::from(*index)], &target.cluster, &target.group)
    });
    let mut tier = 0;
    let mut tiered = Vec::with_capacity(order.len());
    for (at, index) in order.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| ranks[usize::from(order[before])]);
        tier += u16::from(before.is_some_and(|before| before != ranks[usize::from(*index)]));
        tiered.push((*index, tier));
    }
    tiered
}
