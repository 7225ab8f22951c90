//! The order in which the targets of one backend are preferred.

use std::collections::BTreeMap;

use super::hashing::hash;
use super::nearness::{Vantage, tiers};
use super::residency::Residencies;
use crate::global::{Backend, Split, Target, TrafficRules};
use crate::locality::Locality;

/// How the targets of one backend are preferred, as seen from one place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub(super) targets: Vec<Preference>,
    /// The targets, nearest first.
    pub(super) order: Vec<u16>,
    /// By share of the split: its weight, and its targets nearest first. Empty without a split.
    pub(super) shares: Vec<(u32, Vec<u16>)>,
    /// Targets of weight 0 never serve.
    pub(super) strict: bool,
    /// By version group: its targets nearest first.
    pub(super) members: Vec<Vec<u16>>,
    groups: Vec<String>,
    /// By rule that matches headers: its group, and the percentage that it takes.
    matches: Vec<(Option<u16>, u8)>,
    pub(super) residency: Residencies,
    pub(super) panic_percent: u8,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Preference {
    /// Targets of one tier are equally near and take turns.
    pub(super) tier: u16,
    pub(super) weight: u32,
    /// The weight when nobody has room.
    pub(super) size: u32,
    /// Nothing if a split gives it nothing.
    pub(super) share: Option<u16>,
    pub(super) drained_percent: u8,
    /// What it is called, whatever its place in the list.
    pub(super) name: u64,
}

impl Plan {
    /// The plan for a backend, for an edge that is `here`.
    pub fn new(backend: &Backend, rules: &TrafficRules, here: &Locality) -> Self {
        Self::seen_from(backend, rules, &Vantage::at(here))
    }

    /// The plan for a backend, for an edge that may have measured how near things are.
    pub fn seen_from(backend: &Backend, rules: &TrafficRules, from: &Vantage) -> Self {
        let tiered = tiers(&backend.targets, rules, from);
        let order: Vec<u16> = tiered.iter().map(|(index, _)| *index).collect();
        let groups: std::collections::BTreeSet<&String> =
            backend.targets.iter().filter_map(|target| target.group.as_ref()).collect();
        let groups: Vec<String> = groups.into_iter().cloned().collect();
        let of = |wanted: &dyn Fn(&Target) -> bool| -> Vec<u16> {
            let wanted = |index: &u16| wanted(&backend.targets[usize::from(*index)]);
            order.iter().copied().filter(wanted).collect()
        };
        let members = groups.iter().map(|group| of(&|target| target.group.as_ref() == Some(group)));
        let members = members.collect();
        let split = rules.split.as_ref().filter(|split| names_anything(split));
        let shares = split.map(|split| shares(&backend.targets, split)).unwrap_or_default();
        let target = |target: &Target| {
            let ready = target.ready_endpoints.unwrap_or(1).max(1);
            let share = shares.iter().position(|(name, _)| {
                split.is_some_and(|split| share_name(split, target).as_ref() == Some(name))
            });
            let size = capacity(target, rules).map_or(ready, |capacity| capacity as u32);
            Preference {
                tier: 0,
                weight: ready,
                size: size.clamp(1, 1 << 24),
                share: share.map(|share| share as u16),
                drained_percent: target.drained_percent,
                name: hash(format!("{}/{:?}", target.cluster, target.group).as_bytes()),
            }
        };
        let mut targets: Vec<Preference> = backend.targets.iter().map(target).collect();
        for (index, tier) in tiered {
            targets[usize::from(index)].tier = tier;
        }
        let shares = shares.iter().map(|(name, weight)| {
            let list = |target: &Target| {
                split.is_some_and(|split| share_name(split, target).as_ref() == Some(name))
            };
            (*weight, of(&list))
        });
        let shares = shares.collect();
        let group = |name: &String| groups.binary_search(name).ok().map(|group| group as u16);
        let matches = rules.split.iter().flat_map(|split| &split.matches);
        let matches =
            matches.map(|rule| (group(&rule.group), rule.percent.unwrap_or(100).min(100)));
        let matches = matches.collect();
        Self {
            residency: Residencies::new(&rules.residency, &backend.targets),
            strict: rules.strict,
            panic_percent: rules.panic_percent.unwrap_or(0).min(100),
            targets,
            order,
            shares,
            members,
            groups,
            matches,
        }
    }

    /// The number of targets.
    pub fn targets(&self) -> usize {
        self.targets.len()
    }

    pub(super) fn shares(&self) -> usize {
        self.shares.len()
    }

    pub(super) fn matches(&self) -> usize {
        self.matches.len()
    }

    /// The number of a version group, to ask for it.
    pub fn group(&self, name: &str) -> Option<u16> {
        let found = self.groups.binary_search_by(|group| group.as_str().cmp(name)).ok()?;
        u16::try_from(found).ok()
    }

    /// The version group of a request that a rule matches, by the rule's number: the rule may want
    /// only some of them.
    pub fn matched(&self, rule: usize, memory: &mut super::Memory) -> Option<u16> {
        let (group, percent) = *self.matches.get(rule)?;
        let debt = &mut memory.matched[rule];
        *debt += u16::from(percent);
        if *debt < 100 {
            return None;
        }
        *debt -= 100;
        group
    }

    /// Whether a target may serve at all: strict weights exclude those of weight 0.
    pub(super) fn may_serve(&self, target: usize) -> bool {
        !self.strict || self.has_weight(target)
    }

    /// Whether a version group gets anything by the split.
    pub fn gets_anything(&self, group: u16) -> bool {
        let Some(members) = self.members.get(usize::from(group)) else { return false };
        self.shares.is_empty() || members.iter().any(|target| self.has_weight(usize::from(*target)))
    }

    /// Whether the split gives a target anything; without a split every target has a weight.
    pub fn has_weight(&self, target: usize) -> bool {
        let share =
            self.targets[target].share.and_then(|share| self.shares.get(usize::from(share)));
        self.shares.is_empty() || share.is_some_and(|(weight, _)| *weight > 0)
    }

    /// The targets in the order of preference, with their tier.
    pub fn preferred(&self) -> impl Iterator<Item = (usize, u16)> {
        self.order.iter().map(|index| (usize::from(*index), self.targets[usize::from(*index)].tier))
    }

    /// The residency rules that hold for a client in these places, to ask with them.
    pub fn residency(&self, places: &[&str]) -> u64 {
        if self.residency.is_empty() { 0 } else { self.residency.holding(places) }
    }

    /// Whether it matters where clients are.
    pub fn has_residency(&self) -> bool {
        !self.residency.is_empty()
    }

    /// Whether residency lets a target serve clients that these rules hold for.
    pub fn allows(&self, target: usize, residency: u64) -> bool {
        self.residency.allow(target, residency)
    }

    /// The stable name of a target, for a client to remember.
    pub fn name(&self, target: usize) -> u64 {
        self.targets[target].name
    }

    /// The target that a client remembers.
    pub fn named(&self, name: u64) -> Option<usize> {
        self.targets.iter().position(|target| target.name == name)
    }
}

/// Requests in a second that a target can take; nothing means as many as come.
pub fn capacity(target: &Target, rules: &TrafficRules) -> Option<f64> {
    let per_endpoint = || Some(rules.requests_per_endpoint? * f64::from(target.ready_endpoints?));
    let capacity = target.capacity.requests_per_second.or_else(per_endpoint)?;
    (capacity.is_finite() && capacity >= 0.0).then_some(capacity)
}

fn names_anything(split: &Split) -> bool {
    !split.groups.is_empty() || !split.clusters.is_empty()
}

type ShareName<'a> = (Option<&'a str>, Option<&'a str>);

fn share_name<'a>(split: &Split, target: &'a Target) -> Option<ShareName<'a>> {
    let group = match split.groups.is_empty() {
        true => None,
        false => Some(target.group.as_deref().filter(|group| split.groups.contains_key(*group))?),
    };
    let cluster = match split.clusters.is_empty() {
        true => None,
        false => Some(split.clusters.get_key_value(&target.cluster).map(|_| &*target.cluster)?),
    };
    Some((group, cluster))
}

/// The shares that targets make up, with their weights, in an order that only names decide.
fn shares<'a>(targets: &'a [Target], split: &Split) -> Vec<(ShareName<'a>, u32)> {
    let mut shares = BTreeMap::new();
    for name in targets.iter().filter_map(|target| share_name(split, target)) {
        let group = name.0.map_or(1, |group| split.groups.get(group).copied().unwrap_or(0));
        let cluster = name.1.map_or(1, |cluster| split.clusters.get(cluster).copied().unwrap_or(0));
        shares.insert(name, group.saturating_mul(cluster));
    }
    shares.into_iter().collect()
}
