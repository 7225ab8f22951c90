//! Whether a policy that somebody proposes would be in force for a root.

use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use limen_api::TrafficPolicy;
use limen_core::compile::{TargetReference, governing_policy};

use super::drain::AskError;
use crate::traffic::{RootKind, global_key};

/// Why a proposed policy would not be in force for a compiled root, as namespace/name, if so.
pub async fn hindrance(
    client: &Client,
    proposed: &TrafficPolicy,
    global: &str,
) -> Result<Option<String>, AskError> {
    let namespace = proposed.namespace().unwrap_or_default();
    if !is_for(proposed, &namespace, global) {
        let meant = match &proposed.spec.policy.target_ref {
            Some(TargetReference { kind, name }) => format!("the {kind} {namespace}/{name}"),
            None => format!("the namespace {namespace}"),
        };
        return Ok(Some(format!("it is for {meant}")));
    }
    let policies: Api<TrafficPolicy> = Api::namespaced(client.clone(), &namespace);
    let policies = policies.list(&ListParams::default()).await;
    let read = |error| AskError::Read { what: "TrafficPolicy objects", error };
    let (same, others): (Vec<_>, Vec<_>) = policies
        .map_err(read)?
        .into_iter()
        .partition(|policy| policy.metadata.name == proposed.metadata.name);
    // What replaces a policy is as old as that.
    let mut mine = proposed.clone();
    mine.metadata.creation_timestamp =
        same.into_iter().next().and_then(|policy| policy.metadata.creation_timestamp);
    let candidates = others.iter().chain([&mine]).map(TrafficPolicy::candidate);
    let first = governing_policy(candidates, |target| is_root(target, &namespace, global));
    let first = first.filter(|first| Some(first.name) != mine.metadata.name.as_deref());
    Ok(first.map(|first| format!("the TrafficPolicy {namespace}/{} comes first", first.name)))
}

/// Whether a policy of a namespace means a compiled root.
fn is_for(policy: &TrafficPolicy, namespace: &str, global: &str) -> bool {
    match &policy.spec.policy.target_ref {
        Some(target) => is_root(target, namespace, global),
        None => global.split_once('/').is_some_and(|(of, _)| of == namespace),
    }
}

/// Whether a reference names the root of a GlobalIngress, as namespace/name.
fn is_root(target: &TargetReference, namespace: &str, global: &str) -> bool {
    let kind = match target.kind.as_str() {
        "Ingress" => RootKind::Ingress,
        "FederatedIngress" => RootKind::FederatedIngress,
        "Service" => RootKind::Service,
        _ => return false,
    };
    let (namespace, name) = global_key(&kind.object(namespace, &target.name));
    global == format!("{namespace}/{name}")
}
