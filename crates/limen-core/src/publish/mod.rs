//! What is published in DNS that others run, and what has to change there.
//!
//! ```text
//! GlobalIngress ── wanted ──► names with addresses ─┐
//!                                                   ├─ plan ──► changes, each with what must still be so
//! the zone as it is ──► Zone ───────────────────────┘
//! ```
//!
//! Who published a name is written beside it, in a TXT record, and how long an owner is known to
//! be alive in another. A name that has no such mark, or that of another owner who lives, is never
//! touched. Each change says what must still be so for it to be made, and the server checks that
//! and makes it in one go: of two who write at the same time one wins, and the other looks again.
//! Retractions that look like an accident are held back ([`hold`]) until a person allows them.

mod hold;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use hold::{Held, Limits, Retraction, hold};
pub use plan::{Change, Plan, Prerequisite, Publisher, Update, plan};

use crate::decide::{OwnKnowledge, Readiness, readiness};
use crate::global::{Global, Target, TrafficRules, for_host};

/// Addresses that one name gets at most.
const MOST_ADDRESSES: usize = 32;
/// How long answers are remembered while something is unwell, unless a policy says otherwise.
const TROUBLE_TTL: u32 = 5;

/// The types of records that are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKind {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
    /// Another name.
    Cname,
    /// Text.
    Txt,
}

impl RecordKind {
    /// The kinds that lead somewhere.
    pub const LEADING: [Self; 3] = [Self::A, Self::Aaaa, Self::Cname];

    /// What zone files call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
            Self::Cname => "CNAME",
            Self::Txt => "TXT",
        }
    }
}

/// The records of one name and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// How long they are remembered, in seconds.
    pub ttl: u32,
    /// Addresses, a name in lower case without a dot at its end, or texts.
    pub data: BTreeSet<String>,
}

/// What a zone has. Names are in lower case, without a dot at their end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// Its records by name and kind.
    pub records: BTreeMap<(String, RecordKind), Records>,
    /// Names that have records of other kinds too, beside which no alias can be.
    pub others: BTreeSet<String>,
}

/// What is to be published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// By name.
    pub names: BTreeMap<String, BTreeMap<RecordKind, Records>>,
    /// Names that some root has and that lead nowhere for the moment, and why. What is published
    /// of them stays: a load balancer that is being replaced is no reason to take a name away.
    pub waiting: BTreeMap<String, String>,
}

impl Wanted {
    /// Whether some root has a name.
    fn claims(&self, name: &str) -> bool {
        self.names.contains_key(name) || self.waiting.contains_key(name)
    }

    /// How many names roots have.
    pub fn claimed(&self) -> usize {
        self.names.len() + self.waiting.len()
    }
}

/// What to publish of all compiled roots in a zone. `ttl` is for those whose policy does not say.
pub fn wanted<'a>(globals: impl Iterator<Item = &'a Global>, zone: &str, ttl: u32) -> Wanted {
    let globals: Vec<&Global> = globals.collect();
    let mut hosts: BTreeMap<String, Vec<&Global>> = BTreeMap::new();
    for global in &globals {
        for rule in global.rules.iter().filter(|rule| is_within(&rule.host, zone)) {
            let claimed = hosts.entry(rule.host.to_ascii_lowercase()).or_default();
            if !claimed.iter().any(|known| std::ptr::eq(*known, *global)) {
                claimed.push(global);
            }
        }
    }
    let mut wanted = Wanted::default();
    for (host, globals) in hosts {
        match records(&host, zone, &globals, ttl) {
            Ok(records) => drop(wanted.names.insert(host, records)),
            Err(why) => drop(wanted.waiting.insert(host, why)),
        }
    }
    wanted
}

fn records(
    host: &str,
    zone: &str,
    globals: &[&Global],
    ttl: u32,
) -> Result<BTreeMap<RecordKind, Records>, String> {
    let backend = for_host(globals.iter().copied(), host);
    let rules = &globals[0].traffic;
    let with_way = || backend.targets.iter().filter(|target| !target.addresses.is_empty());
    let chosen = best(with_way(), rules);
    let calm = backend.targets.iter().all(|target| state(target) == Readiness::Ready);
    let dns = rules.dns.clone().unwrap_or_default();
    let calm_ttl = dns.ttl_seconds.unwrap_or(ttl);
    let trouble_ttl = dns.trouble_ttl_seconds.unwrap_or(TROUBLE_TTL).min(calm_ttl);
    let ttl = if calm { calm_ttl } else { trouble_ttl };

    let mut hosts: BTreeSet<&str> = chosen.iter().flat_map(|target| ways(target)).collect();
    let is_four = |host: &&str| host.parse::<Ipv4Addr>().is_ok();
    if hosts.iter().any(|host| host.parse::<Ipv6Addr>().is_ok()) && !hosts.iter().any(is_four) {
        // Many clients have nothing but IPv4, so that it is never kept from them.
        let others = best(with_way().filter(|target| ways(target).any(|way| is_four(&way))), rules);
        hosts.extend(others.iter().flat_map(|target| ways(target)).filter(is_four));
    }
    let mut records: BTreeMap<RecordKind, Records> = BTreeMap::new();
    let addresses = hosts.iter().filter_map(|host| host.parse::<IpAddr>().ok());
    for address in addresses.take(MOST_ADDRESSES) {
        let kind = if address.is_ipv4() { RecordKind::A } else { RecordKind::Aaaa };
        let set = records.entry(kind).or_default();
        set.ttl = ttl;
        set.data.insert(address.to_string());
    }
    if !records.is_empty() {
        return Ok(records);
    }
    let alias = hosts.first().ok_or("no cluster has a way in yet")?;
    if host == zone {
        return Err(format!("{alias} is a name, and a zone itself cannot be an alias"));
    }
    let data = BTreeSet::from([alias.trim_end_matches('.').to_ascii_lowercase()]);
    Ok(BTreeMap::from([(RecordKind::Cname, Records { ttl, data })]))
}

fn state(target: &Target) -> Readiness {
    readiness(target, OwnKnowledge::None)
}

fn ways(target: &Target) -> impl Iterator<Item = &str> {
    target.addresses.iter().map(|address| address.host.as_str())
}

/// Those of some targets that are as ready as the best of them. A zone gives everybody the same
/// answer, so that a failover order leaves only its first.
fn best<'a>(targets: impl Iterator<Item = &'a Target>, rules: &TrafficRules) -> Vec<&'a Target> {
    let mut best: Vec<&Target> = targets.collect();
    let level = best.iter().map(|target| state(target)).min();
    best.retain(|target| Some(state(target)) == level);
    let first = rules.failover.iter().find(|name| best.iter().any(|one| one.cluster == **name));
    if let Some(first) = first {
        best.retain(|target| target.cluster == *first);
    }
    best
}

/// Whether a host is in a zone.
fn is_within(host: &str, zone: &str) -> bool {
    let host = host.to_ascii_lowercase();
    host == zone || host.strip_suffix(zone).is_some_and(|front| front.ends_with('.'))
}
