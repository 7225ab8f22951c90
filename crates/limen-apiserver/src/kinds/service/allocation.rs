//! Which addresses and ports a Service wants from the pools, and which it gives back.
//!
//! The pools themselves are kept elsewhere, beside the store. For a create or an update the
//! keeper
//!
//! 1. calls [`init_families`], which settles the IP families (this server hands out IPv4 only),
//! 2. asks [`wants`] what to take from the pools, takes it, and writes it with
//!    [`set_cluster_ip`], [`set_node_port`] and [`set_health_check_port`],
//! 3. once the object is written, gives back what [`released`] lists.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::addresses::is_ipv6;
use super::super::fields::{at, existing_mut, is_empty, is_set, list, number, set, text, texts};
use super::update::{gets_node_ports, node_ports, normalize_cluster_ips};
use super::validation::cluster_ip_errors;
use super::{is_headless, is_of, needs_health_check};
use crate::field_error::{FieldError, FieldPath};

/// The node ports that the server hands out.
pub(crate) const NODE_PORTS: std::ops::RangeInclusive<i64> = 30000..=32767;

/// Something that is to come from a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted<T> {
    /// Whichever is free.
    Any,
    /// This one and no other.
    This(T),
}

/// A node port that is to come from the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedNodePort {
    /// The positions of the service's ports that share it.
    pub ports: Vec<usize>,
    /// Which one.
    pub port: Wanted<i64>,
}

/// What a service wants from the pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wants {
    /// The address inside of the cluster.
    pub cluster_ip: Option<Wanted<String>>,
    /// Ports on every node.
    pub node_ports: Vec<WantedNodePort>,
    /// The port at which load balancers ask nodes for the service's health.
    pub health_check_port: Option<Wanted<i64>>,
}

/// What goes back into the pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Released {
    /// Addresses inside of the cluster.
    pub cluster_ips: Vec<String>,
    /// Ports on every node.
    pub node_ports: Vec<i64>,
}

/// Settles the IP families and their policy. What is wrong with them is an error of its own, told
/// before anything else is looked at.
pub(crate) fn init_families(new: &mut Value, old: Option<&Value>) -> Result<(), Vec<FieldError>> {
    if old.is_none() {
        normalize_cluster_ips(new, None);
    }
    if is_of(new, "ExternalName") {
        return Ok(());
    }
    let selectorless = text(new, "spec.clusterIP") == "None" && is_empty(new, "spec.selector");
    if !is_set(new, "spec.ipFamilyPolicy") {
        let policy = match old.map(|old| at(old, "spec.ipFamilyPolicy")) {
            Some(policy @ Value::String(_)) => policy.clone(),
            _ if selectorless => json!("RequireDualStack"),
            _ => json!("SingleStack"),
        };
        set(new, "spec.ipFamilyPolicy", policy);
    }
    let existing = old.map(|old| texts(old, "spec.clusterIPs")).unwrap_or_default();
    let errors = cluster_ip_errors(new, &existing);
    if !errors.is_empty() {
        return Err(errors);
    }
    infer_families(new)?;
    let policy = text(new, "spec.ipFamilyPolicy").to_owned();
    let mut families = list(new, "spec.ipFamilies").to_vec();
    if selectorless {
        if families.is_empty() {
            families.push("IPv4".into());
        }
        if let ([only], false) = (&families[..], policy == "SingleStack") {
            families.push(if only == "IPv4" { "IPv6" } else { "IPv4" }.into());
        }
        set(new, "spec.ipFamilies", families);
        return Ok(());
    }
    let field = FieldPath::new("spec");
    let mut errors = Vec::new();
    if policy == "RequireDualStack" {
        let detail = "this cluster is not configured for dual-stack services";
        let field = field.child("ipFamilyPolicy");
        errors.push(FieldError::invalid(&field, &json!(policy), detail));
    }
    for (n, family) in families.iter().enumerate().filter(|(_, family)| **family != "IPv4") {
        let field = field.child("ipFamilies").index(n);
        errors.push(FieldError::invalid(&field, family, "not configured on this cluster"));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if families.is_empty() {
        set(new, "spec.ipFamilies", json!(["IPv4"]));
    }
    Ok(())
}

/// Adds the families of addresses that the user asks for.
fn infer_families(new: &mut Value) -> Result<(), Vec<FieldError>> {
    let ips: Vec<String> = texts(new, "spec.clusterIPs").into_iter().map(str::to_owned).collect();
    let mut families = list(new, "spec.ipFamilies").to_vec();
    let field = FieldPath::new("spec");
    let mut errors = Vec::new();
    if text(new, "spec.ipFamilyPolicy") == "SingleStack" {
        for (count, what) in [(ips.len(), "cluster IPs"), (families.len(), "IP families")] {
            if count == 2 {
                let detail = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are \
                     specified"
                );
                let policy = json!("SingleStack");
                errors.push(FieldError::invalid(&field.child("ipFamilyPolicy"), &policy, &detail));
            }
        }
    }
    for (n, ip) in ips.iter().enumerate().take_while(|(_, ip)| *ip != "None") {
        if n < families.len() {
            continue;
        }
        if is_ipv6(ip) {
            let detail = "IPv6 is not configured on this cluster";
            let field = field.child("clusterIPs").index(n);
            errors.push(FieldError::invalid(&field, &json!(ips), detail));
        } else {
            families.push("IPv4".into());
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if !families.is_empty() {
        set(new, "spec.ipFamilies", families);
    }
    Ok(())
}

/// What a service wants from the pools. `old` is what it was before an update.
pub(crate) fn wants(new: &Value, old: Option<&Value>) -> Wants {
    Wants {
        cluster_ip: wanted_cluster_ip(new, old),
        node_ports: wanted_node_ports(new, old),
        health_check_port: wanted_health_check_port(new, old),
    }
}

fn wanted_cluster_ip(new: &Value, old: Option<&Value>) -> Option<Wanted<String>> {
    let had_one = old.is_some_and(|old| !is_of(old, "ExternalName"));
    if is_of(new, "ExternalName") || is_headless(new) || had_one {
        return None;
    }
    Some(match texts(new, "spec.clusterIPs").first() {
        Some(ip) => Wanted::This((*ip).to_owned()),
        None => Wanted::Any,
    })
}

fn wanted_node_ports(new: &Value, old: Option<&Value>) -> Vec<WantedNodePort> {
    if !is_of(new, "NodePort") && !is_of(new, "LoadBalancer") {
        return Vec::new();
    }
    let mut taken = old.map(node_ports).unwrap_or_default();
    let ports = list(new, "spec.ports");
    // On create a node port is shared by ports of the same number only, and the pool is asked twice
    // for one that others want too, which it refuses. On update the pool is asked once.
    let is_new = |asked: i64, n: usize, taken: &mut BTreeSet<i64>| {
        let same = |it: &Value| {
            number(it, "port") == number(&ports[n], "port")
                && [0, asked].contains(&number(it, "nodePort"))
        };
        taken.insert(asked) || (old.is_none() && !ports[..n].iter().any(same))
    };
    let mut wanted: Vec<WantedNodePort> = Vec::new();
    for (n, port) in ports.iter().enumerate() {
        let asked = number(port, "nodePort");
        if asked == 0 && !gets_node_ports(new) {
            continue;
        }
        // On create, ports with the same number (of other protocols) share a node port.
        let same_number = |it: &&mut WantedNodePort| {
            old.is_none() && number(&ports[it.ports[0]], "port") == number(port, "port")
        };
        if asked == 0 {
            match wanted.iter_mut().find(same_number) {
                Some(shared) => shared.ports.push(n),
                None => {
                    let later = ports[n..].iter().filter(|_| old.is_none());
                    let later = later.filter(|it| number(it, "port") == number(port, "port"));
                    let asked = later.map(|it| number(it, "nodePort")).find(|port| *port != 0);
                    let port = asked.map_or(Wanted::Any, Wanted::This);
                    taken.extend(asked);
                    wanted.push(WantedNodePort { ports: vec![n], port });
                }
            }
        } else if is_new(asked, n, &mut taken) {
            wanted.push(WantedNodePort { ports: vec![n], port: Wanted::This(asked) });
        }
    }
    wanted
}

fn wanted_health_check_port(new: &Value, old: Option<&Value>) -> Option<Wanted<i64>> {
    if !needs_health_check(new) || old.is_some_and(needs_health_check) {
        return None;
    }
    Some(match number(new, "spec.healthCheckNodePort") {
        0 => Wanted::Any,
        port => Wanted::This(port),
    })
}

/// Writes the address inside of the cluster.
pub(crate) fn set_cluster_ip(object: &mut Value, ip: &str) {
    set(object, "spec.clusterIP", ip);
    set(object, "spec.clusterIPs", json!([ip]));
}

/// Writes a port on every node.
pub(crate) fn set_node_port(object: &mut Value, wanted: &WantedNodePort, node_port: i64) {
    for n in &wanted.ports {
        if let Some(port) = existing_mut(object, "spec.ports").and_then(|ports| ports.get_mut(*n)) {
            set(port, "nodePort", node_port);
        }
    }
}

/// Writes the port at which load balancers ask for the service's health.
pub(crate) fn set_health_check_port(object: &mut Value, port: i64) {
    set(object, "spec.healthCheckNodePort", port);
}

/// What goes back into the pools when a service becomes `new`, or nothing.
pub(crate) fn released(old: &Value, new: Option<&Value>) -> Released {
    let cluster_ips = |object: &Value| -> Vec<String> {
        if is_of(object, "ExternalName") || is_headless(object) {
            return Vec::new();
        }
        texts(object, "spec.clusterIPs").into_iter().map(str::to_owned).collect()
    };
    let ports = |object: &Value| -> BTreeSet<i64> {
        let mut ports = BTreeSet::new();
        if is_of(object, "NodePort") || is_of(object, "LoadBalancer") {
            ports.extend(node_ports(object));
        }
        if needs_health_check(object) {
            ports
                .extend(Some(number(object, "spec.healthCheckNodePort")).filter(|port| *port != 0));
        }
        ports
    };
    let kept_ips = new.map(cluster_ips).unwrap_or_default();
    let kept_ports = new.map(ports).unwrap_or_default();
    Released {
        cluster_ips: cluster_ips(old).into_iter().filter(|ip| !kept_ips.contains(ip)).collect(),
        node_ports: ports(old).difference(&kept_ports).copied().collect(),
    }
}

/// A node port that somebody else has.
pub(crate) fn node_port_taken(position: usize, port: i64) -> FieldError {
    node_port_error(position, port, "provided port is already allocated")
}

/// A node port that the server does not hand out.
pub(crate) fn node_port_out_of_range(position: usize, port: i64) -> FieldError {
    let (low, high) = (NODE_PORTS.start(), NODE_PORTS.end());
    let detail = format!(
        "provided port is not in the valid range. The range of valid ports is {low}-{high}"
    );
    node_port_error(position, port, &detail)
}

fn node_port_error(position: usize, port: i64, detail: &str) -> FieldError {
    let field = FieldPath::new("spec").child("ports").index(position).child("nodePort");
    FieldError::invalid(&field, &json!(port), detail)
}

/// An address that somebody else has.
pub(crate) fn cluster_ip_taken(object: &Value, ip: &str) -> FieldError {
    cluster_ip_error(object, ip, "provided IP is already allocated")
}

/// An address that the server does not hand out.
pub(crate) fn cluster_ip_out_of_range(object: &Value, ip: &str) -> FieldError {
    cluster_ip_error(object, ip, "the provided network does not match the current range")
}

fn cluster_ip_error(object: &Value, ip: &str, why: &str) -> FieldError {
    let field = FieldPath::new("spec").child("clusterIPs");
    let detail = format!("failed to allocate IP {ip}: {why}");
    FieldError::invalid(&field, at(object, "spec.clusterIPs"), &detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: &Value) -> Value {
        let mut object = json!({"spec": spec});
        super::super::default(&mut object);
        object
    }

    fn shared(ports: &[usize], port: Wanted<i64>) -> WantedNodePort {
        WantedNodePort { ports: ports.to_vec(), port }
    }

    #[test]
    fn a_new_service_wants_what_its_type_needs() {
        let plain = json!({"ports": [{"port": 80}]});
        let headless =
            json!({"ports": [{"port": 80}], "clusterIP": "None", "clusterIPs": ["None"]});
        let named = json!({"type": "ExternalName", "externalName": "a.b"});
        let balanced = json!({
            "type": "LoadBalancer", "externalTrafficPolicy": "Local",
            "ports": [
                {"port": 53}, {"port": 53, "protocol": "UDP"},
                {"port": 80, "nodePort": 30080}, {"port": 81},
            ],
        });
        let declined = json!({
            "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false,
            "ports": [{"port": 80}, {"port": 81, "nodePort": 30081}],
        });
        let any = Some(Wanted::Any);
        let cases = [
            (plain, Wants { cluster_ip: any.clone(), ..Wants::default() }),
            (headless, Wants::default()),
            (named, Wants::default()),
            (
                balanced,
                Wants {
                    cluster_ip: any.clone(),
                    node_ports: vec![
                        shared(&[0, 1], Wanted::Any),
                        shared(&[2], Wanted::This(30080)),
                        shared(&[3], Wanted::Any),
                    ],
                    health_check_port: Some(Wanted::Any),
                },
            ),
            (
                declined,
                Wants {
                    cluster_ip: any,
                    node_ports: vec![shared(&[1], Wanted::This(30081))],
                    health_check_port: None,
                },
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(wants(&service(&spec), None), expected, "{spec}");
        }
    }

    #[test]
    fn an_update_wants_only_what_is_new() {
        let old = service(&json!({
            "type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
            "ports": [{"name": "a", "port": 80, "nodePort": 30080}],
        }));
        let mut new = old.clone();
        new["spec"]["ports"] = json!([
            {"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 81},
        ]);
        let expected = Wants { node_ports: vec![shared(&[1], Wanted::Any)], ..Wants::default() };
        assert_eq!(wants(&new, Some(&old)), expected);
        assert_eq!(released(&old, Some(&new)), Released::default());
    }

    #[test]
    fn what_a_service_no_longer_has_is_given_back() {
        let old = service(&json!({
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001,
            "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
            "ports": [{"port": 80, "nodePort": 30080}],
        }));
        let all = Released { cluster_ips: vec!["10.0.0.1".into()], node_ports: vec![30001, 30080] };
        assert_eq!(released(&old, None), all);
        let named = service(&json!({"type": "ExternalName", "externalName": "a.b"}));
        assert_eq!(released(&old, Some(&named)), all);
        let mut internal = old.clone();
        internal["spec"]["type"] = "ClusterIP".into();
        super::super::update::prepare(&mut internal, &old);
        let ports = Released { cluster_ips: Vec::new(), node_ports: vec![30001, 30080] };
        assert_eq!(released(&old, Some(&internal)), ports);
        assert!(internal["spec"]["ports"][0].get("nodePort").is_none());
    }
}
