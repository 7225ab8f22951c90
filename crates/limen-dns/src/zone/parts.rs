//! A `DnsZone` object, checked and ready for use.

use std::net::IpAddr;
use std::sync::Arc;

use limen_api::{DnsZoneSpec, Nameserver};

use super::host::Ttls;
use super::records::{RrSet, rrset};
use crate::wire::{kind, name};

/// How often secondaries would ask, should there be any; no resolver reads these.
const REFRESH_RETRY_EXPIRE: [u32; 3] = [3600, 600, 604_800];
const NEGATIVE_TTL: u32 = 30;
const CALM_TTL: u32 = 30;
const TROUBLE_TTL: u32 = 5;
/// The TTL of records that seldom change.
const STATIC_TTL: u32 = 300;

/// Records with the names that they are of.
type Named = Vec<(Arc<[u8]>, RrSet)>;

/// A zone object, checked and ready for use.
pub(super) struct ZoneParts {
    pub(super) zone: String,
    pub(super) apex: Arc<[u8]>,
    pub(super) federation: Option<String>,
    mname: Box<[u8]>,
    rname: Box<[u8]>,
    pub(super) negative_ttl: u32,
    pub(super) ttls: Ttls,
    pub(super) records: Named,
    /// Names below which somebody else answers.
    pub(super) cuts: Vec<Arc<[u8]>>,
    /// Servers that nobody who follows a delegation could find.
    pub(super) unreachable: Vec<String>,
    /// Records that cannot be served and are left out.
    pub(super) wrong: Vec<Wrong>,
}

/// What is wrong with a zone object.
pub(super) struct Wrong {
    /// Which of its records, if it is one of them.
    pub(super) record: Option<usize>,
    pub(super) what: String,
}

impl From<String> for Wrong {
    fn from(what: String) -> Self {
        Self { record: None, what }
    }
}

impl ZoneParts {
    /// Reads a zone object; it fails only where no zone can be made of it at all. `default` are the
    /// servers of zones that name none.
    pub(super) fn read(spec: &DnsZoneSpec, default: &[Nameserver]) -> Result<Self, Wrong> {
        let apex: Arc<[u8]> = name::from_text(&spec.zone)?.into();
        let own = [Nameserver { name: format!("ns1.{}", spec.zone), addresses: Vec::new() }];
        let nameservers = match (&spec.nameservers[..], default) {
            ([], []) => &own,
            ([], default) => default,
            (named, _) => named,
        };
        let mailbox = spec.mailbox.clone().unwrap_or_else(|| format!("hostmaster@{}", spec.zone));
        let servers = nameservers.iter().map(|server| name::from_text(&server.name));
        let servers =
            RrSet { kind: kind::NS, ttl: STATIC_TTL, data: servers.collect::<Result<_, _>>()? };
        let mut records = vec![(apex.clone(), servers)];
        for server in nameservers {
            add_addresses(server, &apex, &mut records)?;
        }
        let wrong = add_all(spec, &apex, &mut records);
        let cuts = cuts(&apex, &records);
        Ok(Self {
            zone: spec.zone.trim_end_matches('.').to_owned(),
            federation: spec.federation.clone(),
            unreachable: unreachable(&spec.zone, &apex, &records, &cuts),
            mname: name::from_text(&nameservers[0].name)?,
            rname: mailbox_name(&mailbox)?,
            negative_ttl: spec.negative_ttl_seconds.unwrap_or(NEGATIVE_TTL),
            ttls: Ttls {
                calm: spec.ttl_seconds.unwrap_or(CALM_TTL),
                trouble: spec.trouble_ttl_seconds.unwrap_or(TROUBLE_TTL),
            },
            apex,
            records,
            cuts,
            wrong,
        })
    }

    /// The data of its SOA record.
    pub(super) fn soa(&self, serial: u32) -> Box<[u8]> {
        let mut data = [&self.mname[..], &self.rname].concat();
        data.extend(serial.to_be_bytes());
        data.extend(REFRESH_RETRY_EXPIRE.iter().flat_map(|number| number.to_be_bytes()));
        data.extend(self.negative_ttl.to_be_bytes());
        data.into()
    }
}

/// Adds all records of a zone object that can be served. Returns what is wrong with the others.
fn add_all(spec: &DnsZoneSpec, apex: &[u8], records: &mut Named) -> Vec<Wrong> {
    let mut all = Vec::new();
    let mut found = Vec::new();
    for (index, record) in spec.records.iter().enumerate() {
        let read = full_name(&record.name, &spec.zone).and_then(|name| {
            let set = rrset(record, STATIC_TTL)?;
            check_beside(&name, &set, apex, records)?;
            Ok((name, set))
        });
        match read {
            Ok((name, set)) => {
                found.push((index, name.clone(), set.kind));
                records.push((name, set));
            }
            Err(error) => all.push(wrong(spec, index, &error)),
        }
    }
    let cuts = cuts(apex, records);
    for (index, name, kind) in found {
        if let Err(error) = check_cuts(&name, kind, &cuts) {
            records.retain(|(other, set)| *other != name || set.kind != kind);
            all.push(wrong(spec, index, &error));
        }
    }
    all.sort_by_key(|wrong| wrong.record);
    all
}

fn wrong(spec: &DnsZoneSpec, index: usize, what: &str) -> Wrong {
    let record = &spec.records[index];
    let what = format!("records[{index}] ({} {}): {what}", record.name, record.kind);
    Wrong { record: Some(index), what }
}

/// Whether records can be beside those that are there already.
fn check_beside(name: &[u8], set: &RrSet, apex: &[u8], records: &Named) -> Result<(), String> {
    let others = || records.iter().filter(|(other, _)| **other == *name);
    let alias = |set: &RrSet| set.kind == kind::CNAME;
    if set.kind == kind::NS && name == apex {
        return Err("the servers of the zone itself are its nameservers".to_owned());
    }
    if matches!(set.kind, kind::NS | kind::DS) && name.starts_with(b"\x01*") {
        return Err("a wildcard cannot be delegated".to_owned());
    }
    if others().any(|(_, other)| other.kind == set.kind) {
        return Err("these records are there twice; put all data into one".to_owned());
    }
    if others().any(|(_, other)| alias(other)) || alias(set) && others().next().is_some() {
        return Err("a CNAME cannot be beside other records".to_owned());
    }
    Ok(())
}

/// Names that are delegated.
fn cuts(apex: &[u8], records: &Named) -> Vec<Arc<[u8]>> {
    let servers = records.iter().filter(|(_, set)| set.kind == kind::NS);
    servers.map(|(name, _)| name.clone()).filter(|name| **name != *apex).collect()
}

/// Whether records are where this zone may have them: where another begins only what leads to it,
/// and below that only addresses of its servers.
fn check_cuts(name: &[u8], kind: u16, cuts: &[Arc<[u8]>]) -> Result<(), String> {
    let is_address = matches!(kind, kind::A | kind::AAAA);
    let above = cuts.iter().find(|cut| name::is_within(name, cut) && ***cut != *name);
    if let Some(cut) = above.filter(|_| !is_address) {
        let cut = name::to_text(cut);
        return Err(format!("{cut} is delegated, so that its servers answer for what is below it"));
    }
    let is_cut = cuts.iter().any(|cut| **cut == *name);
    if is_cut && !is_address && !matches!(kind, kind::NS | kind::DS) {
        return Err("the name is delegated, so that its servers answer for it".to_owned());
    }
    if kind == kind::DS && !is_cut {
        return Err("only a name that has NS records is signed by somebody else".to_owned());
    }
    Ok(())
}

/// Servers that are named where only this zone could tell their addresses, and it does not.
fn unreachable(zone: &str, apex: &[u8], records: &Named, cuts: &[Arc<[u8]>]) -> Vec<String> {
    let mut unreachable = Vec::new();
    for (owner, set) in records.iter().filter(|(_, set)| set.kind == kind::NS) {
        for server in &set.data {
            let is_address = |set: &RrSet| matches!(set.kind, kind::A | kind::AAAA);
            let has_address =
                records.iter().any(|(other, set)| **other == **server && is_address(set));
            // Another delegation may lead to it.
            let elsewhere = cuts.iter().any(|cut| **cut != **owner && name::is_within(server, cut));
            if name::is_within(server, apex) && !elsewhere && !has_address {
                let (server, owner) = (name::to_text(server), name::to_text(owner));
                unreachable.push(format!(
                    "zone {zone}: of the servers of {owner}, {server} has no address, so that a \
                     delegation to it leads nowhere; give it one"
                ));
            }
        }
    }
    unreachable
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
fn add_addresses(server: &Nameserver, apex: &[u8], records: &mut Named) -> Result<(), String> {
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
