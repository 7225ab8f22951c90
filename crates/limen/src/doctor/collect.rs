//! Collecting facts. Everything is read; nothing is changed.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::SocketAddr;

use futures::{StreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::ListParams;
use kube::{Api, Client, Config, Resource, ResourceExt};
use limen_api::{
    Cluster, DnsZone, Edge, FederatedStatus, FederatedType, LeafState, NAMESPACE, PlacementPolicy,
    TrafficPolicy, error_text,
};
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;

use super::facts::{self, Answer, Facts, Leader};
use super::look::{PATIENCE, certificate_ends, credential_ends, version};
use super::{Questions, ask, members};

/// How much is looked at at the same time.
pub(super) const TOGETHER: usize = 8;

/// Everything that can be found out about a federation whose hub answers.
pub(super) async fn collect(hub: &Client, config: &Config, questions: &Questions) -> Facts {
    let mut facts = Facts { now: jiff::Timestamp::now().as_second(), ..Facts::default() };
    facts.hub.url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    match version(hub).await {
        Ok((version, clock_ahead)) => {
            facts.hub.version = version;
            facts.hub.clock_ahead = clock_ahead;
        }
        Err(why) => facts.hub.silent = Some(why),
    }
    facts.hub.certificate_ends = certificate_ends(config).await;
    facts.hub.credential_ends = credential_ends(&config.auth_info);
    definitions(hub, &mut facts).await;
    leader(hub, &mut facts).await;
    let clusters: Vec<Cluster> = list(hub, "members", &mut facts).await;
    let types: Vec<FederatedType> = list(hub, "federated types", &mut facts).await;
    facts.members = stream::iter(clusters)
        .map(|cluster| members::look(hub, cluster, &types))
        .buffered(TOGETHER)
        .collect()
        .await;
    let edges: Vec<Edge> = list(hub, "edges", &mut facts).await;
    // Those that have said that they end are missed by nobody.
    let running =
        edges.into_iter().filter(|edge| !edge.status.as_ref().is_some_and(|it| it.stopping));
    facts.edges = stream::iter(running).map(edge).buffered(TOGETHER).collect().await;
    let zones: Vec<DnsZone> = list(hub, "zones", &mut facts).await;
    let zone = |found: DnsZone| zone(found, questions);
    facts.zones = stream::iter(zones).map(zone).buffered(TOGETHER).collect().await;
    let records: Vec<FederatedStatus> = list(hub, "roots", &mut facts).await;
    facts.roots = records.iter().filter_map(root).collect();
    let placements: Vec<PlacementPolicy> = list(hub, "placement policies", &mut facts).await;
    for policy in &placements {
        let conditions = policy.status.as_ref().map_or(&[][..], |status| &status.conditions);
        facts.policies.extend(refused("PlacementPolicy", policy, conditions, "Valid"));
    }
    let traffic: Vec<TrafficPolicy> = list(hub, "traffic policies", &mut facts).await;
    for policy in &traffic {
        let conditions = policy.status.as_ref().map_or(&[][..], |status| &status.conditions);
        facts.policies.extend(refused("TrafficPolicy", policy, conditions, "Accepted"));
    }
    facts
}

/// All objects of a kind. A kind that the hub does not know is said by the check of definitions.
async fn list<K>(hub: &Client, what: &'static str, facts: &mut Facts) -> Vec<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    match Api::<K>::all(hub.clone()).list(&ListParams::default()).await {
        Ok(found) => found.items,
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => {
            facts.unread.push((what, error_text(&error)));
            Vec::new()
        }
    }
}

async fn definitions(hub: &Client, facts: &mut Facts) {
    let definitions: Vec<CustomResourceDefinition> = list(hub, "definitions", facts).await;
    if facts.unread("definitions").is_some() {
        return;
    }
    let made: BTreeMap<String, Option<String>> = definitions
        .iter()
        .map(|one| (one.name_any(), one.annotations().get(limen_hub::MADE_ANNOTATION).cloned()))
        .collect();
    for (name, mark) in limen_hub::definition_marks() {
        match made.get(&name) {
            None => facts.hub.missing_definitions.push(name),
            Some(found) if found.as_ref() != Some(&mark) => facts.hub.other_definitions.push(name),
            Some(_) => {}
        }
    }
}

async fn leader(hub: &Client, facts: &mut Facts) {
    let leases: Api<Lease> = Api::namespaced(hub.clone(), NAMESPACE);
    let spec = match leases.get_opt("limen-hub").await {
        Ok(lease) => lease.and_then(|lease| lease.spec),
        Err(error) => return facts.unread.push(("leader", error_text(&error))),
    };
    facts.hub.leader = spec.map(|spec| Leader {
        name: spec.holder_identity.unwrap_or_default(),
        renewed: spec.renew_time.map_or(0, |time| time.0.as_second()),
        lasts: spec.lease_duration_seconds.unwrap_or(15).into(),
    });
}

async fn edge(edge: Edge) -> facts::Edge {
    let mut addresses = Vec::new();
    for address in &edge.spec.addresses {
        addresses.push((address.clone(), connect(address, &edge.spec.ports).await));
    }
    facts::Edge { name: edge.name_any(), reported: edge.reported_at(), addresses }
}

/// Whether something takes connections: at the port that is named; else at those that the edge has
/// itself, or, where something stands before it, at those of the web.
async fn connect(address: &str, own: &[u16]) -> Result<(), String> {
    let named = match address.parse::<SocketAddr>() {
        Ok(address) => vec![(address.ip().to_string(), address.port())],
        Err(_) => {
            let web = [443, 80].into_iter().filter(|port| !own.contains(port));
            own.iter().copied().chain(web).map(|port| (address.to_owned(), port)).collect()
        }
    };
    let mut tried = Vec::new();
    for (host, port) in named {
        match tokio::time::timeout(PATIENCE, TcpStream::connect((host.as_str(), port))).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => tried.push(format!("port {port}: {error}")),
            Err(_) => tried.push(format!("port {port}: it is silent")),
        }
    }
    Err(tried.join("; "))
}

async fn zone(zone: DnsZone, questions: &Questions) -> facts::Zone {
    let name = zone.spec.zone.clone();
    let mut servers = Vec::new();
    for server in &zone.spec.nameservers {
        let mut addresses = Vec::new();
        for address in &server.addresses {
            addresses.push((address.clone(), authority(address, &name, questions).await));
        }
        servers.push(facts::Server { name: server.name.clone(), addresses });
    }
    let delegated = match questions.resolver() {
        Err(why) => Err(why),
        Ok(resolver) => ask::ask(resolver, &name, ask::NS).await.map(|reply| reply.servers),
    };
    facts::Zone { name, servers, delegated: Some(delegated) }
}

async fn authority(address: &str, zone: &str, questions: &Questions) -> Result<Answer, String> {
    let ip = address.parse().map_err(|_| "it is not an address".to_owned())?;
    let reply = ask::ask(SocketAddr::new(ip, questions.dns_port), zone, ask::SOA).await?;
    Ok(match (reply.code, reply.authoritative) {
        (0, true) => Answer::Authoritative,
        (0, false) => Answer::NotAuthoritative,
        (code, _) => Answer::Refused(code),
    })
}

/// A root that is not as it should be.
fn root(record: &FederatedStatus) -> Option<facts::Root> {
    let spec = &record.spec;
    let of = |state: LeafState| {
        let leaves = spec.clusters.iter().filter(move |leaf| leaf.state == state);
        leaves.map(|leaf| leaf.cluster.clone()).collect::<Vec<_>>()
    };
    let failed = spec.clusters.iter().filter(|leaf| leaf.state == LeafState::Failed);
    let root = facts::Root {
        name: format!("{}/{}", spec.root.kind.to_lowercase(), spec.root.name),
        namespace: record.namespace().unwrap_or_default(),
        message: spec.message.clone(),
        held: of(LeafState::Held),
        conflicts: of(LeafState::Conflict),
        failed: failed.map(|leaf| (leaf.cluster.clone(), leaf.message.clone())).collect(),
    };
    let well = root.held.is_empty()
        && root.conflicts.is_empty()
        && root.failed.is_empty()
        && !root.message.starts_with("held: ");
    (!well).then_some(root)
}

/// A policy that the hub has refused.
fn refused<K: Resource>(
    kind: &'static str,
    policy: &K,
    conditions: &[Condition],
    wanted: &str,
) -> Option<facts::Policy> {
    let condition = conditions.iter().find(|one| one.type_ == wanted && one.status == "False")?;
    let name = format!("{}/{}", policy.namespace().unwrap_or_default(), policy.name_any());
    Some(facts::Policy { kind, name, message: condition.message.clone() })
}
