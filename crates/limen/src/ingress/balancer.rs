//! A load balancer as the hub has it: an Ingress and a PlacementPolicy of one label.

use anyhow::{Context, Result, bail};
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use limen_api::{
    ClusterName, FederatedStatus, LeafState, OnConflictSpec, PlacementPolicy, PlacementPolicySpec,
    PlacementSpec, RootSelector,
};
use serde_json::json;

/// On the Ingress and on its policy: what the load balancer is called.
pub(super) const LABEL: &str = "limen.dev/load-balancer";
/// Who writes them.
const FIELD_MANAGER: &str = "limen-ingress";

/// A load balancer.
pub(super) struct Balancer {
    pub(super) name: String,
    pub(super) ingress: Ingress,
    /// Where it is meant to be.
    pub(super) clusters: Vec<String>,
    /// Where it is.
    pub(super) spread: Vec<String>,
    /// What its policy says of an Ingress that somebody else has in a cluster.
    pub(super) on_conflict: Option<OnConflictSpec>,
}

impl Balancer {
    pub(super) fn namespace(&self) -> String {
        self.ingress.namespace().unwrap_or_default()
    }

    /// Its addresses; none yet is `<pending>`.
    pub(super) fn address(&self) -> String {
        let status = self.ingress.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let entries = status.and_then(|status| status.ingress.as_ref()).into_iter().flatten();
        let addresses: Vec<String> =
            entries.filter_map(|entry| entry.ip.clone().or(entry.hostname.clone())).collect();
        if addresses.is_empty() { "<pending>".to_owned() } else { addresses.join(",") }
    }
}

/// Refuses names that cannot be labels.
pub(super) fn check_name(name: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends = |c: char| c.is_ascii_alphanumeric();
    let well = !name.is_empty()
        && name.len() <= 50
        && name.chars().all(fits)
        && name.starts_with(ends)
        && name.ends_with(ends);
    match well {
        true => Ok(()),
        false => bail!(
            "{name:?} cannot be the name of a load balancer: take up to 50 lower-case letters, digits and hyphens"
        ),
    }
}

/// The load balancers of a hub; with a name only that one.
pub(super) async fn find(hub: &Client, name: Option<&str>) -> Result<Vec<Balancer>> {
    let selector = match name {
        Some(name) => format!("{LABEL}={name}"),
        None => LABEL.to_owned(),
    };
    let params = ListParams::default().labels(&selector);
    let ingresses: Api<Ingress> = Api::all(hub.clone());
    let ingresses = ingresses.list(&params).await.context("cannot list Ingress objects")?;
    let mut found = Vec::new();
    for ingress in ingresses {
        let name = ingress.labels().get(LABEL).cloned().unwrap_or_default();
        let namespace = ingress.namespace().unwrap_or_default();
        let policies: Api<PlacementPolicy> = Api::namespaced(hub.clone(), &namespace);
        let policy = policies.get_opt(&policy_name(&name)).await;
        let policy = policy.context("cannot read a PlacementPolicy")?;
        let on_conflict = policy.as_ref().and_then(|policy| policy.spec.on_conflict);
        let clusters = policy.and_then(|policy| policy.spec.placement.clusters).unwrap_or_default();
        let record = record(hub, &namespace, &ingress.name_any()).await?;
        let leaves = record.map(|record| record.spec.clusters).unwrap_or_default();
        let there = leaves.into_iter().filter(|leaf| leaf.state == LeafState::Synced);
        found.push(Balancer {
            name,
            ingress,
            clusters: clusters.into_iter().map(|cluster| cluster.name).collect(),
            spread: there.map(|leaf| leaf.cluster).collect(),
            on_conflict,
        });
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The load balancer of a name.
pub(super) async fn existing(hub: &Client, name: &str) -> Result<Balancer> {
    let found = find(hub, Some(name)).await?.into_iter().next();
    found.with_context(|| format!("Load balancer {name} does not exist"))
}

/// What the hub says about the leaves of an Ingress.
pub(super) async fn record(
    hub: &Client,
    namespace: &str,
    ingress: &str,
) -> Result<Option<FederatedStatus>> {
    let records: Api<FederatedStatus> = Api::namespaced(hub.clone(), namespace);
    let record = records.get_opt(&format!("ingress.{ingress}")).await;
    record.with_context(|| format!("cannot read the record of Ingress {namespace}/{ingress}"))
}

pub(super) fn policy_name(balancer: &str) -> String {
    format!("limen-ingress-{balancer}")
}

/// Says which clusters an Ingress goes to.
pub(super) async fn place(
    hub: &Client,
    balancer: &str,
    ingress: &Ingress,
    clusters: &[String],
    on_conflict: Option<OnConflictSpec>,
) -> Result<()> {
    let name = policy_name(balancer);
    let root = RootSelector {
        kind: Some("Ingress".to_owned()),
        name: ingress.metadata.name.clone(),
        ..RootSelector::default()
    };
    let names = clusters.iter().map(|name| ClusterName { name: name.clone() }).collect();
    let spec = PlacementPolicySpec {
        roots: vec![root],
        placement: PlacementSpec { clusters: Some(names), ..PlacementSpec::default() },
        on_conflict,
        ..PlacementPolicySpec::default()
    };
    let mut policy = PlacementPolicy::new(&name, spec);
    policy.metadata.labels = Some([(LABEL.to_owned(), balancer.to_owned())].into());
    let namespace = ingress.namespace().unwrap_or_default();
    let policies: Api<PlacementPolicy> = Api::namespaced(hub.clone(), &namespace);
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let applied = policies.patch(&name, &params, &Patch::Apply(policy)).await;
    applied.map(drop).with_context(|| {
        format!("cannot write the PlacementPolicy {namespace}/{name} (is there such a namespace?)")
    })
}

/// Puts an Ingress on the hub; what it looks like there.
pub(super) async fn submit(hub: &Client, balancer: &str, ingress: &Ingress) -> Result<Ingress> {
    let (name, namespace) = (ingress.name_any(), ingress.namespace().unwrap_or_default());
    let mut object = serde_json::to_value(ingress)?;
    object["apiVersion"] = json!("networking.k8s.io/v1");
    object["kind"] = json!("Ingress");
    object["metadata"]["labels"][LABEL] = json!(balancer);
    let ingresses: Api<Ingress> = Api::namespaced(hub.clone(), &namespace);
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let applied = ingresses.patch(&name, &params, &Patch::Apply(object)).await;
    applied.with_context(|| format!("cannot write the Ingress {namespace}/{name}"))
}
