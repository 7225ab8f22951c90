//! Service: a name and an address in front of pods.
//!
//! Fields of a Service depend on each other and some come from pools, so there is more to it than
//! to other kinds. A write goes through these steps, in this order:
//!
//! ```text
//! default           fill in types, protocols, policies
//! prepare_update    carry over what was allocated, drop what the new type has no use for
//! allocation        say which addresses and ports are wanted, take those given
//! validate(_update) judge the outcome
//! ```

pub(crate) mod allocation;
mod update;
mod validation;

use serde_json::{Value, json};

use super::age::age;
use super::fields::{at, fill, fill_object, is_set, items_mut, list, number, remove, set, text};
use super::labels;
use super::table::{self, AGE, NAME, column};
use crate::resource::{Column, NameRule, Rules};

pub(super) use validation::check_port_reference;

pub(super) const RULES: Rules = Rules {
    name: NameRule::Label,
    default,
    prepare_create: |object| {
        update::normalize_cluster_ips(object, None);
        fill_object(object, "status.loadBalancer");
    },
    validate: validation::validate,
    validate_update: update::validate,
    validate_status: validation::validate_status,
    prepare_update: update::prepare,
    warnings: validation::warnings,
    selectable: &[
        ("spec.clusterIP", |object| text(object, "spec.clusterIP").to_owned()),
        ("spec.type", |object| text(object, "spec.type").to_owned()),
    ],
    ..Rules::NONE
};

fn default(object: &mut Value) {
    fill_object(object, "spec");
    fill(object, "spec.sessionAffinity", "None");
    match text(object, "spec.sessionAffinity") {
        "None" => remove(object, "spec.sessionAffinityConfig"),
        "ClientIP" if !is_set(object, "spec.sessionAffinityConfig.clientIP.timeoutSeconds") => {
            let config = json!({"clientIP": {"timeoutSeconds": 10_800}});
            set(object, "spec.sessionAffinityConfig", config);
        }
        _ => {}
    }
    fill(object, "spec.type", "ClusterIP");
    for port in items_mut(object, "spec.ports") {
        fill(port, "protocol", "TCP");
        let number = number(port, "port");
        if matches!(at(port, "targetPort"), Value::Null) || port["targetPort"] == 0 {
            set(port, "targetPort", number);
        }
        fill(port, "targetPort", number);
    }
    if is_externally_accessible(object) {
        fill(object, "spec.externalTrafficPolicy", "Cluster");
    }
    let kind = text(object, "spec.type").to_owned();
    if ["ClusterIP", "NodePort", "LoadBalancer"].contains(&kind.as_str()) {
        fill(object, "spec.internalTrafficPolicy", "Cluster");
    }
    if kind == "ExternalName" {
        remove(object, "spec.internalTrafficPolicy");
    }
    if kind == "LoadBalancer" {
        fill(object, "spec.allocateLoadBalancerNodePorts", true);
        for point in items_mut(object, "status.loadBalancer.ingress") {
            if !text(point, "ip").is_empty() {
                fill(point, "ipMode", "VIP");
            }
        }
    }
}

fn is_of(object: &Value, kind: &str) -> bool {
    text(object, "spec.type") == kind
}

/// Whether the service has no address of its own: names lead straight to pods.
fn is_headless(object: &Value) -> bool {
    matches!(list(object, "spec.clusterIPs"), [only] if only == "None")
}

/// Whether traffic from outside the cluster may come in.
fn is_externally_accessible(object: &Value) -> bool {
    is_of(object, "LoadBalancer")
        || is_of(object, "NodePort")
        || (is_of(object, "ClusterIP") && !list(object, "spec.externalIPs").is_empty())
}

/// Whether load balancers ask nodes if they have pods of the service.
fn needs_health_check(object: &Value) -> bool {
    is_of(object, "LoadBalancer") && text(object, "spec.externalTrafficPolicy") == "Local"
}

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column("Type", "How the service is reached."),
    column("Cluster-IP", "Its address inside of the cluster."),
    column("External-IP", "Its address outside of the cluster."),
    column("Port(s)", "The ports that it listens on."),
    AGE,
    table::SELECTOR,
];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let cluster_ip = list(object, "spec.clusterIPs").first().and_then(Value::as_str);
    let ports: Vec<String> = list(object, "spec.ports").iter().map(port_shown).collect();
    let ports = if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") };
    vec![
        table::name(object),
        text(object, "spec.type").into(),
        cluster_ip.unwrap_or("<none>").into(),
        external_ip(object).into(),
        ports.into(),
        age(object, now),
        labels::shown_labels(at(object, "spec.selector")).into(),
    ]
}

fn port_shown(port: &Value) -> String {
    let (number, protocol) = (self::number(port, "port"), text(port, "protocol"));
    match self::number(port, "nodePort") {
        0 => format!("{number}/{protocol}"),
        node_port => format!("{number}:{node_port}/{protocol}"),
    }
}

fn external_ip(object: &Value) -> String {
    let mut addresses = super::fields::texts(object, "spec.externalIPs");
    let balanced = table::load_balancer(object);
    match text(object, "spec.type") {
        "LoadBalancer" => {
            addresses.splice(0..0, balanced.split(',').filter(|part| !part.is_empty()));
            if addresses.is_empty() { "<pending>".to_owned() } else { addresses.join(",") }
        }
        "ClusterIP" | "NodePort" if addresses.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => addresses.join(","),
        "ExternalName" => text(object, "spec.externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}
