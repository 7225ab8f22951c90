//! What has to change in a zone.

use std::collections::{BTreeMap, BTreeSet};

use super::Limits;
use super::{Held, RecordKind, Records, Retraction, Wanted, Zone, hold};

/// How long marks are remembered by resolvers, who have no use for them.
const MARK_TTL: u32 = 60;

/// Who publishes, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Publisher {
    /// What it is called in its marks.
    pub owner: String,
    /// The zone, in lower case without a dot at its end.
    pub zone: String,
    /// How long it counts as alive without being heard of, in seconds.
    pub lease: i64,
    /// How much it may retract at once; nothing means any number.
    pub limits: Option<Limits>,
}

/// What must be so for a change to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prerequisite {
    /// A name has no such records.
    Absent(String, RecordKind),
    /// A name has exactly these.
    Exactly(String, RecordKind, BTreeSet<String>),
}

/// A part of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// All records of a name and kind go.
    Remove(String, RecordKind),
    /// These come.
    Add(String, RecordKind, Records),
}

/// What is done at once, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// For people: what it does.
    pub what: String,
    /// What must still be so.
    pub prerequisites: Vec<Prerequisite>,
    /// What is done.
    pub updates: Vec<Update>,
}

/// All that has to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Says that the publisher is alive. It comes first, and without it nothing else may be done:
    /// names of an owner that seems dead are anybody's.
    pub renewal: Option<Change>,
    /// Each by itself.
    pub changes: Vec<Change>,
    /// Names that are left alone, and why.
    pub remarks: Vec<String>,
    /// Why nothing is retracted, although some names are not wanted any more.
    pub held: Option<Held>,
}

/// Who a name belongs to.
enum Owner {
    /// Nobody published it, and nothing is there.
    Free,
    /// It is the publisher's own.
    Own,
    /// It was published by somebody who has not been heard of since.
    Stale(String),
    /// It is none of the publisher's business.
    Other(String),
}

/// What has to change so that a zone has what is wanted. `now` is in seconds since 1970.
pub fn plan(publisher: &Publisher, wanted: &Wanted, zone: &Zone, now: i64) -> Plan {
    let mut plan = Plan { renewal: publisher.renewal(zone, now), ..Plan::default() };
    for (host, records) in &wanted.names {
        let owner = publisher.owner_of(host, zone, now);
        let same = || {
            RecordKind::LEADING.iter().all(|kind| published(zone, host, *kind) == records.get(kind))
        };
        match owner {
            Owner::Other(why) => plan.remarks.push(format!("{host} is left alone: {why}")),
            Owner::Own if same() => {}
            // A server would remove what is there and silently leave out the alias.
            _ if records.contains_key(&RecordKind::Cname) && has_others(zone, host) => {
                plan.remarks.push(format!(
                    "{host} is left as it is: it should become an alias, which cannot be beside \
                     the other records that it has; remove those, or give its cluster an address"
                ));
            }
            owner => plan.changes.push(publisher.put(host, records, &owner, zone)),
        }
    }
    let marked = zone.records.keys().filter_map(|(name, kind)| match kind {
        RecordKind::Txt => host_of_mark(name),
        _ => None,
    });
    let mut retraction = Retraction { wanted: wanted.claimed(), ..Retraction::default() };
    let mut retracted = Vec::new();
    for host in marked {
        let owner = publisher.owner_of(&host, zone, now);
        let goes = !wanted.claims(&host);
        match owner {
            Owner::Own => {
                retraction.published += 1;
                retraction.own += usize::from(goes);
            }
            Owner::Stale(_) => retraction.left_behind += usize::from(goes),
            Owner::Free | Owner::Other(_) => continue,
        }
        if goes {
            retracted.push(publisher.retract(&host, &owner, zone));
        }
    }
    plan.held = publisher.limits.and_then(|limits| hold(retraction, limits));
    if plan.held.is_none() {
        plan.changes.append(&mut retracted);
    }
    plan
}

fn published<'a>(zone: &'a Zone, name: &str, kind: RecordKind) -> Option<&'a Records> {
    zone.records.get(&(name.to_owned(), kind))
}

/// Whether a name has records beside those that lead somewhere.
fn has_others(zone: &Zone, host: &str) -> bool {
    zone.others.contains(host) || published(zone, host, RecordKind::Txt).is_some()
}

impl Publisher {
    fn mark(&self) -> BTreeSet<String> {
        BTreeSet::from([format!("heritage=limen,owner={}", self.owner)])
    }

    fn lease_name(&self, owner: &str) -> String {
        format!("{LEASE}{owner}.{}", self.zone)
    }

    /// Says that it is alive, when that is about to be forgotten.
    fn renewal(&self, zone: &Zone, now: i64) -> Option<Change> {
        let name = self.lease_name(&self.owner);
        let known = published(zone, &name, RecordKind::Txt);
        let until = known.and_then(|known| lease_end(&known.data));
        if until.is_some_and(|until| until - now > self.lease * 2 / 3) {
            return None;
        }
        let text = format!("heritage=limen,owner={},lease={}", self.owner, now + self.lease);
        let records = Records { ttl: MARK_TTL, data: BTreeSet::from([text]) };
        Some(Change {
            what: format!("say that {} is alive", self.owner),
            prerequisites: vec![as_known(zone, &name, RecordKind::Txt)],
            updates: vec![
                Update::Remove(name.clone(), RecordKind::Txt),
                Update::Add(name, RecordKind::Txt, records),
            ],
        })
    }

    fn owner_of(&self, host: &str, zone: &Zone, now: i64) -> Owner {
        let Some(mark) = published(zone, &mark_name(host), RecordKind::Txt) else {
            let taken =
                RecordKind::LEADING.iter().find(|kind| published(zone, host, **kind).is_some());
            return match taken {
                None => Owner::Free,
                Some(kind) => Owner::Other(format!(
                    "it has {} records that nobody marked as published; remove them, or add the TXT \
                     record {} with \"heritage=limen,owner={}\" to hand them over",
                    kind.name(),
                    mark_name(host),
                    self.owner,
                )),
            };
        };
        let owner = mark.data.first().and_then(|text| field(text, "owner="));
        let Some(owner) = owner.filter(|_| mark.data.len() == 1) else {
            return Owner::Other(format!("its mark {} cannot be read", mark_name(host)));
        };
        if owner == self.owner {
            return Owner::Own;
        }
        let lease = published(zone, &self.lease_name(owner), RecordKind::Txt);
        match lease.and_then(|lease| lease_end(&lease.data)) {
            Some(until) if until > now => {
                Owner::Other(format!("it belongs to {owner}, who is alive until {until}"))
            }
            _ => Owner::Stale(owner.to_owned()),
        }
    }

    /// What must still be so, for the publisher to touch a name.
    fn still(&self, host: &str, owner: &Owner, zone: &Zone) -> Vec<Prerequisite> {
        let mut still = vec![as_known(zone, &mark_name(host), RecordKind::Txt)];
        match owner {
            Owner::Free => {
                still.extend(RecordKind::LEADING.map(|kind| as_known(zone, host, kind)));
            }
            // Should it come back to life meanwhile, it keeps its names.
            Owner::Stale(other) => {
                still.push(as_known(zone, &self.lease_name(other), RecordKind::Txt));
            }
            Owner::Own | Owner::Other(_) => {}
        }
        still
    }

    fn put(
        &self,
        host: &str,
        records: &BTreeMap<RecordKind, Records>,
        owner: &Owner,
        zone: &Zone,
    ) -> Change {
        let mut updates = removals(host, zone);
        for (kind, records) in records {
            updates.push(Update::Add(host.to_owned(), *kind, records.clone()));
        }
        if !matches!(owner, Owner::Own) {
            let mark = Records { ttl: MARK_TTL, data: self.mark() };
            updates.push(Update::Remove(mark_name(host), RecordKind::Txt));
            updates.push(Update::Add(mark_name(host), RecordKind::Txt, mark));
        }
        let data: Vec<&str> =
            records.values().flat_map(|records| &records.data).map(String::as_str).collect();
        let from = match owner {
            Owner::Stale(owner) => format!(", taken over from {owner}, who is gone"),
            _ => String::new(),
        };
        let mut prerequisites = self.still(host, owner, zone);
        if records.contains_key(&RecordKind::Cname) {
            // What has come since then would keep the alias out, and not what is removed for it.
            for kind in RecordKind::LEADING.into_iter().chain([RecordKind::Txt]) {
                let known = as_known(zone, host, kind);
                if !prerequisites.contains(&known) {
                    prerequisites.push(known);
                }
            }
        }
        let what = format!("{host} leads to {}{from}", data.join(", "));
        Change { what, prerequisites, updates }
    }

    fn retract(&self, host: &str, owner: &Owner, zone: &Zone) -> Change {
        let mut updates = removals(host, zone);
        updates.push(Update::Remove(mark_name(host), RecordKind::Txt));
        let whose = match owner {
            Owner::Stale(owner) => format!("retract {host} of {owner}, who is gone"),
            _ => format!("retract {host}"),
        };
        Change { what: whose, prerequisites: self.still(host, owner, zone), updates }
    }
}

fn removals(host: &str, zone: &Zone) -> Vec<Update> {
    let there =
        RecordKind::LEADING.into_iter().filter(|kind| published(zone, host, *kind).is_some());
    there.map(|kind| Update::Remove(host.to_owned(), kind)).collect()
}

/// That records are still as they were seen.
fn as_known(zone: &Zone, name: &str, kind: RecordKind) -> Prerequisite {
    match published(zone, name, kind) {
        Some(known) => Prerequisite::Exactly(name.to_owned(), kind, known.data.clone()),
        None => Prerequisite::Absent(name.to_owned(), kind),
    }
}

const LEASE: &str = "_limen-lease-";
const MARK: &str = "_limen-owner.";
/// An asterisk is only allowed in front.
const WILDCARD_MARK: &str = "_limen-owner-wildcard.";

/// Where it is written who published a name.
fn mark_name(host: &str) -> String {
    match host.strip_prefix("*.") {
        Some(rest) => format!("{WILDCARD_MARK}{rest}"),
        None => format!("{MARK}{host}"),
    }
}

fn host_of_mark(name: &str) -> Option<String> {
    let wildcard = name.strip_prefix(WILDCARD_MARK).map(|rest| format!("*.{rest}"));
    wildcard.or_else(|| name.strip_prefix(MARK).map(str::to_owned))
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.starts_with("heritage=limen,")
        .then(|| text.split(',').find_map(|part| part.strip_prefix(name)))?
}

fn lease_end(data: &BTreeSet<String>) -> Option<i64> {
    data.iter().filter_map(|text| field(text, "lease=")?.parse().ok()).max()
}
