//! Every member's way in for one backend.

use super::Members;
use super::member::Member;
use super::missing_backends::{Missing, MissingBackends};
use super::observed::{Key, ObservedIngress, ObservedService, ServiceKind, ServicePort};
use super::policy::{Group, Policy};
use super::root::{BackendSource, Listed, ListedObject, PortName, Root};
use crate::global::{Address, Capacity, Protocol, Target, Verdict, Verdicts};

/// A way in, before it is known whose it is.
#[derive(Default)]
struct TargetAddresses {
    addresses: Vec<Address>,
    local_addresses: Vec<String>,
    protocol: Protocol,
    ready: Option<u32>,
    rate: Option<f64>,
    group: Option<String>,
}

/// The targets of a backend, and what clusters lack to be among them. `old` are those of the last
/// compile.
pub(super) fn of_backend(
    root: &Root,
    policy: &Policy,
    source: &BackendSource,
    members: &Members,
    old: &[Target],
    now: i64,
    findings: &mut Vec<String>,
) -> (Vec<Target>, MissingBackends) {
    let (mut targets, mut missing) = (Vec::new(), MissingBackends::default());
    for (cluster, member) in members {
        if !member.complete() {
            // What is not known to be gone is still there.
            targets.extend(last_known(old, cluster).map(|target| known_again(target, member)));
            continue;
        }
        let ways = match source {
            BackendSource::Service { name, port } => {
                of_leaf(root, policy, (cluster, member), (name, port), findings, &mut missing)
            }
            BackendSource::Balancers => vec![of_balancer(root, member)],
            BackendSource::Listed(all) => {
                let here = all.iter().filter(|listed| listed.cluster == **cluster);
                here.filter_map(|listed| of_listed(member, listed, findings, &mut missing))
                    .collect()
            }
        };
        for way in ways {
            let target = finish(way, cluster, member, policy, now);
            targets.push(unless_newer(target, old));
        }
    }
    for (cluster, member) in members {
        let Some(kind) = member.stale_kind() else { continue };
        if targets.iter().any(|target| target.cluster == **cluster) {
            findings.push(format!(
                "cluster {cluster}: the watch of {} objects fails, so its targets are stale; check the permissions of the hub there",
                kind.name()
            ));
        }
    }
    if targets.is_empty() {
        // The last way in stays, for whoever comes when there is nothing better.
        targets = old.iter().cloned().map(|old| Target { drained_percent: 100, ..old }).collect();
    }
    targets.sort_by(|one, other| (&one.cluster, &one.group).cmp(&(&other.cluster, &other.group)));
    (targets, missing)
}

fn last_known<'a>(old: &'a [Target], cluster: &str) -> impl Iterator<Item = &'a Target> {
    old.iter().filter(move |target| target.cluster == cluster)
}

/// A target of a member that has not been observed yet, with what is known of the member itself.
fn known_again(target: &Target, member: &Member) -> Target {
    let mut target = target.clone();
    target.locality = member.locality.clone();
    target.drained_percent = member.drained_percent;
    target.verdicts.api = member.api;
    target.verdicts.lost_kind = member.stale_kind().map(|kind| kind.name().to_owned());
    target.verdicts.edge = member.edge_verdict(&target.addresses);
    if target.verdicts.is_stale() {
        target.verdicts.endpoints = Verdict::Unknown;
    }
    target
}

/// The ways into a member that holds a leaf of the root.
fn of_leaf(
    root: &Root,
    policy: &Policy,
    (cluster, member): (&str, &Member),
    (name, port): (&str, &PortName),
    findings: &mut Vec<String>,
    missing: &mut MissingBackends,
) -> Vec<TargetAddresses> {
    let key = (root.namespace.clone(), root.reference.name.clone());
    let leaf = member.ingress(&key).filter(|leaf| leaf.root_uid.as_ref() == Some(&root.uid));
    let Some(leaf) = leaf else { return Vec::new() };
    let groups: Vec<Option<&Group>> = match policy.groups_of(cluster).map(Some).collect::<Vec<_>>()
    {
        none if none.is_empty() => vec![None],
        some => some,
    };
    let mut ways = Vec::new();
    for group in groups {
        let other = group.and_then(|group| group.service.as_deref());
        let service = (root.namespace.clone(), other.unwrap_or(name).to_owned());
        // The member's Ingress leads to the Service that the root names, and to no other.
        let leaf = Some(leaf).filter(|_| other.is_none());
        let mut way = match of_service(member, &service, port, leaf) {
            Ok(way) => way,
            Err(part) => {
                missing.note(&service, part, cluster);
                continue;
            }
        };
        if way.ready == Some(0) {
            missing.note(&service, Missing::Pods, cluster);
        }
        if let Some(group) = group {
            way.group = Some(group.name.clone());
        }
        if way.addresses.is_empty() && way.ready != Some(0) {
            findings.push(format!(
                "cluster {cluster} has ready endpoints of {}/{} and no way in: no ingress address, no load balancer, no node port, and its pod network is not said to be reachable",
                service.0, service.1
            ));
        }
        ways.push(way);
    }
    ways
}

/// The load balancer of a member's leaf. A member without one has a target all the same: its
/// clients have names to ask for, too.
fn of_balancer(root: &Root, member: &Member) -> TargetAddresses {
    let key = (root.namespace.clone(), root.reference.name.clone());
    let leaf = member.service(&key).filter(|leaf| leaf.root_uid.as_ref() == Some(&root.uid));
    let Some(leaf) = leaf else {
        return TargetAddresses { ready: Some(0), ..TargetAddresses::default() };
    };
    // A name has no port; the first is as good as any.
    let port = leaf.ports.first().map_or(0, |port| port.port);
    let hosts = leaf.balancers.iter().map(|host| Address { host: host.clone(), port });
    let mut addresses: Vec<_> = hosts.collect();
    addresses.sort();
    let local_addresses = leaf.cluster_ips.clone();
    TargetAddresses {
        addresses,
        local_addresses,
        ready: Some(member.ready_endpoints(&key)),
        ..TargetAddresses::default()
    }
}

fn of_listed(
    member: &Member,
    listed: &Listed,
    findings: &mut Vec<String>,
    missing: &mut MissingBackends,
) -> Option<TargetAddresses> {
    let group = listed.group_name();
    let way = match &listed.object {
        ListedObject::Service(key, port) => {
            let way = of_service(member, key, port, None).ok();
            if way.as_ref().is_some_and(|way| way.ready == Some(0)) {
                missing.note(key, Missing::Pods, &listed.cluster);
            }
            way
        }
        ListedObject::Ingress(key) => member.ingress(key).map(|ingress| {
            let (addresses, protocol) = served(ingress);
            TargetAddresses { addresses, protocol, ..TargetAddresses::default() }
        }),
    };
    if way.is_none() {
        let (ListedObject::Ingress(key) | ListedObject::Service(key, _)) = &listed.object;
        findings.push(format!("cluster {} has no {}/{}", listed.cluster, key.0, key.1));
    }
    way.map(|way| TargetAddresses { group: group.or(way.group.clone()), ..way })
}

/// The way to a port of a Service: straight to its pods where edges reach them, else through the
/// member's Ingress, else by the Service's load balancer, else by node ports.
fn of_service(
    member: &Member,
    key: &Key,
    port: &PortName,
    leaf: Option<&ObservedIngress>,
) -> Result<TargetAddresses, Missing> {
    let service = member.service(key).ok_or(Missing::Service)?;
    let port = find_port(service, port).ok_or(Missing::Port)?;
    let ready = match service.kind {
        ServiceKind::ExternalName => None,
        _ => Some(member.ready_endpoints(key)),
    };
    let way = |addresses: Vec<Address>, protocol: Protocol| TargetAddresses {
        addresses,
        protocol,
        ready,
        rate: service.rate,
        group: service.group.clone(),
        local_addresses: Vec::new(),
    };
    if let Some(name) = &service.external_name
        && service.kind == ServiceKind::ExternalName
    {
        let address = Address { host: name.clone(), port: port.port };
        return Ok(way(vec![address], port.protocol));
    }
    if member.pods_reachable {
        return Ok(way(member.pods(key, &port.name), port.protocol));
    }
    if let Some(leaf) = leaf.filter(|leaf| !leaf.addresses.is_empty()) {
        let (addresses, protocol) = served(leaf);
        return Ok(way(addresses, protocol));
    }
    if !service.balancers.is_empty() {
        let mut hosts: Vec<_> = service
            .balancers
            .iter()
            .map(|host| Address { host: host.clone(), port: port.port })
            .collect();
        hosts.sort();
        return Ok(way(hosts, port.protocol));
    }
    let nodes = port.node_port.map(|number| member.node_ports(number)).unwrap_or_default();
    Ok(way(nodes, port.protocol))
}

fn find_port<'a>(service: &'a ObservedService, wanted: &PortName) -> Option<&'a ServicePort> {
    service.ports.iter().find(|port| match wanted {
        PortName::Name(name) => port.name == *name,
        PortName::Number(number) => port.port == *number,
    })
}

/// The addresses of an Ingress that speak the same as the first.
fn served(ingress: &ObservedIngress) -> (Vec<Address>, Protocol) {
    let protocol = ingress.addresses.first().map_or(Protocol::Http, |(_, protocol)| *protocol);
    let same = ingress.addresses.iter().filter(|(_, other)| *other == protocol);
    let mut addresses: Vec<_> = same.map(|(address, _)| address.clone()).collect();
    addresses.sort();
    addresses.dedup();
    (addresses, protocol)
}

/// Requests in a second that a target takes: the fixed figure of the policy for its cluster, or
/// its ready endpoints times the rate that its Service declares, or else times the policy's rate.
pub(super) fn capacity_of(
    policy: Option<&super::policy::Capacity>,
    cluster: &str,
    service_rate: Option<f64>,
    ready: Option<u32>,
) -> Option<f64> {
    let fixed = policy.and_then(|policy| policy.clusters.get(cluster).copied());
    let rate = service_rate.or_else(|| policy?.requests_per_endpoint);
    fixed.or_else(|| Some(rate? * f64::from(ready?)))
}

fn finish(
    way: TargetAddresses,
    cluster: &str,
    member: &Member,
    policy: &Policy,
    now: i64,
) -> Target {
    let capacity = capacity_of(policy.capacity.as_ref(), cluster, way.rate, way.ready);
    let lost_kind = member.stale_kind();
    let endpoints = match way.ready {
        _ if member.api == Verdict::Unhealthy || lost_kind.is_some() => Verdict::Unknown,
        None => Verdict::Unknown,
        Some(0) => Verdict::Unhealthy,
        Some(_) => Verdict::Healthy,
    };
    Target {
        cluster: cluster.to_owned(),
        locality: member.locality.clone(),
        protocol: way.protocol,
        group: way.group,
        ready_endpoints: way.ready,
        requests_per_endpoint: way.rate,
        capacity: Capacity { requests_per_second: capacity },
        drained_percent: member.drained_percent,
        verdicts: Verdicts {
            api: member.api,
            edge: member.edge_verdict(&way.addresses),
            endpoints,
            lost_kind: lost_kind.map(|kind| kind.name().to_owned()),
            observed_at: Some(now),
        },
        addresses: way.addresses,
        local_addresses: way.local_addresses,
    }
}

/// The time of an observation is that of its last change: what is the same is not written again.
fn unless_newer(target: Target, old: &[Target]) -> Target {
    let same = old.iter().find(|old| old.cluster == target.cluster && old.group == target.group);
    let Some(same) = same else { return target };
    let mut timeless = target.clone();
    timeless.verdicts.observed_at = same.verdicts.observed_at;
    // An observation that is stale is as old as it was.
    let heard = !target.verdicts.is_stale();
    if heard && timeless != *same { target } else { timeless }
}
