//! The CustomResourceDefinitions that a hub needs.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use limen_core::federated::Kind;
use serde_json::{Value, json};

use crate::{
    Cluster, DnsChallenge, DnsZone, Edge, FederatedIngress, FederatedStatus, FederatedType,
    GlobalIngress, Hold, PlacementPolicy, TrafficPolicy,
};
use crate::{cluster, federated_ingress, traffic_policy};

/// The group of `Federated<Kind>` in one object.
pub const ONE_OBJECT_GROUP: &str = "types.kubefed.io";
/// The group of template, placement and override in three objects.
pub const THREE_OBJECT_GROUP: &str = "core.federation.k8s.io";

/// The objects of Limen's own group.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![
        ruled(Cluster::crd(), &cluster::RULES),
        DnsChallenge::crd(),
        DnsZone::crd(),
        Edge::crd(),
        FederatedStatus::crd(),
        FederatedType::crd(),
        ruled(FederatedIngress::crd(), &federated_ingress::RULES),
        GlobalIngress::crd(),
        Hold::crd(),
        PlacementPolicy::crd(),
        ruled(TrafficPolicy::crd(), &traffic_policy::RULES),
    ]
}

/// A definition whose objects must satisfy some rules: expressions about `spec`, and what to say.
fn ruled(mut crd: CustomResourceDefinition, rules: &[(&str, &str)]) -> CustomResourceDefinition {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
    let rule = |(rule, message): &(&str, &str)| ValidationRule {
        rule: (*rule).to_owned(),
        message: Some((*message).to_owned()),
        ..ValidationRule::default()
    };
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        let properties = schema.and_then(|schema| schema.properties.as_mut());
        if let Some(spec) = properties.and_then(|properties| properties.get_mut("spec")) {
            spec.x_kubernetes_validations = Some(rules.iter().map(rule).collect());
        }
    }
    crd
}

/// `Federated<Kind>` in one object.
pub fn federated_kind(kind: &Kind) -> CustomResourceDefinition {
    let federated = format!("Federated{}", kind.kind);
    let selector = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let spec = json!({
        "type": "object",
        "properties": {
            "template": selector,
            "placement": {"type": "object", "properties": {
                "clusters": {"type": "array", "items": {
                    "type": "object", "required": ["name"],
                    "properties": {"name": {"type": "string"}}}},
                "clusterSelector": selector}},
            "overrides": {"type": "array", "items": {
                "type": "object", "required": ["clusterName"],
                "properties": {
                    "clusterName": {"type": "string"},
                    "clusterOverrides": {"type": "array", "items": {
                        "type": "object", "required": ["path"],
                        "properties": {
                            "op": {"type": "string", "enum": ["add", "remove", "replace"]},
                            "path": {"type": "string"},
                            "value": {"x-kubernetes-preserve-unknown-fields": true}}}}}}}}});
    definition(ONE_OBJECT_GROUP, "v1beta1", &federated, &spec, kind.namespaced)
}

/// Template, placement and override as objects of their own.
pub fn three_object_kinds(kind: &Kind) -> [CustomResourceDefinition; 3] {
    let make = |suffix: &str, spec: Value| {
        let name = format!("Federated{}{suffix}", kind.kind);
        definition(THREE_OBJECT_GROUP, "v1alpha1", &name, &spec, kind.namespaced)
    };
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let template = json!({"type": "object", "properties": {"template": anything}});
    let placement = json!({"type": "object", "properties": {
        "clusterNames": {"type": "array", "items": {"type": "string"}},
        "clusterSelector": anything}});
    let overriding = json!({"type": "object", "properties": {"overrides": {
        "type": "array", "items": {
            "type": "object", "required": ["clusterName"],
            "properties": {"clusterName": {"type": "string"}},
            "x-kubernetes-preserve-unknown-fields": true}}}});
    [make("", template), make("Placement", placement), make("Override", overriding)]
}

fn definition(
    group: &str,
    version: &str,
    kind: &str,
    spec: &Value,
    namespaced: bool,
) -> CustomResourceDefinition {
    let plural = plural(kind);
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {
            "name": format!("{plural}.{group}"),
            // The group is that of the documents this dialect comes from, and nobody reviews it.
            "annotations": {"api-approved.kubernetes.io": "unapproved, kept for existing manifests"}},
        "spec": {
            "group": group,
            "scope": if namespaced { "Namespaced" } else { "Cluster" },
            "names": {
                "kind": kind, "listKind": format!("{kind}List"),
                "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": spec, "status": status}}}}]}});
    serde_json::from_value(definition).expect("the definition above is one")
}

/// What paths call a kind.
pub(crate) fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.as_bytes() {
        [.., b's'] => format!("{kind}es"),
        [.., b'y'] => format!("{}ies", &kind[..kind.len() - 1]),
        _ => format!("{kind}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_as_their_manifests_name_them() {
        let ingress = crate::kind(("networking.k8s.io/v1", "Ingress", "ingresses", true));
        let name = federated_kind(&ingress).metadata.name;
        assert_eq!(name.as_deref(), Some("federatedingresses.types.kubefed.io"));
        let names = three_object_kinds(&ingress).map(|crd| crd.spec.names.kind);
        let expected =
            ["FederatedIngress", "FederatedIngressPlacement", "FederatedIngressOverride"];
        assert_eq!(names, expected);
        assert_eq!(plural("PlacementPolicy"), "placementpolicies");
    }

    #[test]
    fn every_schema_is_structural() {
        for crd in all() {
            let text = serde_json::to_string(&crd).unwrap();
            for forbidden in ["\"$ref\"", "\"oneOf\":[{\"properties\"", "\"definitions\""] {
                assert!(!text.contains(forbidden), "{:?} has {forbidden}", crd.metadata.name);
            }
        }
    }
}
