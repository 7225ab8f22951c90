//! How traffic to a root is shared: as it is, as it would be, and changed.
//!
//! A wish becomes the root's `TrafficPolicy`: the one that it has, or a new one that takes over
//! what the policy of the namespace says. Everything else that a policy says stays.

use std::collections::BTreeMap;

use http::StatusCode;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use limen_api::{GlobalIngress, TrafficPolicy, TrafficPolicySpec};
use limen_core::compile::{
    Group, Policy, PolicyCandidate, TargetReference, Trial, Weights, governing_policy,
};
use limen_core::global::Global;
use limen_hub::TrafficSnapshot;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::Refusal;
use crate::clients::entrance;

/// The groups of a canary that was begun here.
const STABLE: &str = "stable";
const CANARY: &str = "canary";

/// Share traffic to a root differently.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ShareWish {
    namespace: String,
    /// The GlobalIngress of the root.
    global: String,
    how: How,
    #[serde(default)]
    preview: bool,
}

/// How traffic is to be shared.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum How {
    /// Everybody goes to the nearest.
    Nearest,
    /// Exact shares by cluster.
    Weights(BTreeMap<String, u32>),
    /// Some clusters run something new, and get more and more while they do well.
    #[serde(rename_all = "camelCase")]
    Canary { clusters: Vec<String>, steps: Vec<u8>, step_seconds: u32, min_success_percent: f64 },
}

pub(crate) async fn share(client: &Client, wish: ShareWish) -> Result<Value, Refusal> {
    let ShareWish { namespace, global: name, how, preview } = wish;
    let globals: Api<GlobalIngress> = Api::namespaced(client.clone(), &namespace);
    let global = globals.get(&name).await?.spec.global;
    let root = global.root.clone().ok_or_else(|| {
        let message = format!("GlobalIngress {name} was written by hand; change it itself");
        Refusal::new(StatusCode::CONFLICT, message)
    })?;
    let target = TargetReference { kind: root.kind, name: root.name };
    let api: Api<TrafficPolicy> = Api::namespaced(client.clone(), &namespace);
    let policies = api.list(&ListParams::default()).await?.items;
    let own = first_for(&policies, Some(&target));
    let base = own.or_else(|| first_for(&policies, None));
    let base = base.map(|policy| policy.spec.policy.clone()).unwrap_or_default();
    let policy = changed(base, &target, &how, &global)?;

    let picture = TrafficSnapshot::read(client).await?;
    let (gateway, vantage) = picture.vantage(None, &[])?;
    let entrance = entrance(&global);
    let odds = |picture: &TrafficSnapshot| -> Vec<Value> {
        let asked = picture.ask((&entrance.0, &entrance.1), &[], &vantage);
        let odds = asked.map(|asked| asked.explanation.odds).unwrap_or_default();
        odds.into_iter().map(|odds| json!(odds)).collect()
    };
    let before = odds(&picture);
    let picture = picture
        .with_policy(&format!("{namespace}/{name}"), &policy)
        .map_err(|problem| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, problem))?;
    let after = odds(&picture);
    let written = own.map_or_else(|| new_name(&policies, &target.name), ResourceExt::name_any);
    if let Some(first) = policy_before(&policies, &written, &target) {
        let message = format!(
            "the TrafficPolicy {namespace}/{first} stays in force for this root; change or delete it first"
        );
        return Err(Refusal::new(StatusCode::CONFLICT, message));
    }
    if !preview {
        write(&api, own, &written, policy).await?;
    }
    Ok(json!({
        "policy": written, "creates": own.is_none(),
        "gateway": gateway.as_deref().unwrap_or("no gateway"),
        "before": before, "after": after,
    }))
}

/// The first policy whose spec names a target, or a whole namespace.
fn first_for<'a>(
    policies: &'a [TrafficPolicy],
    target: Option<&TargetReference>,
) -> Option<&'a TrafficPolicy> {
    let same = policies.iter().map(TrafficPolicy::candidate).filter(|one| one.target == target);
    let first = governing_policy(same, |_| true)?;
    policies.iter().find(|policy| policy.metadata.name.as_deref() == Some(first.name))
}

/// The policy in force that keeps the one of this name, written for the target, from governing it.
fn policy_before<'a>(
    policies: &'a [TrafficPolicy],
    written: &str,
    target: &TargetReference,
) -> Option<&'a str> {
    let is_written = |policy: &&TrafficPolicy| policy.metadata.name.as_deref() == Some(written);
    let created = policies.iter().find(is_written);
    let created = created.and_then(|policy| policy.metadata.creation_timestamp.as_ref());
    let mine = PolicyCandidate { name: written, created, target: Some(target) };
    let others = policies.iter().filter(|policy| !is_written(policy));
    let others = others.filter_map(TrafficPolicy::candidate_in_force);
    let first = governing_policy(others, |named| named == target)?;
    first.precedes(&mine).then_some(first.name)
}

fn new_name(policies: &[TrafficPolicy], root: &str) -> String {
    match policies.iter().any(|policy| policy.name_any() == root) {
        true => format!("{root}-traffic"),
        false => root.to_owned(),
    }
}

/// A policy that says the same but for who gets how much.
fn changed(
    base: Policy,
    target: &TargetReference,
    how: &How,
    global: &Global,
) -> Result<Policy, Refusal> {
    let plain = Policy {
        target_ref: Some(target.clone()),
        groups: Vec::new(),
        matches: Vec::new(),
        weights: None,
        canary: None,
        active_group: None,
        ..base
    };
    Ok(match how {
        How::Nearest => plain,
        How::Weights(clusters) => {
            let weights = Weights { clusters: clusters.clone(), groups: BTreeMap::new() };
            Policy { weights: Some(weights), ..plain }
        }
        How::Canary { clusters, steps, step_seconds, min_success_percent } => {
            let targets = global.backends.iter().flat_map(|backend| &backend.targets);
            let mut others: Vec<String> = targets.map(|target| target.cluster.clone()).collect();
            others.sort();
            others.dedup();
            others.retain(|cluster| !clusters.contains(cluster));
            if clusters.is_empty() || others.is_empty() {
                let message = "a canary needs clusters that run it, and others that do not";
                return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, message));
            }
            let group = |name: &str, clusters: Vec<String>| Group {
                name: name.to_owned(),
                clusters,
                service: None,
            };
            let trial = Trial {
                group: CANARY.to_owned(),
                steps: steps.clone(),
                step_seconds: *step_seconds,
                min_success_percent: Some(*min_success_percent),
                min_requests: 20,
                ..Trial::default()
            };
            let groups = vec![group(STABLE, others), group(CANARY, clusters.clone())];
            Policy { groups, canary: Some(trial), ..plain }
        }
    })
}

async fn write(
    api: &Api<TrafficPolicy>,
    own: Option<&TrafficPolicy>,
    name: &str,
    policy: Policy,
) -> Result<(), Refusal> {
    let Some(own) = own else {
        let object = TrafficPolicy::new(name, TrafficPolicySpec { policy });
        api.create(&PostParams::default(), &object).await?;
        return Ok(());
    };
    // What is not there any more has to be taken away by name.
    let said = json!(policy);
    let field = |name: &str| said.get(name).cloned().unwrap_or_default();
    let fields = ["groups", "matches", "weights", "canary", "activeGroup"];
    let spec: serde_json::Map<String, Value> =
        fields.iter().map(|name| ((*name).to_owned(), field(name))).collect();
    // Whoever changed it since it was looked at wins.
    let patch = json!({"metadata": {"resourceVersion": own.resource_version()}, "spec": spec});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str, spec: &Value) -> TrafficPolicy {
        let object = json!({
            "apiVersion": "limen.dev/v1alpha1", "kind": "TrafficPolicy",
            "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec});
        serde_json::from_value(object).unwrap()
    }

    fn global() -> Global {
        serde_json::from_value(json!({
            "rules": [{"host": "*.shop.example", "paths": [{"path": "/cart", "backend": "web"}]}],
            "backends": [{"name": "web", "targets": [
                {"cluster": "asia"}, {"cluster": "europe"}, {"cluster": "america"}]}],
        }))
        .unwrap()
    }

    fn target() -> TargetReference {
        TargetReference { kind: "Ingress".to_owned(), name: "web".to_owned() }
    }

    #[test]
    fn what_a_policy_says_of_other_things_stays() {
        let spec = json!({
            "healthCheck": {"kind": "Tcp"}, "activeGroup": "blue",
            "groups": [{"name": "blue"}, {"name": "green"}]});
        let base = policy("all", &spec).spec.policy;
        let weights = How::Weights([("asia".to_owned(), 1)].into());
        let made = changed(base, &target(), &weights, &global()).unwrap();
        assert!(made.health_check.is_some() && made.groups.is_empty());
        assert_eq!((made.active_group, made.target_ref), (None, Some(target())));
        assert_eq!(made.weights.unwrap().clusters["asia"], 1);
    }

    #[test]
    fn a_canary_divides_the_clusters_in_two() {
        let canary = |clusters: &[&str]| How::Canary {
            clusters: clusters.iter().map(ToString::to_string).collect(),
            steps: vec![5, 50],
            step_seconds: 60,
            min_success_percent: 99.0,
        };
        let made = changed(Policy::default(), &target(), &canary(&["asia"]), &global()).unwrap();
        assert_eq!(made.groups[0].clusters, ["america", "europe"]);
        assert_eq!((made.groups[1].name.as_str(), &*made.groups[1].clusters[0]), (CANARY, "asia"));
        assert_eq!(made.canary.unwrap().steps, [5, 50]);
        for wrong in [&[][..], &["asia", "europe", "america"]] {
            let refused = changed(Policy::default(), &target(), &canary(wrong), &global());
            assert!(refused.unwrap_err().message.contains("others that do not"));
        }
    }

    #[test]
    fn a_roots_own_policy_comes_before_that_of_its_namespace() {
        let own = policy("own", &json!({"targetRef": {"name": "web"}}));
        let all = [policy("all", &json!({})), own];
        assert_eq!(first_for(&all, Some(&target())).unwrap().name_any(), "own");
        assert_eq!(first_for(&all, None).unwrap().name_any(), "all");
        assert_eq!(new_name(&all, "web"), "web");
        assert_eq!(new_name(&all, "all"), "all-traffic");
    }

    #[test]
    fn a_policy_that_would_not_be_in_force_is_found_before_it_is_written() {
        // The spec was changed to another root and refused: the hub keeps the policy in force.
        let spec = json!({"targetRef": {"name": "other"}, "failover": ["mars"]});
        let mut kept = policy("kept", &spec);
        kept.status =
            serde_json::from_value(json!({"inForce": {"targetRef": {"name": "web"}}})).unwrap();
        let general = {
            let mut general = policy("all", &json!({}));
            general.status = serde_json::from_value(json!({"inForce": {}})).unwrap();
            general
        };
        let all = [kept, general.clone()];
        assert!(first_for(&all, Some(&target())).is_none());
        assert_eq!(policy_before(&all, "web", &target()), Some("kept"));
        assert_eq!(policy_before(&all, "kept", &target()), None, "it replaces that one");
        assert_eq!(policy_before(&[general], "web", &target()), None);
    }
}
