//! The order in which the targets of one backend are preferred, and the choice among them.

use super::memory::Memory;
use super::nearness::nearness;
use super::readiness::Readiness;
use crate::global::{Backend, Target, TrafficRules};
use crate::locality::Locality;

/// How the targets of one backend are preferred, as seen from one place.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    targets: Vec<Preference>,
    /// The targets, nearest first.
    order: Vec<u16>,
    /// The weight of each share of the split; empty without a split.
    shares: Vec<u32>,
    groups: Vec<String>,
}

#[derive(Clone, Debug)]
struct Preference {
    /// Targets of one tier are equally near and take turns.
    tier: u16,
    weight: u32,
    /// Nothing if a split gives it nothing.
    share: Option<u16>,
    group: Option<u16>,
    drained_percent: u8,
}

/// What is special about a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask {
    /// The version group that it must go to, whatever the weights say.
    pub group: Option<u16>,
    /// Targets that it has been to already, as bits: others come first.
    pub tried: u64,
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Which target of the backend.
    pub target: usize,
    /// How good it was; anything but ready means that nothing better was left.
    pub readiness: Readiness,
}

impl Plan {
    /// The plan for a backend, for an edge that is `here`.
    pub fn new(backend: &Backend, rules: &TrafficRules, here: &Locality) -> Self {
        let rank = |target: &Target| {
            let place = rules.failover.iter().position(|name| *name == target.cluster);
            (place.unwrap_or(usize::MAX), nearness(here, &target.locality))
        };
        let mut groups: Vec<String> =
            backend.targets.iter().filter_map(|target| target.group.clone()).collect();
        groups.sort();
        groups.dedup();
        let mut order: Vec<u16> = (0..backend.targets.len() as u16).collect();
        order.sort_by_key(|index| rank(&backend.targets[usize::from(*index)]));

        let mut names: Vec<(Option<&str>, Option<&str>)> = Vec::new();
        let mut shares = Vec::new();
        let mut targets: Vec<Preference> = Vec::new();
        for target in &backend.targets {
            let share = rules.split.as_ref().and_then(|split| {
                let (mut weight, mut name) = (1, (None, None));
                if !split.groups.is_empty() {
                    let group = target.group.as_deref()?;
                    weight *= split.groups.get(group)?;
                    name.0 = Some(group);
                }
                if !split.clusters.is_empty() {
                    weight *= split.clusters.get(&target.cluster)?;
                    name.1 = Some(target.cluster.as_str());
                }
                let known = names.iter().position(|other| *other == name);
                let index = known.unwrap_or_else(|| {
                    names.push(name);
                    shares.push(weight);
                    names.len() - 1
                });
                Some(index as u16)
            });
            let group = target.group.as_ref().and_then(|group| groups.binary_search(group).ok());
            targets.push(Preference {
                tier: 0,
                weight: target.ready_endpoints.unwrap_or(1).max(1),
                share,
                group: group.map(|group| group as u16),
                drained_percent: target.drained_percent,
            });
        }
        let mut tier = 0;
        for pair in order.windows(2) {
            let [before, after] = [usize::from(pair[0]), usize::from(pair[1])];
            tier += u16::from(rank(&backend.targets[before]) != rank(&backend.targets[after]));
            targets[after].tier = tier;
        }
        if rules
            .split
            .as_ref()
            .is_none_or(|split| split.groups.is_empty() && split.clusters.is_empty())
        {
            shares.clear();
        }
        Self { targets, order, shares, groups }
    }

    /// The number of targets.
    pub fn targets(&self) -> usize {
        self.targets.len()
    }

    pub(super) fn shares(&self) -> usize {
        self.shares.len()
    }

    /// The number of a version group, to ask for it.
    pub fn group(&self, name: &str) -> Option<u16> {
        let found = self.groups.binary_search_by(|group| group.as_str().cmp(name)).ok()?;
        u16::try_from(found).ok()
    }

    /// The targets in the order of preference, with their tier.
    pub fn preferred(&self) -> impl Iterator<Item = (usize, u16)> {
        self.order.iter().map(|index| (usize::from(*index), self.targets[usize::from(*index)].tier))
    }

    /// Where a request goes. Nothing only if the backend has no target that may get any.
    pub fn decide(
        &self,
        readiness: impl Fn(usize) -> Readiness,
        memory: &mut Memory,
        ask: Ask,
    ) -> Option<Decision> {
        let untried = |target: usize| target >= 64 || ask.tried & (1 << target) == 0;
        for level in Readiness::ALL {
            let candidate = |target: usize| untried(target) && readiness(target) == level;
            if let Some(target) = self.choose(candidate, memory, ask.group) {
                return Some(Decision { target, readiness: level });
            }
        }
        if ask.tried == 0 {
            return None;
        }
        // All have been tried. Another go at the best of them is better than none.
        self.decide(readiness, memory, Ask { tried: 0, ..ask })
    }

    fn choose(
        &self,
        candidate: impl Fn(usize) -> bool,
        memory: &mut Memory,
        group: Option<u16>,
    ) -> Option<usize> {
        if let Some(group) = group {
            let of_group =
                |target: usize| self.targets[target].group == Some(group) && candidate(target);
            if let Some(target) = self.nearest(of_group, memory) {
                return Some(target);
            }
        }
        if self.shares.is_empty() {
            return self.nearest(candidate, memory);
        }
        let of_share = |target: usize, share: usize| {
            self.targets[target].share == Some(share as u16) && candidate(target)
        };
        let share = memory.shares.next(|share| {
            let open = (0..self.targets.len()).any(|target| of_share(target, share));
            if open { self.shares[share] } else { 0 }
        })?;
        self.nearest(|target| of_share(target, share), memory)
    }

    fn nearest(&self, candidate: impl Fn(usize) -> bool, memory: &mut Memory) -> Option<usize> {
        let first = self.nearest_from(0, &candidate, memory)?;
        let drained = self.targets[first].drained_percent;
        if drained == 0 || drained >= 100 {
            return Some(first);
        }
        let debt = &mut memory.drained[first];
        *debt += u16::from(drained);
        if *debt < 100 {
            return Some(first);
        }
        *debt -= 100;
        let others = |target: usize| target != first && candidate(target);
        self.nearest_from(self.targets[first].tier, &others, memory).or(Some(first))
    }

    fn nearest_from(
        &self,
        tier: u16,
        candidate: &impl Fn(usize) -> bool,
        memory: &mut Memory,
    ) -> Option<usize> {
        let mut open = self
            .order
            .iter()
            .map(|index| usize::from(*index))
            .filter(|target| self.targets[*target].tier >= tier && candidate(*target));
        let first = open.next()?;
        let tier = self.targets[first].tier;
        if open.next().is_none_or(|second| self.targets[second].tier != tier) {
            return Some(first);
        }
        memory.targets.next(|target| {
            let preference = &self.targets[target];
            if preference.tier == tier && candidate(target) { preference.weight } else { 0 }
        })
    }
}
