//! Endpoints and EndpointSlice: the addresses behind a Service.

use serde_json::{Value, json};

use super::addresses::{check_canonical_ip, check_endpoint_ip, check_ip, is_ipv6, lenient};
use super::age::age;
use super::fields::{
    at, fill, fill_object, is_empty, is_set, items_mut, list, number, set, text, texts,
};
use super::metadata::IMMUTABLE;
use super::names::{self, check};
use super::table::{self, AGE, NAME, at_most, column};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, ResourceType, Rules};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(crate) const ENDPOINTS_DEPRECATED: &str =
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";

pub(super) const RULES: Rules = Rules {
    name: NameRule::Subdomain,
    default: |object| {
        for subset in items_mut(object, "subsets") {
            for port in items_mut(subset, "ports") {
                fill(port, "protocol", "TCP");
            }
        }
    },
    validate,
    warnings: |_| vec![ENDPOINTS_DEPRECATED.to_owned()],
    ..Rules::NONE
};

fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    for (n, subset) in list(object, "subsets").iter().enumerate() {
        let field = FieldPath::new("subsets").index(n);
        if is_empty(subset, "addresses") && is_empty(subset, "notReadyAddresses") {
            let detail = "must specify `addresses` or `notReadyAddresses`";
            errors.push(FieldError::required(&field, detail));
        }
        for path in ["addresses", "notReadyAddresses"] {
            for (n, address) in list(subset, path).iter().enumerate() {
                validate_address(address, &field.child(path).index(n), errors);
            }
        }
        let ports = list(subset, "ports");
        for (n, port) in ports.iter().enumerate() {
            let field = field.child("ports").index(n);
            match text(port, "name") {
                "" if ports.len() > 1 => {
                    errors.push(FieldError::required(&field.child("name"), ""));
                }
                "" => {}
                name => check(errors, &field.child("name"), name, names::label(name)),
            }
            let number = number(port, "port");
            check(errors, &field.child("port"), number, names::port_number(number));
            check_protocols(port, &field, errors);
        }
    }
}

fn check_protocols(port: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let protocol = text(port, "protocol");
    if !PROTOCOLS.contains(&protocol) {
        let field = field.child("protocol");
        errors.push(FieldError::not_supported(&field, &json!(protocol), &PROTOCOLS));
    }
    if is_set(port, "appProtocol") {
        let protocol = text(port, "appProtocol");
        check(errors, &field.child("appProtocol"), protocol, names::label_key(protocol));
    }
}

fn validate_address(address: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let ip = text(address, "ip");
    check_ip(errors, &field.child("ip"), ip);
    if !is_empty(address, "hostname") {
        let hostname = text(address, "hostname");
        check(errors, &field.child("hostname"), hostname, names::label(hostname));
    }
    if is_set(address, "nodeName") {
        let node = text(address, "nodeName");
        check(errors, &field.child("nodeName"), node, names::subdomain(node));
    }
    check_endpoint_ip(errors, &field.child("ip"), ip);
}

pub(super) const COLUMNS: &[Column] = &[NAME, column("Endpoints", "The addresses and ports."), AGE];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let mut points = Vec::new();
    for subset in list(object, "subsets") {
        let addresses = list(subset, "addresses").iter().map(|address| text(address, "ip"));
        match list(subset, "ports") {
            [] => points.extend(addresses.map(str::to_owned)),
            ports => {
                for port in ports {
                    let port = number(port, "port");
                    points.extend(addresses.clone().map(|ip| match ip.contains(':') {
                        true => format!("[{ip}]:{port}"),
                        false => format!("{ip}:{port}"),
                    }));
                }
            }
        }
    }
    let shown = match is_empty(object, "subsets") {
        true => "<none>".to_owned(),
        false => at_most(&points, 3, points.len()),
    };
    vec![table::name(object), shown.into(), age(object, now)]
}

pub(super) const SLICE_RULES: Rules = Rules {
    name: NameRule::Subdomain,
    default: |object| {
        for port in items_mut(object, "ports") {
            if !is_set(port, "name") {
                set(port, "name", "");
            }
            fill(port, "protocol", "TCP");
        }
        for endpoint in items_mut(object, "endpoints") {
            fill_object(endpoint, "conditions");
        }
        fill(object, "endpoints", Value::Null);
        fill(object, "ports", Value::Null);
    },
    validate: |object, errors| validate_slice(object, false, errors),
    validate_update: |new, old, errors| {
        if text(new, "addressType") != text(old, "addressType") {
            let field = FieldPath::new("addressType");
            errors.push(FieldError::invalid(&field, at(new, "addressType"), IMMUTABLE));
        }
    },
    ..Rules::NONE
};

/// Lets EndpointSlices have loopback addresses.
pub(crate) fn allow_loopback(types: &mut [ResourceType]) {
    for slices in types.iter_mut().filter(|it| it.kind == "EndpointSlice") {
        slices.rules.validate = |object, errors| validate_slice(object, true, errors);
    }
}

fn validate_slice(object: &Value, loopback: bool, errors: &mut Vec<FieldError>) {
    let (kind, kind_field) = (text(object, "addressType"), FieldPath::new("addressType"));
    let supported = ["FQDN", "IPv4", "IPv6"];
    if kind.is_empty() {
        errors.push(FieldError::required(&kind_field, ""));
    } else if !supported.contains(&kind) {
        errors.push(FieldError::not_supported(&kind_field, &json!(kind), &supported));
    }
    let ports = list(object, "ports");
    for (n, port) in ports.iter().enumerate() {
        let field = FieldPath::new("ports").index(n);
        let name = text(port, "name");
        if !name.is_empty() {
            check(errors, &field.child("name"), name, names::label(name));
        }
        if ports[..n].iter().any(|earlier| text(earlier, "name") == name) {
            errors.push(FieldError::duplicate(&field.child("name"), &json!(name)));
        }
        check_protocols(port, &field, errors);
    }
    let endpoints = list(object, "endpoints");
    if endpoints.len() > 1000 {
        errors.push(FieldError::too_many(&FieldPath::new("endpoints"), endpoints.len(), 1000));
        return;
    }
    for (n, endpoint) in endpoints.iter().enumerate() {
        let field = FieldPath::new("endpoints").index(n);
        validate_endpoint(endpoint, kind, loopback, &field, errors);
    }
}

fn validate_endpoint(
    endpoint: &Value,
    kind: &str,
    loopback: bool,
    field: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let (addresses, addresses_field) = (texts(endpoint, "addresses"), field.child("addresses"));
    if addresses.is_empty() {
        let detail = "must contain at least 1 address";
        errors.push(FieldError::required(&addresses_field, detail));
    } else if addresses.len() > 100 {
        errors.push(FieldError::too_many(&addresses_field, addresses.len(), 100));
    }
    for (n, address) in addresses.into_iter().enumerate() {
        let (field, before) = (addresses_field.index(n), errors.len());
        match kind {
            "IPv4" => check_ip(errors, &field, address),
            "IPv6" => check_canonical_ip(errors, &field, address),
            "FQDN" => {
                validate_domain(address, &field, errors);
                continue;
            }
            _ => continue,
        }
        if errors.len() == before {
            if is_ipv6(address) != (kind == "IPv6") {
                let detail = format!("must be an {kind} address");
                errors.push(FieldError::invalid(&addresses_field, &json!(address), &detail));
            }
            if !(loopback && lenient(address).is_some_and(|ip| ip.is_loopback())) {
                check_endpoint_ip(errors, &field, address);
            }
        }
    }
    if is_set(endpoint, "nodeName") {
        let node = text(endpoint, "nodeName");
        check(errors, &field.child("nodeName"), node, names::subdomain(node));
    }
    if is_set(endpoint, "hostname") {
        let hostname = text(endpoint, "hostname");
        check(errors, &field.child("hostname"), hostname, names::label(hostname));
    }
}

fn validate_domain(domain: &str, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let name = domain.strip_suffix('.').unwrap_or(domain);
    let reasons = names::subdomain(name);
    if domain.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !reasons.is_empty() {
        errors.push(FieldError::invalid(field, &json!(name), &reasons.join(",")));
    } else if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(field, &json!(name), detail));
    }
}

pub(super) const SLICE_COLUMNS: &[Column] = &[
    NAME,
    column("AddressType", "What the addresses are."),
    column("Ports", "The ports of every address."),
    column("Endpoints", "The addresses."),
    AGE,
];

pub(super) fn slice_cells(object: &Value, now: i64) -> Vec<Value> {
    let ports = list(object, "ports").iter().map(|port| match at(port, "port").as_i64() {
        Some(number) => number.to_string(),
        None => at(port, "name").as_str().unwrap_or("*").to_owned(),
    });
    let addresses = list(object, "endpoints").iter().flat_map(|it| texts(it, "addresses"));
    let shown = |items: Vec<String>| match at_most(&items, 3, items.len()) {
        shown if shown.is_empty() => "<unset>".to_owned(),
        shown => shown,
    };
    vec![
        table::name(object),
        text(object, "addressType").into(),
        shown(ports.collect()).into(),
        shown(addresses.map(str::to_owned).collect()).into(),
        age(object, now),
    ]
}
