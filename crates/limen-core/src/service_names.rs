//! The DNS names of a federated Service: one for each zone, each region and all together.
//!
//! ```text
//! <service>.<namespace>.<federation>.svc.<cluster>.cluster   the cluster's own address, for clients in it
//!              │ nothing ready there
//!              ▼
//! <service>.<namespace>.<federation>.svc.<zone>.<region>     the shards of the zone
//!              ▼
//! <service>.<namespace>.<federation>.svc.<region>            the shards of the region
//!              ▼
//! <service>.<namespace>.<federation>.svc                     all shards
//! ```
//!
//! A level with shards names their addresses; one without is an alias of the next. A shard counts
//! when it has a load balancer and a ready endpoint. Where nothing counts there is no name at all,
//! and so no alias that would lead nowhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::decide::{OwnKnowledge, Readiness, readiness};
use crate::global::Target;

/// What a name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leads {
    /// Addresses, or host names that stand for some, sorted.
    To(BTreeSet<String>),
    /// Another of the names.
    Up(String),
}

/// Every name of a Service, without the zone at its end. `targets` has one for each member, also
/// for those that hold no shard.
pub fn service_names(
    namespace: &str,
    service: &str,
    federation: &str,
    targets: &[Target],
) -> BTreeMap<String, Leads> {
    let best = targets.iter().filter(|target| counts(target)).map(state).min();
    let usable: Vec<&Target> =
        targets.iter().filter(|target| counts(target) && Some(state(target)) == best).collect();
    let top = format!("{service}.{namespace}.{federation}.svc");
    let everywhere = addresses(usable.iter().copied());
    let mut names = BTreeMap::new();
    let mut level = |name: &str, found: BTreeSet<String>, up: &str| {
        if !found.is_empty() {
            names.insert(name.to_owned(), Leads::To(found));
        } else if !everywhere.is_empty() {
            names.insert(name.to_owned(), Leads::Up(up.to_owned()));
        }
    };
    for target in targets {
        let mut above = top.clone();
        let (region, zone) = (&target.locality.region, &target.locality.zone);
        if let Some(region) = region {
            let name = format!("{top}.{region}");
            let here = |one: &&&Target| one.locality.region.as_ref() == Some(region);
            level(&name, addresses(usable.iter().filter(here).copied()), &above);
            above = name;
            if let Some(zone) = zone {
                let name = format!("{top}.{zone}.{region}");
                let here = |one: &&&Target| {
                    one.locality.region.as_ref() == Some(region)
                        && one.locality.zone.as_ref() == Some(zone)
                };
                level(&name, addresses(usable.iter().filter(here).copied()), &above);
                above = name;
            }
        }
        let own = match serves_its_own(target) {
            true => target.local_addresses.iter().cloned().collect(),
            false => BTreeSet::new(),
        };
        level(&format!("{top}.{}.cluster", target.cluster), own, &above);
    }
    if !everywhere.is_empty() {
        names.insert(top, Leads::To(everywhere));
    }
    names
}

/// A load balancer, and a ready endpoint behind it.
fn counts(target: &Target) -> bool {
    !target.addresses.is_empty() && target.ready_endpoints.is_some_and(|ready| ready > 0)
}

/// Clients inside a cluster need no load balancer.
fn serves_its_own(target: &Target) -> bool {
    target.ready_endpoints.is_some_and(|ready| ready > 0) && target.drained_percent < 100
}

fn state(target: &Target) -> Readiness {
    readiness(target, OwnKnowledge::None)
}

fn addresses<'a>(targets: impl Iterator<Item = &'a Target>) -> BTreeSet<String> {
    targets.flat_map(|target| &target.addresses).map(|address| address.host.clone()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::global::Address;
    use crate::locality::Locality;

    fn shard(cluster: &str, region: &str, zone: &str, address: &str, ready: u32) -> Target {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let locality = Locality { region: text(region), zone: text(zone), coordinates: None };
        let addresses = text(address).map(|host| Address { host, port: 80 });
        Target {
            cluster: cluster.to_owned(),
            locality,
            addresses: addresses.into_iter().collect(),
            local_addresses: vec![format!("10.0.0.{}", cluster.len())],
            ready_endpoints: Some(ready),
            ..Target::default()
        }
    }

    fn lines(targets: &[Target]) -> Vec<String> {
        let line = |(name, leads)| match leads {
            Leads::To(found) => format!("{name} = {}", Vec::from_iter(found).join(" ")),
            Leads::Up(up) => format!("{name} > {up}"),
        };
        service_names("shop", "web", "fed", targets).into_iter().map(line).collect()
    }

    #[test]
    fn each_level_names_its_own_shards() {
        let targets = [
            shard("a", "eu", "eu-1", "192.0.2.1", 2),
            shard("bb", "eu", "eu-2", "192.0.2.2", 1),
            shard("ccc", "us", "", "2001:db8::3", 1),
        ];
        assert_eq!(
            lines(&targets),
            [
                "web.shop.fed.svc = 192.0.2.1 192.0.2.2 2001:db8::3",
                "web.shop.fed.svc.a.cluster = 10.0.0.1",
                "web.shop.fed.svc.bb.cluster = 10.0.0.2",
                "web.shop.fed.svc.ccc.cluster = 10.0.0.3",
                "web.shop.fed.svc.eu = 192.0.2.1 192.0.2.2",
                "web.shop.fed.svc.eu-1.eu = 192.0.2.1",
                "web.shop.fed.svc.eu-2.eu = 192.0.2.2",
                "web.shop.fed.svc.us = 2001:db8::3",
            ]
        );
    }

    #[test]
    fn a_level_without_shards_leads_one_up() {
        let targets = [
            shard("a", "eu", "eu-1", "192.0.2.1", 0),
            shard("bb", "us", "us-1", "192.0.2.2", 1),
            shard("ccc", "us", "us-2", "", 1),
        ];
        assert_eq!(
            lines(&targets),
            [
                "web.shop.fed.svc = 192.0.2.2",
                "web.shop.fed.svc.a.cluster > web.shop.fed.svc.eu-1.eu",
                "web.shop.fed.svc.bb.cluster = 10.0.0.2",
                "web.shop.fed.svc.ccc.cluster = 10.0.0.3",
                "web.shop.fed.svc.eu > web.shop.fed.svc",
                "web.shop.fed.svc.eu-1.eu > web.shop.fed.svc.eu",
                "web.shop.fed.svc.us = 192.0.2.2",
                "web.shop.fed.svc.us-1.us = 192.0.2.2",
                "web.shop.fed.svc.us-2.us > web.shop.fed.svc.us",
            ]
        );
    }

    #[test]
    fn where_nothing_counts_there_is_no_name() {
        assert!(lines(&[shard("a", "eu", "eu-1", "192.0.2.1", 0)]).is_empty());
    }

    #[test]
    fn a_drained_cluster_is_named_only_when_there_is_no_other() {
        let mut targets =
            [shard("a", "eu", "", "192.0.2.1", 1), shard("bb", "us", "", "192.0.2.2", 1)];
        targets[0].drained_percent = 100;
        assert_eq!(lines(&targets)[0], "web.shop.fed.svc = 192.0.2.2");
        assert_eq!(lines(&targets)[1], "web.shop.fed.svc.a.cluster > web.shop.fed.svc.eu");
        targets[1].ready_endpoints = Some(0);
        assert_eq!(lines(&targets)[0], "web.shop.fed.svc = 192.0.2.1");
    }

    proptest! {
        #[test]
        fn no_alias_ever_leads_nowhere(
            shards in proptest::collection::vec((0..3_usize, 0..3_usize, 0..3_u32, any::<bool>(), 0..2_u8), 0..6),
        ) {
            let targets: Vec<Target> = shards.iter().enumerate().map(|(index, (region, zone, ready, balanced, drained))| {
                let place = |at: &usize, of: [&'static str; 3]| of[*at];
                let address = if *balanced { format!("192.0.2.{index}") } else { String::new() };
                let mut target = shard(&format!("c{index}"), place(region, ["", "eu", "us"]), place(zone, ["", "1", "2"]), &address, *ready);
                target.drained_percent = drained * 100;
                target
            }).collect();
            let names = service_names("shop", "web", "fed", &targets);
            for leads in names.values() {
                let mut leads = leads;
                for _ in 0..4 {
                    let Leads::Up(up) = leads else { break };
                    leads = names.get(up).expect("an alias leads to a name that exists");
                }
                prop_assert!(matches!(leads, Leads::To(found) if !found.is_empty()));
            }
        }
    }
}
