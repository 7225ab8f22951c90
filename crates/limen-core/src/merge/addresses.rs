//! Ingress and Service: the union of the members' addresses.

use serde_json::{Value, json};

use super::LeafStatus;

/// Every address once, in the order of the clusters.
pub(super) fn merge(leaves: &[LeafStatus<'_>]) -> Value {
    let mut addresses: Vec<&Value> = Vec::new();
    for leaf in leaves {
        for address in leaf.status["loadBalancer"]["ingress"].as_array().into_iter().flatten() {
            let known = |other: &&Value| {
                other["ip"] == address["ip"] && other["hostname"] == address["hostname"]
            };
            if !addresses.iter().any(known) {
                addresses.push(address);
            }
        }
    }
    match addresses.is_empty() {
        true => json!({"loadBalancer": {}}),
        false => json!({"loadBalancer": {"ingress": addresses}}),
    }
}
