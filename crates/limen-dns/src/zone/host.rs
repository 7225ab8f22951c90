//! A host of GlobalIngress objects: its clusters, and what is known of them.

use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use foldhash::fast::FixedState;
use limen_core::decide::Readiness;
use limen_core::global::{Backend, DnsRules, Global, Target, TrafficRules, for_host};

use super::standing::{InCommon, Judge, Questions, Standing};
use crate::knowledge::Knowledge;
use crate::wire::{kind, name};

/// A host, and how well its clusters are. A new one is made whenever that changes.
pub(crate) struct Host {
    /// No other host, and no earlier state of this one, has the same.
    pub(crate) id: u64,
    pub(crate) plan: Arc<HostPlan>,
    /// How good a candidate each target is.
    pub(crate) readiness: Arc<[Readiness]>,
    pub(crate) ways: Arc<[Ways]>,
    /// Whether some cluster can only be answered as an alias.
    pub(crate) aliases: bool,
    waits: Waits,
    pub(crate) ttl: u32,
}

/// What only changes with the objects.
pub(crate) struct HostPlan {
    /// Its name, as the first who claims it writes it.
    pub(super) name: Box<str>,
    pub(super) globals: Vec<Arc<Global>>,
    pub(crate) backend: Backend,
    pub(crate) rules: TrafficRules,
    pub(crate) dns: DnsRules,
    /// Whether there are no records of the same name.
    pub(super) alone: bool,
    /// Whether an answer may be another name.
    pub(crate) may_alias: bool,
    /// What has to be found out about its targets.
    pub(crate) questions: Arc<Questions>,
    /// The ways into its clusters, unless some of them have to be looked up.
    ways: Option<Arc<[Ways]>>,
    /// Makes the networks that one host sends to a cluster others than those of another host.
    pub(crate) hash: u32,
}

/// The ways into one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ways {
    pub(crate) four: Vec<Ipv4Addr>,
    pub(crate) six: Vec<Ipv6Addr>,
    pub(crate) names: Vec<Box<[u8]>>,
}

impl Ways {
    /// Whether there is nothing but another name.
    pub(crate) fn is_alias(&self) -> bool {
        self.four.is_empty() && self.six.is_empty() && !self.names.is_empty()
    }
}

/// Of which families there may be ways in that have not been looked up yet, and none is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Waits {
    four: bool,
    six: bool,
}

/// How long answers are remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ttls {
    pub(crate) calm: u32,
    pub(crate) trouble: u32,
}

impl HostPlan {
    pub(super) fn new(
        host: &str,
        globals: &[Arc<Global>],
        alone: bool,
        known: &mut InCommon,
    ) -> Self {
        let backend = for_host(globals.iter().map(|global| &**global), host);
        // Of several roots that claim one host the first, in the order of their names, has the say.
        let rules = globals.first().map(|global| global.traffic.clone()).unwrap_or_default();
        let dns = rules.dns.clone().unwrap_or_default();
        let may_alias = alone && dns.clusters <= 1;
        let hash = FixedState::default().hash_one(host.to_ascii_lowercase()) as u32;
        let questions = Questions::new(&backend.targets, &rules, host, known);
        let (name, globals, ways) = (host.into(), globals.to_vec(), None);
        let mut plan =
            Self { name, globals, backend, rules, dns, alone, may_alias, questions, ways, hash };
        if plan.names_to_look_up().next().is_none() {
            plan.ways = Some(known.ways.one(plan.ways(&Knowledge::default())));
        }
        plan
    }

    fn ways(&self, knowledge: &Knowledge) -> Vec<Ways> {
        let targets = self.backend.targets.iter();
        targets.map(|target| ways(target, self.may_alias, knowledge)).collect()
    }

    /// Whether what it leads to depends on what the server finds out by itself.
    pub(super) fn asks(&self) -> bool {
        self.ways.is_none() || self.questions.asks()
    }

    /// Whether the same has to be found out for it as for another.
    pub(super) fn asks_like(&self, other: &Self) -> bool {
        self.questions.probes == other.questions.probes
            && self.names_to_look_up().eq(other.names_to_look_up())
    }

    /// Host names of ways in whose addresses have to be known.
    pub(crate) fn names_to_look_up(&self) -> impl Iterator<Item = &str> {
        let targets = self.backend.targets.iter().filter(|_| !self.may_alias);
        let hosts = targets.flat_map(|target| &target.addresses).map(|address| &*address.host);
        hosts.filter(|host| host.parse::<IpAddr>().is_err())
    }

    fn waits(&self, ways: &[Ways], knowledge: &Knowledge) -> Waits {
        if self.ways.is_some() {
            return Waits::default();
        }
        let four = ways.iter().any(|ways| !ways.four.is_empty());
        let six = ways.iter().any(|ways| !ways.six.is_empty());
        // Who has another way in need not wait for what has been looked up in vain.
        let is_done = |name: &str| {
            let Knowledge { addresses, not_found, .. } = knowledge;
            addresses.contains_key(name) || (four || six) && not_found.contains(name)
        };
        let waits = !self.names_to_look_up().all(is_done);
        Waits { four: waits && !four, six: waits && !six }
    }

    /// Whether it is made of exactly these.
    pub(super) fn is_made_of(&self, globals: &[Arc<Global>]) -> bool {
        self.globals.len() == globals.len()
            && self.globals.iter().zip(globals).all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

impl Host {
    /// The host as it is with what is known now.
    pub(super) fn new(id: u64, plan: Arc<HostPlan>, judge: &mut Judge<'_>, ttls: Ttls) -> Self {
        let Standing { readiness, calm } = judge.judge(&plan.questions);
        let knowledge = judge.knowledge;
        let ways = plan.ways.clone().unwrap_or_else(|| plan.ways(knowledge).into());
        let dns = &plan.dns;
        let ttl = if calm {
            dns.ttl_seconds.unwrap_or(ttls.calm)
        } else {
            // Never longer than while all is well.
            let trouble = dns.trouble_ttl_seconds.unwrap_or(ttls.trouble);
            trouble.min(dns.ttl_seconds.unwrap_or(ttls.calm))
        };
        let aliases = ways.iter().any(Ways::is_alias);
        let waits = plan.waits(&ways, knowledge);
        Self { id, plan, readiness, ways, aliases, waits, ttl }
    }

    /// Whether it cannot be said yet what there is of a kind.
    pub(crate) fn waits_for(&self, kind: u16) -> bool {
        match kind {
            kind::A => self.waits.four,
            kind::AAAA => self.waits.six,
            _ => false,
        }
    }

    /// Whether it is the same as another but for its number.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.plan, &other.plan)
            && self.readiness == other.readiness
            && self.ways == other.ways
            && self.waits == other.waits
            && self.ttl == other.ttl
    }
}

fn ways(target: &Target, may_alias: bool, knowledge: &Knowledge) -> Ways {
    let mut ways = Ways::default();
    let mut add = |address: IpAddr| match address {
        IpAddr::V4(address) if !ways.four.contains(&address) => ways.four.push(address),
        IpAddr::V6(address) if !ways.six.contains(&address) => ways.six.push(address),
        _ => {}
    };
    let mut names = Vec::new();
    for address in &target.addresses {
        match address.host.parse::<IpAddr>() {
            Ok(address) => add(address),
            Err(_) if may_alias => names.extend(name::from_text(&address.host).ok()),
            Err(_) => knowledge.resolved(&address.host).iter().copied().for_each(&mut add),
        }
    }
    ways.names = names;
    ways
}
