//! Objects to zones.
//!
//! What has not changed is taken over: a host whose objects and whose clusters' health are the
//! same keeps its number, and with it every choice that a worker remembers. Where all names stay
//! and only what some of them lead to is different, nothing else is looked at ([`super::patch`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use limen_api::source::{Key, Objects};
use limen_api::{DnsZoneSpec, Nameserver};
use limen_core::global::Global;

use super::host::{Host, HostPlan, Ttls};
use super::parts::{Wrong, ZoneParts};
use super::records::{RrSet, txt};
use super::services::{Federation, Services};
use super::standing::{InCommon, Judge};
use super::{Apex, Node, Nodes, Zones};
use crate::knowledge::Knowledge;
use crate::wire::{kind, name};

/// Challenges are there for minutes, and asked for right after they have changed.
const CHALLENGE_TTL: u32 = 1;

/// What zones have that no object describes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ZoneDefaults {
    /// Zones that are served even without an object.
    pub(crate) zones: Vec<String>,
    /// Who serves them.
    pub(crate) nameservers: Vec<Nameserver>,
    /// The federation whose Services have names in zones that do not say.
    pub(crate) federation: Option<String>,
}

/// Makes zones, one after the other.
pub(crate) struct Compiler {
    defaults: ZoneDefaults,
    /// The last state of each object that could be used.
    good: HashMap<Key, (Arc<DnsZoneSpec>, Arc<ZoneParts>)>,
    pub(super) in_common: InCommon,
    pub(super) next_id: u64,
    /// What the last zones were made of.
    pub(super) last: Option<Last>,
}

/// What zones were made of.
pub(super) struct Last {
    pub(super) objects: Arc<Objects>,
    pub(super) knowledge: (u64, u64),
    /// The federations whose Services have names, with the zones that these are in.
    pub(super) federations: Vec<(String, Arc<ZoneParts>)>,
}

/// How much of the zones is new.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    /// Anything may be.
    All,
    /// Only answers of these zones.
    Some {
        /// By number.
        zones: Vec<u16>,
        /// Whether there is more or less to be found out.
        questions: bool,
    },
}

impl Compiler {
    pub(crate) fn new(defaults: ZoneDefaults) -> Self {
        Self {
            defaults,
            good: HashMap::new(),
            in_common: InCommon::default(),
            next_id: 0,
            last: None,
        }
    }

    /// The zones for these objects, after those `before`, and how much of them is new. `serial` is
    /// what the SOA records of new zones say.
    pub(crate) fn compile(
        &mut self,
        objects: &Arc<Objects>,
        knowledge: &Knowledge,
        before: &Zones,
        serial: u32,
    ) -> (Zones, Renewed) {
        if let Some(patched) = self.patch(objects, knowledge, before) {
            return patched;
        }
        let mut zones = self.all(objects, knowledge, before, serial);
        zones.vantages = before.vantages.clone();
        (zones, Renewed::All)
    }

    fn all(
        &mut self,
        objects: &Arc<Objects>,
        knowledge: &Knowledge,
        before: &Zones,
        serial: u32,
    ) -> Zones {
        let mut zones = Zones::default();
        let mut records = Sets::new();
        let mut services = Services::default();
        let (mut federations, mut cuts) = (Vec::new(), Vec::new());
        let parts = self.parts(objects, &mut zones.problems);
        for parts in &parts {
            zones.problems.extend(parts.unreachable.iter().cloned());
            zones.apexes.push(Apex {
                name: parts.apex.clone(),
                soa: parts.soa(serial),
                numbered: serial,
                negative_ttl: parts.negative_ttl,
                ttls: parts.ttls,
                signer: None,
            });
            if let Some(name) = parts.federation.as_ref().or(self.defaults.federation.as_ref()) {
                let federation = Federation { name, zone: &parts.zone, ttls: parts.ttls };
                services.add(&objects.ingresses, &federation, knowledge);
                federations.push((name.clone(), parts.clone()));
            }
        }
        for parts in &parts {
            let found = add_records(parts, &zones.apexes, &mut records, &mut zones.problems);
            cuts.extend(found);
        }
        zones.problems.append(&mut services.problems);
        zones.lookups = services.lookups;
        for (name, sets) in services.records {
            // What somebody wrote into a DnsZone comes first.
            records.entry(name).or_insert(sets);
        }
        add_challenges(objects, &zones.apexes, &mut records);
        let mut claims = claims(objects, &zones.apexes, &mut zones.problems);
        claims.retain(|name, (text, _)| {
            let apex = zone_of(name, &zones.apexes).map_or(0, |zone| zones.apexes[zone].name.len());
            let cut = cut_above(name, apex, &cuts);
            let told = cut.map(|cut| format!("{text}: {} is delegated", name::to_text(cut)));
            let told = told.map(|told| format!("{told}, so that its servers answer for the host"));
            zones.problems.extend(told);
            cut.is_none()
        });
        self.add_hosts(claims, &mut records, knowledge, before, &mut zones);
        for (name, sets) in records {
            let zone = zone_of(&name, &zones.apexes).unwrap_or_default() as u16;
            let node = Node { zone, records: sets.into(), ..Node::default() };
            zones.nodes.insert(name, node);
        }
        add_between(&mut zones.nodes, &zones.apexes);
        mark(&mut zones.nodes, &zones.apexes, &cuts);
        let (objects, knowledge) = (objects.clone(), knowledge.versions());
        self.last = Some(Last { objects, knowledge, federations });
        zones
    }

    fn add_hosts(
        &mut self,
        claims: Claims<'_>,
        records: &mut Sets,
        knowledge: &Knowledge,
        before: &Zones,
        zones: &mut Zones,
    ) {
        let mut judge = Judge::new(knowledge);
        zones.nodes.reserve(claims.len());
        for (name, (text, globals)) in claims {
            let Some(zone) = zone_of(&name, &zones.apexes) else { continue };
            let beside = records.remove(&name).unwrap_or_default();
            let ttls = zones.apexes[zone].ttls;
            let known = before.nodes.get(&name).and_then(|node| node.host.as_ref());
            let plan = self.plan(known, text, &globals, beside.is_empty());
            let host = self.host(known, plan, &mut judge, ttls);
            let beside = allowed_beside(text, beside, &mut zones.problems);
            zones.hosts += 1;
            let (zone, records) = (zone as u16, beside.into());
            zones.nodes.insert(name, Node { zone, records, host: Some(host), ..Node::default() });
        }
    }

    /// Every zone's parts: of objects, and of zones that were only named at the start.
    fn parts(&mut self, objects: &Objects, problems: &mut Vec<String>) -> Vec<Arc<ZoneParts>> {
        let mut all: Vec<Arc<ZoneParts>> = Vec::new();
        let mut good = HashMap::new();
        let default = &self.defaults.nameservers;
        for (key, spec) in &objects.zones {
            let before = self.good.remove(key);
            let current = before.as_ref().filter(|(known, _)| Arc::ptr_eq(known, spec)).cloned();
            let read = current.map_or_else(
                || ZoneParts::read(spec, default).map(|parts| (spec.clone(), Arc::new(parts))),
                Ok,
            );
            let (namespace, name) = key;
            let mut tell = |wrong: &Wrong, then: &str| {
                let (at, what) = (objects.place_of(key, wrong.record), &wrong.what);
                problems.push(format!("{at}DnsZone {namespace}/{name}: {what}{then}"));
            };
            let old = "; the old zone stays";
            let usable = match read {
                Ok((spec, parts)) => {
                    // With nothing better to go back to, the rest of the zone is served: a restart
                    // must not take a whole zone away for one record.
                    let good = before.filter(|(_, known)| known.wrong.is_empty());
                    let good = good.filter(|_| !parts.wrong.is_empty());
                    let then = if good.is_some() { old } else { "; it is left out" };
                    parts.wrong.iter().for_each(|wrong| tell(wrong, then));
                    Some(good.unwrap_or((spec, parts)))
                }
                Err(wrong) => {
                    tell(&wrong, if before.is_some() { old } else { "" });
                    before
                }
            };
            let Some((spec, parts)) = usable else { continue };
            if all.iter().any(|other| other.apex == parts.apex) {
                problems.push(format!(
                    "DnsZone {namespace}/{name}: another object has the zone {}; remove one",
                    spec.zone
                ));
                continue;
            }
            all.push(parts.clone());
            good.insert(key.clone(), (spec, parts));
        }
        for zone in &self.defaults.zones {
            let spec = DnsZoneSpec { zone: zone.clone(), ..DnsZoneSpec::default() };
            match ZoneParts::read(&spec, default) {
                Ok(parts) if all.iter().any(|other| other.apex == parts.apex) => {}
                Ok(parts) => all.push(Arc::new(parts)),
                Err(wrong) => problems.push(format!("zone {zone}: {}", wrong.what)),
            }
        }
        self.good = good;
        all
    }

    /// The plan of a host, which is the one before if that is made of the same.
    fn plan(
        &mut self,
        before: Option<&Arc<Host>>,
        text: &str,
        globals: &[Arc<Global>],
        alone: bool,
    ) -> Arc<HostPlan> {
        let same = |plan: &&Arc<HostPlan>| plan.alone == alone && plan.is_made_of(globals);
        let known = before.map(|host| &host.plan).filter(same).cloned();
        known.unwrap_or_else(|| Arc::new(HostPlan::new(text, globals, alone, &mut self.in_common)))
    }

    /// The host as it is now, which is the one before if that is the same.
    pub(super) fn host(
        &mut self,
        before: Option<&Arc<Host>>,
        plan: Arc<HostPlan>,
        judge: &mut Judge<'_>,
        ttls: Ttls,
    ) -> Arc<Host> {
        let host = Host::new(self.next_id, plan, judge, ttls);
        match before {
            Some(before) if before.is_like(&host) => before.clone(),
            _ => {
                self.next_id += 1;
                Arc::new(host)
            }
        }
    }
}

/// Records by the names that they are of.
type Sets = BTreeMap<Arc<[u8]>, Vec<RrSet>>;

/// The records of a zone object. Returns the names that it delegates.
fn add_records(
    parts: &ZoneParts,
    apexes: &[Apex],
    to: &mut Sets,
    problems: &mut Vec<String>,
) -> Vec<Arc<[u8]>> {
    // A zone that is ours too needs nobody to lead to it.
    let ours = |cut: &Arc<[u8]>| {
        let inner = apexes.iter().filter(|apex| apex.name.len() > parts.apex.len());
        inner.map(|apex| &apex.name).find(|apex| name::is_within(cut, apex))
    };
    let (dropped, cuts): (Vec<_>, Vec<_>) =
        parts.cuts.iter().cloned().partition(|cut| ours(cut).is_some());
    for cut in &dropped {
        let (zone, cut) = (&parts.zone, name::to_text(cut));
        problems.push(format!(
            "zone {zone}: {cut} is served here too, so that its own zone says who serves it"
        ));
    }
    for (name, set) in &parts.records {
        if matches!(set.kind, kind::NS | kind::DS) && dropped.contains(name) {
            continue;
        }
        to.entry(name.clone()).or_default().push(set.clone());
    }
    cuts
}

/// Answers to challenges of certificate authorities, beside what is there.
fn add_challenges(objects: &Objects, apexes: &[Apex], nodes: &mut Sets) {
    for challenge in objects.challenges.values() {
        let Ok(name) = name::from_text(&challenge.name) else { continue };
        if zone_of(&name, apexes).is_none() || challenge.texts.is_empty() {
            continue;
        }
        let sets = nodes.entry(name.into()).or_default();
        let mut data: Vec<Box<[u8]>> =
            challenge.texts.iter().filter_map(|text| txt(text).ok()).map(Into::into).collect();
        match sets.iter_mut().find(|set| set.kind == kind::TXT) {
            Some(known) => known.data.append(&mut data),
            None => sets.push(RrSet { kind: kind::TXT, ttl: CHALLENGE_TTL, data }),
        }
    }
}

type Claims<'a> = BTreeMap<Arc<[u8]>, (&'a str, Vec<Arc<Global>>)>;

/// Who claims which host of our zones.
fn claims<'a>(objects: &'a Objects, apexes: &[Apex], problems: &mut Vec<String>) -> Claims<'a> {
    let mut claims = Claims::new();
    for ((namespace, object), global) in &objects.ingresses {
        for rule in global.rules.iter().filter(|rule| !rule.host.is_empty()) {
            let name = match name::from_text(&rule.host) {
                Ok(name) => name,
                Err(error) => {
                    problems.push(format!("GlobalIngress {namespace}/{object}: {error}"));
                    continue;
                }
            };
            if zone_of(&name, apexes).is_none() {
                continue;
            }
            let (_, globals) =
                claims.entry(name.into()).or_insert_with(|| (&rule.host, Vec::new()));
            if !globals.iter().any(|known| Arc::ptr_eq(known, global)) {
                globals.push(global.clone());
            }
        }
    }
    claims
}

/// Records that may be beside the addresses of a host.
fn allowed_beside(host: &str, records: Vec<RrSet>, problems: &mut Vec<String>) -> Vec<RrSet> {
    let (allowed, taken): (Vec<_>, Vec<_>) = records
        .into_iter()
        .partition(|set| !matches!(set.kind, kind::A | kind::AAAA | kind::CNAME));
    if !taken.is_empty() {
        problems.push(format!(
            "{host}: a GlobalIngress has this host, so its addresses in a DnsZone are left out"
        ));
    }
    allowed
}

/// The innermost zone that a name is in.
fn zone_of(name: &[u8], apexes: &[Apex]) -> Option<usize> {
    let within = apexes.iter().enumerate().filter(|(_, apex)| name::is_within(name, &apex.name));
    within.max_by_key(|(_, apex)| apex.name.len()).map(|(index, _)| index)
}

/// Names between a zone's and an existing one exist too, with nothing of their own.
fn add_between(nodes: &mut Nodes, apexes: &[Apex]) {
    let names: Vec<(Arc<[u8]>, u16)> =
        nodes.iter().map(|(name, node)| (name.clone(), node.zone)).collect();
    for (name, zone) in names {
        let apex = &apexes[usize::from(zone)].name;
        let mut above = name::parent(&name);
        while let Some(between) = above.filter(|between| between.len() > apex.len()) {
            if nodes.contains_key(between) {
                break;
            }
            nodes.insert(between.into(), Node { zone, ..Node::default() });
            above = name::parent(between);
        }
    }
}

/// Marks where zones begin, and what is at or below a name that somebody else answers for.
fn mark(nodes: &mut Nodes, apexes: &[Apex], cuts: &[Arc<[u8]>]) {
    for apex in apexes {
        if let Some(node) = nodes.get_mut(&apex.name) {
            node.is_apex = true;
        }
    }
    if cuts.is_empty() {
        return;
    }
    for (name, node) in nodes {
        let cut = cut_above(name, apexes[usize::from(node.zone)].name.len(), cuts);
        // A name is at most 255 bytes long.
        node.cut = cut.map_or(0, |cut| cut.len() as u8);
    }
}

/// The delegation that a name is at or below. A zone of ours that begins below it, with a name of
/// `apex` bytes, is still ours.
fn cut_above<'a>(name: &[u8], apex: usize, cuts: &'a [Arc<[u8]>]) -> Option<&'a Arc<[u8]>> {
    cuts.iter().find(|cut| cut.len() > apex && name::is_within(name, cut))
}
