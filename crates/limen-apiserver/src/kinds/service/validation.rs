//! What is wrong with a Service.

use serde_json::{Value, json};

use super::super::addresses::{
    check_cidr, check_endpoint_ip, check_ip, cidr_warnings, ip_warnings, is_ipv6,
};
use super::super::fields::{annotation, at, is_empty, is_set, list, number, text, texts};
use super::super::ingress::{validate_address, validate_hostname};
use super::super::labels::check_labels;
use super::super::names::{self, check};
use super::{is_externally_accessible, is_headless, is_of, needs_health_check};
use crate::field_error::{FieldError, FieldPath};

const HINTS_ANNOTATION: &str = "service.kubernetes.io/topology-aware-hints";
const MODE_ANNOTATION: &str = "service.kubernetes.io/topology-mode";
const RANGES_ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";

pub(super) fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let field = FieldPath::new("spec");
    let spec = at(object, "spec");
    let modes = (annotation(object, MODE_ANNOTATION), annotation(object, HINTS_ANNOTATION));
    if let (Some(mode), Some(hints)) = modes
        && mode != hints
    {
        let field = FieldPath::new("metadata").child("annotations").key(MODE_ANNOTATION);
        let detail = format!("must match annotations[{HINTS_ANNOTATION}] when both are specified");
        errors.push(FieldError::invalid(&field, &json!(mode), &detail));
    }
    if is_empty(spec, "ports") && !is_headless(object) && !is_of(object, "ExternalName") {
        errors.push(FieldError::required(&field.child("ports"), ""));
    }
    validate_type_fields(object, &field, errors);
    validate_ports(spec, &field.child("ports"), errors);
    check_labels(errors, &field.child("selector"), at(spec, "selector"));
    validate_affinity(spec, &field, errors);
    errors.extend(cluster_ip_errors(object, &[]));
    for (n, ip) in texts(spec, "externalIPs").into_iter().enumerate() {
        let (field, before) = (field.child("externalIPs").index(n), errors.len());
        check_ip(errors, &field, ip);
        if errors.len() == before {
            check_endpoint_ip(errors, &field, ip);
        }
    }
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    require_one_of(errors, &field.child("type"), text(spec, "type"), &types);
    validate_port_uniqueness(object, &field.child("ports"), errors);
    validate_source_ranges(object, &field, errors);
    let balanced = is_of(object, "LoadBalancer");
    if is_set(spec, "allocateLoadBalancerNodePorts") && !balanced {
        let field = field.child("allocateLoadBalancerNodePorts");
        errors.push(FieldError::forbidden(&field, ONLY_BALANCED));
    }
    if is_set(spec, "loadBalancerClass") {
        let (field, class) = (field.child("loadBalancerClass"), text(spec, "loadBalancerClass"));
        if balanced {
            check(errors, &field, class, names::label_key(class));
        } else {
            errors.push(FieldError::forbidden(&field, ONLY_BALANCED));
        }
    }
    validate_traffic(object, &field, errors);
}

fn require_one_of(
    errors: &mut Vec<FieldError>,
    field: &FieldPath,
    value: &str,
    supported: &[&str],
) {
    if value.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !supported.contains(&value) {
        errors.push(FieldError::not_supported(field, &json!(value), supported));
    }
}

fn validate_type_fields(object: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let spec = at(object, "spec");
    match text(spec, "type") {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(object) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            let field = field.child("clusterIPs").index(0);
            errors.push(FieldError::invalid(&field, &json!("None"), &detail));
        }
        "ExternalName" => {
            for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if !is_empty(spec, name) {
                    let detail = "may not be set for ExternalName services";
                    errors.push(FieldError::forbidden(&field.child(name), detail));
                }
            }
            let name = text(spec, "externalName");
            let field = field.child("externalName");
            match name.strip_suffix('.').unwrap_or(name) {
                "" => errors.push(FieldError::required(&field, "")),
                name => check(errors, &field, name, names::subdomain(name)),
            }
        }
        _ => {}
    }
}

fn validate_ports(spec: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let ports = list(spec, "ports");
    let mut seen = Vec::new();
    for (n, port) in ports.iter().enumerate() {
        let field = field.index(n);
        match text(port, "name") {
            "" if ports.len() > 1 => errors.push(FieldError::required(&field.child("name"), "")),
            "" => {}
            name => {
                check(errors, &field.child("name"), name, names::label(name));
                if seen.contains(&name) {
                    errors.push(FieldError::duplicate(&field.child("name"), &json!(name)));
                }
                seen.push(name);
            }
        }
        let number = number(port, "port");
        check(errors, &field.child("port"), number, names::port_number(number));
        let protocols = ["SCTP", "TCP", "UDP"];
        require_one_of(errors, &field.child("protocol"), text(port, "protocol"), &protocols);
        check_port_reference(errors, &field.child("targetPort"), at(port, "targetPort"));
        if is_set(port, "appProtocol") {
            let protocol = text(port, "appProtocol");
            check(errors, &field.child("appProtocol"), protocol, names::label_key(protocol));
        }
    }
}

/// Adds what is wrong with a port that is told by its number or by its name.
pub(in super::super) fn check_port_reference(
    errors: &mut Vec<FieldError>,
    field: &FieldPath,
    port: &Value,
) {
    match port.as_str() {
        Some(name) => check(errors, field, name, names::port_name(name)),
        None => {
            let number = port.as_i64().unwrap_or_default();
            check(errors, field, number, names::port_number(number));
        }
    }
}

fn validate_affinity(spec: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let affinity = text(spec, "sessionAffinity");
    require_one_of(errors, &field.child("sessionAffinity"), affinity, &["ClientIP", "None"]);
    let field = field.child("sessionAffinityConfig").child("clientIP").child("timeoutSeconds");
    let timeout = number(spec, "sessionAffinityConfig.clientIP.timeoutSeconds");
    if affinity == "ClientIP" && !(1..=86_400).contains(&timeout) {
        let detail = "must be greater than 0 and less than 86400";
        errors.push(FieldError::invalid(&field, &json!(timeout), detail));
    }
}

/// What is wrong with the addresses inside of the cluster and the IP families. `existing` are
/// addresses that the service has, which stay good.
pub(super) fn cluster_ip_errors(object: &Value, existing: &[&str]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if is_of(object, "ExternalName") {
        return errors;
    }
    let spec = at(object, "spec");
    let field = FieldPath::new("spec");
    let (ips_field, families_field) = (field.child("clusterIPs"), field.child("ipFamilies"));
    let ips = texts(spec, "clusterIPs");
    let whole = |detail: &str| FieldError::invalid(&ips_field, &json!(ips), detail);
    match (text(spec, "clusterIP"), ips.first()) {
        ("", Some(_)) => errors.push(whole("must be empty when `clusterIP` is not specified")),
        ("", None) => {}
        (_, None) => errors.push(FieldError::required(&ips_field, "")),
        (ip, Some(first)) if ip != *first => {
            errors.push(whole("first value must match `clusterIP`"));
        }
        _ => {}
    }
    let families = texts(spec, "ipFamilies");
    for (n, family) in families.iter().enumerate() {
        let field = families_field.index(n);
        if !["IPv4", "IPv6"].contains(family) {
            errors.push(FieldError::not_supported(&field, &json!(family), &["IPv4", "IPv6"]));
        }
        if families[..n].contains(family) {
            errors.push(FieldError::duplicate(&field, &json!(family)));
        }
    }
    if is_set(spec, "ipFamilyPolicy") {
        let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        let (field, policy) = (field.child("ipFamilyPolicy"), text(spec, "ipFamilyPolicy"));
        if !policies.contains(&policy) {
            errors.push(FieldError::not_supported(&field, &json!(policy), &policies));
        }
    }
    let before = errors.len();
    for (n, ip) in ips.iter().enumerate() {
        if n == 0 && *ip == "None" {
            if ips.len() > 1 {
                errors.push(whole("'None' must be the first and only value"));
            }
        } else if !existing.contains(ip) {
            check_ip(&mut errors, &ips_field.index(n), ip);
        }
    }
    let unreadable = errors.len() > before;
    if ips.len() > 2 {
        errors.push(whole("may only hold up to 2 values"));
    }
    if unreadable {
        return errors;
    }
    if ips.len() > 1 && ips.iter().all(|ip| is_ipv6(ip) == is_ipv6(ips[0])) {
        errors.push(whole("may specify no more than one IP for each IP family"));
    }
    for (n, (ip, family)) in ips.iter().zip(&families).enumerate() {
        if is_headless(object) || (is_ipv6(ip) == (*family == "IPv6")) {
            continue;
        }
        let detail = format!("expected an {family} value as indicated by `ipFamilies[{n}]`");
        errors.push(FieldError::invalid(&ips_field.index(n), &json!(ip), &detail));
    }
    errors
}

fn validate_port_uniqueness(object: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let ports = list(object, "spec.ports");
    let key = |port: &Value, name: &str| (text(port, "protocol").to_owned(), number(port, name));
    for (n, port) in ports.iter().enumerate() {
        if is_of(object, "ClusterIP") && number(port, "nodePort") != 0 {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(&field.index(n).child("nodePort"), detail));
        }
    }
    for (n, port) in ports.iter().enumerate() {
        let node_port = number(port, "nodePort");
        let earlier = &mut ports[..n].iter();
        if node_port != 0 && earlier.any(|it| key(it, "nodePort") == key(port, "nodePort")) {
            let field = field.index(n).child("nodePort");
            errors.push(FieldError::duplicate(&field, &json!(node_port)));
        }
    }
    for (n, port) in ports.iter().enumerate() {
        if ports[..n].iter().any(|it| key(it, "port") == key(port, "port")) {
            errors.push(FieldError::duplicate_shown(&field.index(n), &shown_port_key(port)));
        }
    }
}

/// The protocol and number of a port, as the Go structure that Kubernetes shows them in.
fn shown_port_key(port: &Value) -> String {
    format!(
        r#"{{"Name":"","Protocol":{},"AppProtocol":null,"Port":{},"TargetPort":0,"NodePort":0}}"#,
        at(port, "protocol"),
        number(port, "port")
    )
}

fn validate_source_ranges(object: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let balanced = is_of(object, "LoadBalancer");
    let ranges = texts(object, "spec.loadBalancerSourceRanges");
    if !ranges.is_empty() {
        let field = field.child("LoadBalancerSourceRanges");
        if !balanced {
            errors.push(FieldError::forbidden(&field, ONLY_BALANCED));
        }
        for (n, range) in ranges.into_iter().enumerate() {
            check_cidr(errors, &field.index(n), range.trim());
        }
    } else if let Some(ranges) = annotation(object, RANGES_ANNOTATION) {
        let field = FieldPath::new("metadata").child("annotations").key(RANGES_ANNOTATION);
        if !balanced {
            errors.push(FieldError::forbidden(&field, ONLY_BALANCED));
        }
        if !ranges.trim().is_empty() {
            ranges.split(',').for_each(|range| check_cidr(errors, &field, range.trim()));
        }
    }
}

fn validate_traffic(object: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let spec = at(object, "spec");
    let external = text(spec, "externalTrafficPolicy");
    let external_field = field.child("externalTrafficPolicy");
    if is_externally_accessible(object) {
        require_one_of(errors, &external_field, external, &["Cluster", "Local"]);
    } else if !external.is_empty() {
        let detail = "may only be set for externally-accessible services";
        errors.push(FieldError::invalid(&external_field, &json!(external), detail));
    }
    let (port, port_field) =
        (number(spec, "healthCheckNodePort"), field.child("healthCheckNodePort"));
    match (needs_health_check(object), port) {
        (true, 0) => errors.push(FieldError::required(&port_field, "")),
        (true, port) => check(errors, &port_field, port, names::port_number(port)),
        (false, 0) => {}
        (false, port) => {
            let detail = "may only be set when `type` is 'LoadBalancer' and \
                `externalTrafficPolicy` is 'Local'";
            errors.push(FieldError::invalid(&port_field, &json!(port), detail));
        }
    }
    for (name, supported) in [
        ("internalTrafficPolicy", &["Cluster", "Local"][..]),
        ("trafficDistribution", &["PreferClose", "PreferSameZone", "PreferSameNode"][..]),
    ] {
        let value = text(spec, name);
        if is_set(spec, name) && !supported.contains(&value) {
            errors.push(FieldError::not_supported(&field.child(name), &json!(value), supported));
        }
    }
}

pub(super) fn validate_status(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let path = "status.loadBalancer.ingress";
    let field = FieldPath::new("status").child("loadBalancer").child("ingress");
    let points = list(new, path);
    if !is_of(new, "LoadBalancer") && !points.is_empty() {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden(&field, detail));
        return;
    }
    let existing: Vec<&str> = list(old, path).iter().map(|point| text(point, "ip")).collect();
    for (n, point) in points.iter().enumerate() {
        let field = field.index(n);
        validate_address(&json!({"ip": text(point, "ip")}), &existing, &field, errors);
        let mode_field = field.child("ipMode");
        match (text(point, "ip").is_empty(), at(point, "ipMode").as_str()) {
            (false, None) => {
                let detail = "must be specified when `ip` is set";
                errors.push(FieldError::required(&mode_field, detail));
            }
            (true, Some(_)) => {
                let detail = "may not be specified when `ip` is not set";
                errors.push(FieldError::forbidden(&mode_field, detail));
            }
            (false, Some(mode)) if !["Proxy", "VIP"].contains(&mode) => {
                let supported = ["Proxy", "VIP"];
                errors.push(FieldError::not_supported(&mode_field, &json!(mode), &supported));
            }
            _ => {}
        }
        validate_hostname(point, &field, errors);
    }
}

pub(super) fn warnings(object: &Value) -> Vec<String> {
    let spec = at(object, "spec");
    let field = FieldPath::new("spec");
    let mut warnings = Vec::new();
    if annotation(object, HINTS_ANNOTATION).is_some() {
        warnings.push(format!(
            "annotation {HINTS_ANNOTATION} is deprecated, please use {MODE_ANNOTATION} instead"
        ));
    }
    let ips = |name: &'static str| {
        let field = field.child(name);
        texts(spec, name)
            .into_iter()
            .enumerate()
            .filter_map(move |(n, ip)| ip_warnings(&field.index(n), ip))
    };
    let headless = is_of(object, "ClusterIP") && text(spec, "clusterIP") == "None";
    if !headless {
        warnings.extend(ips("clusterIPs"));
    }
    let ignored = [
        (!is_empty(spec, "loadBalancerIP"), "spec.loadBalancerIP is ignored for headless services"),
        (!is_empty(spec, "externalIPs"), "spec.externalIPs is ignored for headless services"),
        (
            text(spec, "sessionAffinity") != "None",
            "spec.SessionAffinity is ignored for headless services",
        ),
    ];
    warnings
        .extend(ignored.iter().filter(|(set, _)| headless && *set).map(|(_, it)| (*it).to_owned()));
    warnings.extend(ips("externalIPs"));
    let external_ips = !is_empty(spec, "externalIPs");
    if external_ips && !headless && !is_of(object, "ExternalName") {
        let warning =
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.push(warning.to_owned());
    }
    warnings.extend(ip_warnings(&field.child("loadBalancerIP"), text(spec, "loadBalancerIP")));
    for (n, range) in texts(spec, "loadBalancerSourceRanges").into_iter().enumerate() {
        warnings.extend(cidr_warnings(&field.child("loadBalancerSourceRanges").index(n), range));
    }
    if is_of(object, "ExternalName") && external_ips {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !is_of(object, "ExternalName") && !is_empty(spec, "externalName") {
        let warning = "spec.externalName is ignored when spec.type is not \"ExternalName\"";
        warnings.push(warning.to_owned());
    }
    if text(spec, "trafficDistribution") == "PreferClose" {
        let warning =
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(warning.to_owned());
    }
    warnings
}
