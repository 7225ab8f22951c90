//! What an update of a Service carries over, drops and must not change.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::fields::{
    at, flag, is_empty, is_set, items_mut, list, number, remove, set, text,
};
use super::validation::{cluster_ip_errors, validate as validate_whole};
use super::{is_externally_accessible, is_headless, is_of, needs_health_check};
use crate::field_error::{FieldError, FieldPath};

/// Users may leave out of an update what the server allocated, and need not take back what their
/// new type has no use for.
pub(super) fn prepare(new: &mut Value, old: &Value) {
    carry_over_allocated(new, old);
    normalize_cluster_ips(new, Some(old));
    drop_unused(new, old);
}

fn has_cluster_ip(object: &Value) -> bool {
    !is_of(object, "ExternalName")
}

/// Whether ports get node ports without asking for them.
pub(super) fn gets_node_ports(object: &Value) -> bool {
    let declined = is_set(object, "spec.allocateLoadBalancerNodePorts")
        && !flag(object, "spec.allocateLoadBalancerNodePorts");
    is_of(object, "NodePort") || (is_of(object, "LoadBalancer") && !declined)
}

fn carry_over_allocated(new: &mut Value, old: &Value) {
    let carry = |new: &mut Value, path: &str| {
        if is_empty(new, path) && !is_empty(old, path) {
            set(new, path, at(old, path).clone());
        }
    };
    if has_cluster_ip(old) && has_cluster_ip(new) {
        carry(new, "spec.clusterIP");
        carry(new, "spec.clusterIPs");
    }
    if gets_node_ports(old) && gets_node_ports(new) {
        let used: BTreeSet<i64> = node_ports(old).intersection(&node_ports(new)).copied().collect();
        for port in items_mut(new, "spec.ports") {
            if number(port, "nodePort") != 0 {
                continue;
            }
            // The last port of a name wins, as in a map that is filled in order.
            let mut same = list(old, "spec.ports").iter().rev();
            let same = same.find(|it| text(it, "name") == text(port, "name"));
            let node_port = same.map_or(0, |it| number(it, "nodePort"));
            if node_port != 0 && !used.contains(&node_port) {
                set(port, "nodePort", node_port);
            }
        }
    }
    if needs_health_check(old)
        && needs_health_check(new)
        && number(new, "spec.healthCheckNodePort") == 0
    {
        set(new, "spec.healthCheckNodePort", number(old, "spec.healthCheckNodePort"));
    }
}

/// The node ports that a service has or asks for.
pub(super) fn node_ports(object: &Value) -> BTreeSet<i64> {
    let ports = list(object, "spec.ports").iter().map(|port| number(port, "nodePort"));
    ports.filter(|port| *port != 0).collect()
}

/// Clients that know only `clusterIP` need not know `clusterIPs`.
pub(super) fn normalize_cluster_ips(new: &mut Value, old: Option<&Value>) {
    let singular = text(new, "spec.clusterIP").to_owned();
    let Some(old) = old else {
        if !singular.is_empty() && is_empty(new, "spec.clusterIPs") {
            set(new, "spec.clusterIPs", json!([singular]));
        }
        return;
    };
    if text(old, "spec.clusterIP") == singular {
        if !is_empty(old, "spec.clusterIPs") && is_empty(new, "spec.clusterIPs") {
            set(new, "spec.clusterIPs", at(old, "spec.clusterIPs").clone());
        }
    } else if list(old, "spec.clusterIPs") == list(new, "spec.clusterIPs") {
        if singular.is_empty() {
            remove(new, "spec.clusterIPs");
        } else {
            set(new, "spec.clusterIPs", json!([singular]));
        }
    }
}

/// Drops what the new type has no use for, if the user did not change it too.
fn drop_unused(new: &mut Value, old: &Value) {
    let same = |new: &Value, path: &str| at(old, path) == at(new, path);
    if has_cluster_ip(old) && !has_cluster_ip(new) {
        if same(new, "spec.clusterIP") && same(new, "spec.clusterIPs") {
            remove(new, "spec.clusterIP");
            remove(new, "spec.clusterIPs");
        }
        for path in ["spec.ipFamilies", "spec.ipFamilyPolicy"] {
            if same(new, path) {
                remove(new, path);
            }
        }
    }
    let on_nodes = |it: &Value| is_of(it, "NodePort") || is_of(it, "LoadBalancer");
    if on_nodes(old) && !on_nodes(new) && node_ports(old).is_superset(&node_ports(new)) {
        items_mut(new, "spec.ports").iter_mut().for_each(|port| remove(port, "nodePort"));
    }
    let health_port = "spec.healthCheckNodePort";
    if needs_health_check(old) && !needs_health_check(new) && same(new, health_port) {
        remove(new, health_port);
    }
    if is_of(old, "LoadBalancer") && !is_of(new, "LoadBalancer") {
        for path in ["spec.allocateLoadBalancerNodePorts", "spec.loadBalancerClass"] {
            if same(new, path) {
                remove(new, path);
            }
        }
    }
    let traffic = "spec.externalTrafficPolicy";
    if is_externally_accessible(old) && !is_externally_accessible(new) && same(new, traffic) {
        remove(new, traffic);
    }
    if !is_of(new, "LoadBalancer") && is_set(new, "status.loadBalancer") {
        set(new, "status.loadBalancer", json!({}));
    }
}

pub(super) fn validate(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let mut first = Vec::new();
    if !is_of(new, "ExternalName") && !is_of(old, "ExternalName") {
        validate_cluster_ips(new, old, &mut first);
        validate_families(new, old, &mut first);
    }
    let spec = FieldPath::new("spec");
    let class = "spec.loadBalancerClass";
    let both_balanced = is_of(old, "LoadBalancer") && is_of(new, "LoadBalancer");
    if both_balanced && at(new, class) != at(old, class) {
        let field = spec.child("loadBalancerClass");
        first.push(FieldError::invalid(&field, at(new, class), "may not change once set"));
    }
    let health_port = "spec.healthCheckNodePort";
    let both_checked = needs_health_check(old) && needs_health_check(new);
    if both_checked && number(new, health_port) != number(old, health_port) {
        let field = spec.child("healthCheckNodePort");
        first.push(FieldError::forbidden(&field, "field is immutable"));
    }
    // Addresses that the service has stay good, even if a new one like it would not be.
    errors.clear();
    validate_whole(new, errors);
    let judged_anew = cluster_ip_errors(new, &[]);
    errors.retain(|error| !judged_anew.contains(error));
    let existing = super::super::fields::texts(old, "spec.clusterIPs");
    first.extend(cluster_ip_errors(new, &existing));
    errors.splice(0..0, first);
}

fn validate_cluster_ips(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if is_headless(old) && is_headless(new) {
        return;
    }
    let (before, after) = (list(old, "spec.clusterIPs"), list(new, "spec.clusterIPs"));
    let field = FieldPath::new("spec").child("clusterIPs");
    let mut wrong = |n: usize, detail: &str| {
        errors.push(FieldError::invalid(&field.index(n), &json!(after), detail));
    };
    if before.len() == after.len() {
        for (n, (before, after)) in before.iter().zip(after).enumerate() {
            if before != after {
                wrong(n, "may not change once set");
            }
        }
        return;
    }
    if after.is_empty() {
        wrong(0, "primary clusterIP can not be unset");
    }
    if let (Some(before), Some(after)) = (before.first(), after.first())
        && before != after
    {
        wrong(0, "may not change once set");
    }
    if before.len() > after.len() && after.len() == 1 {
        require_single_stack(new, "secondary clusterIP", errors);
    }
}

fn validate_families(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if is_headless(old) || is_headless(new) {
        return;
    }
    let (before, after) = (list(old, "spec.ipFamilies"), list(new, "spec.ipFamilies"));
    let field = FieldPath::new("spec").child("ipFamilies").index(0);
    if before.len() == after.len() {
        for _ in before.iter().zip(after).filter(|(before, after)| before != after) {
            errors.push(FieldError::invalid(&field, &json!(after), "may not change once set"));
        }
        return;
    }
    if let (Some(before), Some(after)) = (before.first(), after.first())
        && before != after
    {
        let ips = at(new, "spec.clusterIPs");
        errors.push(FieldError::invalid(&field, ips, "may not change once set"));
    }
    if before.len() > after.len() && after.len() == 1 {
        require_single_stack(new, "secondary ipFamily", errors);
    }
}

fn require_single_stack(new: &Value, released: &str, errors: &mut Vec<FieldError>) {
    let policy = at(new, "spec.ipFamilyPolicy");
    if policy != "SingleStack" {
        let field = FieldPath::new("spec").child("ipFamilyPolicy");
        let detail = format!("must be set to 'SingleStack' when releasing the {released}");
        errors.push(FieldError::invalid(&field, policy, &detail));
    }
}
