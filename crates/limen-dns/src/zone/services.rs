//! Names of federated Services, from `limen_core::service_names` to records.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use limen_api::source::Key;
use limen_core::decide::{OwnKnowledge, Readiness, readiness};
use limen_core::global::Global;
use limen_core::service_names::{Leads, service_names};

use super::host::Ttls;
use super::records::RrSet;
use crate::knowledge::Knowledge;
use crate::wire::{kind, name};

/// The zone that the names of a federation end in.
pub(super) struct Federation<'a> {
    pub(super) name: &'a str,
    pub(super) zone: &'a str,
    pub(super) ttls: Ttls,
}

/// What the names of Services make of a zone.
#[derive(Default)]
pub(super) struct Services {
    pub(super) records: BTreeMap<Arc<[u8]>, Vec<RrSet>>,
    /// Host names of load balancers whose addresses have to be known.
    pub(super) lookups: BTreeSet<String>,
    pub(super) problems: Vec<String>,
}

impl Services {
    /// Adds the names of all Services of a federation.
    pub(super) fn add(
        &mut self,
        globals: &BTreeMap<Key, Arc<Global>>,
        federation: &Federation<'_>,
        knowledge: &Knowledge,
    ) {
        for (key, global) in globals {
            self.add_one(key, global, federation, knowledge);
        }
    }

    /// Adds the names of one Service, if it is one.
    pub(super) fn add_one(
        &mut self,
        (namespace, _): &Key,
        global: &Global,
        federation: &Federation<'_>,
        knowledge: &Knowledge,
    ) {
        let Some(root) = global.root.as_ref().filter(|root| root.kind == "Service") else { return };
        let Some(backend) = global.backends.first() else { return };
        let well = |target| readiness(target, OwnKnowledge::None) == Readiness::Ready;
        let Ttls { calm, trouble } = federation.ttls;
        let ttl = if backend.targets.iter().all(well) { calm } else { trouble.min(calm) };
        let names = service_names(namespace, &root.name, federation.name, &backend.targets);
        for (text, leads) in names {
            match self.name(&text, leads, federation.zone, ttl, knowledge) {
                Ok((name, sets)) => drop(self.records.insert(name, sets)),
                Err(error) => {
                    self.problems.push(format!("Service {namespace}/{}: {error}", root.name));
                }
            }
        }
    }

    fn name(
        &mut self,
        text: &str,
        leads: Leads,
        zone: &str,
        ttl: u32,
        knowledge: &Knowledge,
    ) -> Result<(Arc<[u8]>, Vec<RrSet>), String> {
        let name = name::from_text(&format!("{text}.{zone}"))?.into();
        let hosts = match leads {
            Leads::Up(up) => {
                let up = name::from_text(&format!("{up}.{zone}"))?;
                return Ok((name, vec![alias(up, ttl)]));
            }
            Leads::To(hosts) => hosts,
        };
        let mut found: BTreeSet<IpAddr> = BTreeSet::new();
        for host in &hosts {
            match host.parse::<IpAddr>() {
                Ok(address) => drop(found.insert(address)),
                // Alone it can be an alias; beside others only its addresses can be named.
                Err(_) if hosts.len() > 1 => {
                    found.extend(knowledge.resolved(host));
                    self.lookups.insert(host.clone());
                }
                Err(_) => {}
            }
        }
        let Some(first) = hosts.first().filter(|_| found.is_empty()) else {
            return Ok((name, addresses(&found, ttl)));
        };
        Ok((name, vec![alias(name::from_text(first)?, ttl)]))
    }
}

fn alias(to: Box<[u8]>, ttl: u32) -> RrSet {
    RrSet { kind: kind::CNAME, ttl, data: vec![to] }
}

fn addresses(found: &BTreeSet<IpAddr>, ttl: u32) -> Vec<RrSet> {
    let (mut four, mut six) = (Vec::new(), Vec::new());
    for address in found {
        match address {
            IpAddr::V4(address) => four.push(address.octets().as_slice().into()),
            IpAddr::V6(address) => six.push(address.octets().as_slice().into()),
        }
    }
    let sets = [(kind::A, four), (kind::AAAA, six)].into_iter();
    sets.filter(|(_, data)| !data.is_empty())
        .map(|(kind, data)| RrSet { kind, ttl, data })
        .collect()
}
