//! Objects to zones.
//!
//! What has not changed is taken over: a host whose objects and whose clusters' health are the
//! same keeps its number, and with it every choice that a worker remembers.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use limen_api::source::{Key, Objects};
use limen_api::{DnsZoneSpec, Nameserver};
use limen_core::global::Global;

use super::host::{Host, HostPlan, Ttls};
use super::records::{RrSet, rrset, txt};
use super::services::{Federation, Services};
use super::{Apex, Node, Nodes, Zones};
use crate::knowledge::Knowledge;
use crate::wire::{kind, name};

/// How often secondaries would ask, should there be any; no resolver reads these.
const REFRESH_RETRY_EXPIRE: [u32; 3] = [3600, 600, 604_800];
const NEGATIVE_TTL: u32 = 30;
const CALM_TTL: u32 = 30;
const TROUBLE_TTL: u32 = 5;
/// The TTL of records that seldom change.
const STATIC_TTL: u32 = 300;

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
    hosts: HashMap<Arc<[u8]>, Arc<Host>>,
    next_id: u64,
}

/// A zone object, checked and ready for use.
struct ZoneParts {
    zone: String,
    apex: Arc<[u8]>,
    federation: Option<String>,
    mname: Box<[u8]>,
    rname: Box<[u8]>,
    negative_ttl: u32,
    ttls: Ttls,
    records: Vec<(Arc<[u8]>, RrSet)>,
    /// Servers that nobody who follows a delegation could find.
    unreachable: Vec<String>,
}

impl Compiler {
    pub(crate) fn new(defaults: ZoneDefaults) -> Self {
        Self { defaults, good: HashMap::new(), hosts: HashMap::new(), next_id: 0 }
    }

    /// The zones for these objects. `serial` is what the SOA records say.
    pub(crate) fn compile(
        &mut self,
        objects: &Objects,
        knowledge: &Knowledge,
        serial: u32,
    ) -> Zones {
        let mut zones = Zones::default();
        let mut nodes: BTreeMap<Arc<[u8]>, Vec<RrSet>> = BTreeMap::new();
        let mut ttls = Vec::new();
        let mut services = Services::default();
        for parts in self.parts(objects, &mut zones.problems) {
            zones.problems.extend(parts.unreachable.iter().cloned());
            zones.apexes.push(Apex {
                name: parts.apex.clone(),
                soa: soa(&parts, serial),
                negative_ttl: parts.negative_ttl,
                signer: None,
            });
            ttls.push(parts.ttls);
            if let Some(name) = parts.federation.as_ref().or(self.defaults.federation.as_ref()) {
                let federation = Federation { name, zone: &parts.zone, ttls: parts.ttls };
                services.add(objects, &federation, knowledge);
            }
            for (name, set) in &parts.records {
                nodes.entry(name.clone()).or_default().push(set.clone());
            }
        }
        zones.problems.append(&mut services.problems);
        zones.lookups = services.lookups;
        for (name, sets) in services.records {
            // What somebody wrote into a DnsZone comes first.
            nodes.entry(name).or_insert(sets);
        }
        add_challenges(objects, &zones.apexes, &mut nodes);
        let claims = claims(objects, &zones.apexes, &mut zones.problems);
        let mut hosts = HashMap::new();
        for (name, (text, globals)) in claims {
            let Some(zone) = zone_of(&name, &zones.apexes) else { continue };
            let records = nodes.remove(&name).unwrap_or_default();
            let host = self.host(&name, &text, &globals, &records, knowledge, ttls[zone]);
            let records = allowed_beside(&text, records, &mut zones.problems);
            hosts.insert(name.clone(), host.clone());
            let node = Node { zone: zone as u16, records: records.into(), host: Some(host) };
            zones.nodes.insert(name, node);
        }
        zones.hosts = hosts.len();
        self.hosts = hosts;
        for (name, records) in nodes {
            let zone = zone_of(&name, &zones.apexes).unwrap_or_default() as u16;
            zones.nodes.insert(name, Node { zone, records: records.into(), host: None });
        }
        add_between(&mut zones.nodes, &zones.apexes);
        zones
    }

    /// Every zone's parts: of objects, and of zones that were only named at the start.
    fn parts(&mut self, objects: &Objects, problems: &mut Vec<String>) -> Vec<Arc<ZoneParts>> {
        let mut all: Vec<Arc<ZoneParts>> = Vec::new();
        let mut good = HashMap::new();
        for (key, spec) in &objects.zones {
            let before = self.good.remove(key);
            let current = before.as_ref().filter(|(known, _)| Arc::ptr_eq(known, spec)).cloned();
            let read = current.map_or_else(
                || check(spec, &self.defaults.nameservers).map(|p| (spec.clone(), Arc::new(p))),
                Ok,
            );
            let usable = read.map_or_else(
                |error| {
                    let (namespace, name) = key;
                    let stays = if before.is_some() { "; the old zone stays" } else { "" };
                    problems.push(format!("DnsZone {namespace}/{name}: {error}{stays}"));
                    before
                },
                Some,
            );
            let Some((spec, parts)) = usable else { continue };
            if all.iter().any(|other| other.apex == parts.apex) {
                let (namespace, name) = key;
                problems.push(format!(
                    "DnsZone {namespace}/{name}: another object has the zone {}; remove one",
                    spec.zone
                ));
                continue;
            }
            all.push(parts.clone());
            good.insert(key.clone(), (spec, parts));
        }
        self.good = good;
        for zone in &self.defaults.zones {
            let spec = DnsZoneSpec { zone: zone.clone(), ..DnsZoneSpec::default() };
            match check(&spec, &self.defaults.nameservers) {
                Ok(parts) if all.iter().any(|other| other.apex == parts.apex) => {}
                Ok(parts) => all.push(Arc::new(parts)),
                Err(error) => problems.push(format!("zone {zone}: {error}")),
            }
        }
        all
    }

    fn host(
        &mut self,
        name: &Arc<[u8]>,
        text: &str,
        globals: &[&Arc<Global>],
        records: &[RrSet],
        knowledge: &Knowledge,
        ttls: Ttls,
    ) -> Arc<Host> {
        let may_alias = records.is_empty();
        let before = self.hosts.get(name);
        let plan = before
            .map(|host| &host.plan)
            .filter(|plan| {
                plan.is_made_of(globals) && plan.may_alias == (may_alias && plan.dns.clusters <= 1)
            })
            .cloned()
            .unwrap_or_else(|| Arc::new(HostPlan::new(text, globals, may_alias)));
        let host = Host::new(self.next_id, plan, knowledge, ttls);
        match before {
            Some(before) if before.is_like(&host) => before.clone(),
            _ => {
                self.next_id += 1;
                Arc::new(host)
            }
        }
    }
}

/// Answers to challenges of certificate authorities, beside what is there.
fn add_challenges(objects: &Objects, apexes: &[Apex], nodes: &mut BTreeMap<Arc<[u8]>, Vec<RrSet>>) {
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

type Claims<'a> = BTreeMap<Arc<[u8]>, (String, Vec<&'a Arc<Global>>)>;

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
                claims.entry(name.into()).or_insert_with(|| (rule.host.clone(), Vec::new()));
            if !globals.iter().any(|known| Arc::ptr_eq(known, global)) {
                globals.push(global);
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

fn soa(parts: &ZoneParts, serial: u32) -> Box<[u8]> {
    let mut data = [&parts.mname[..], &parts.rname].concat();
    data.extend(serial.to_be_bytes());
    data.extend(REFRESH_RETRY_EXPIRE.iter().flat_map(|number| number.to_be_bytes()));
    data.extend(parts.negative_ttl.to_be_bytes());
    data.into()
}

/// Reads a zone object. The error says which record is wrong and why.
fn check(spec: &DnsZoneSpec, default: &[Nameserver]) -> Result<ZoneParts, String> {
    let apex: Arc<[u8]> = name::from_text(&spec.zone)?.into();
    let own = [Nameserver { name: format!("ns1.{}", spec.zone), addresses: Vec::new() }];
    let nameservers = match (&spec.nameservers[..], default) {
        ([], []) => &own,
        ([], default) => default,
        (named, _) => named,
    };
    let mailbox = spec.mailbox.clone().unwrap_or_else(|| format!("hostmaster@{}", spec.zone));
    let mut records = vec![(
        apex.clone(),
        RrSet {
            kind: kind::NS,
            ttl: STATIC_TTL,
            data: nameservers
                .iter()
                .map(|server| name::from_text(&server.name))
                .collect::<Result<_, _>>()?,
        },
    )];
    for server in nameservers {
        add_addresses(server, &apex, &mut records)?;
    }
    for (index, record) in spec.records.iter().enumerate() {
        let wrong = |error| format!("records[{index}] ({} {}): {error}", record.name, record.kind);
        let name = full_name(&record.name, &spec.zone).map_err(wrong)?;
        let set = rrset(record, STATIC_TTL).map_err(wrong)?;
        let others = || records.iter().filter(|(other, _)| *other == name);
        let alias = |set: &RrSet| set.kind == kind::CNAME;
        if others().any(|(_, other)| other.kind == set.kind) {
            return Err(wrong("these records are there twice; put all data into one".to_owned()));
        }
        if others().any(|(_, other)| alias(other)) || alias(&set) && others().next().is_some() {
            return Err(wrong("a CNAME cannot be beside other records".to_owned()));
        }
        records.push((name, set));
    }
    let mut unreachable = Vec::new();
    for server in nameservers {
        let name: Arc<[u8]> = name::from_text(&server.name)?.into();
        let has_address = records.iter().any(|(other, set)| *other == name && set.kind != kind::NS);
        if name::is_within(&name, &apex) && !has_address {
            let (zone, server) = (&spec.zone, &server.name);
            unreachable.push(format!(
                "zone {zone}: its server {server} has no address, so that a delegation to it leads \
                 nowhere; give it one"
            ));
        }
    }
    Ok(ZoneParts {
        zone: spec.zone.trim_end_matches('.').to_owned(),
        federation: spec.federation.clone(),
        unreachable,
        mname: name::from_text(&nameservers[0].name)?,
        rname: mailbox_name(&mailbox)?,
        negative_ttl: spec.negative_ttl_seconds.unwrap_or(NEGATIVE_TTL),
        ttls: Ttls {
            calm: spec.ttl_seconds.unwrap_or(CALM_TTL),
            trouble: spec.trouble_ttl_seconds.unwrap_or(TROUBLE_TTL),
        },
        apex,
        records,
    })
}

fn full_name(name: &str, zone: &str) -> Result<Arc<[u8]>, String> {
    let whole = if name == "@" { zone.to_owned() } else { format!("{name}.{zone}") };
    name::from_text(&whole).map(Into::into)
}

fn mailbox_name(mailbox: &str) -> Result<Box<[u8]>, String> {
    let (local, domain) = mailbox
        .split_once('@')
        .ok_or_else(|| format!("mailbox {mailbox:?} is not a mail address"))?;
    if local.is_empty() || local.len() > 63 {
        return Err(format!("mailbox {mailbox:?} is not a mail address"));
    }
    let mut bytes = vec![local.len() as u8];
    // Signatures are made of names in lower case.
    bytes.extend(local.bytes().map(|byte| byte.to_ascii_lowercase()));
    bytes.extend(name::from_text(domain)?);
    Ok(bytes.into())
}

/// The addresses of a server whose name is in the zone itself.
fn add_addresses(
    server: &Nameserver,
    apex: &[u8],
    records: &mut Vec<(Arc<[u8]>, RrSet)>,
) -> Result<(), String> {
    let name: Arc<[u8]> = name::from_text(&server.name)?.into();
    if !name::is_within(&name, apex) {
        return Ok(());
    }
    let (mut four, mut six) = (Vec::new(), Vec::new());
    for text in &server.addresses {
        let address: IpAddr = text
            .parse()
            .map_err(|_| format!("nameserver {}: {text:?} is not an address", server.name))?;
        match address {
            IpAddr::V4(address) => four.push(address.octets().as_slice().into()),
            IpAddr::V6(address) => six.push(address.octets().as_slice().into()),
        }
    }
    for (kind, data) in [(kind::A, four), (kind::AAAA, six)] {
        if !data.is_empty() {
            records.push((name.clone(), RrSet { kind, ttl: STATIC_TTL, data }));
        }
    }
    Ok(())
}
