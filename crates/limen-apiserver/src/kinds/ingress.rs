//! Ingress: HTTP hosts and paths, and the services behind them.

use serde_json::{Value, json};

use super::addresses::{check_ip, lenient};
use super::age::age;
use super::fields::{annotation, at, fill_object, is_empty, is_set, list, number, text, texts};
use super::names::{self, check};
use super::table::{self, AGE, NAME, column};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub(super) const RULES: Rules = Rules {
    name: NameRule::Subdomain,
    default: |object| fill_object(object, "spec"),
    prepare_create: |object| fill_object(object, "status.loadBalancer"),
    validate: |object, errors| validate(object, Tolerance::default(), errors),
    validate_create,
    validate_update,
    validate_status,
    warnings,
    ..Rules::NONE
};

/// What an update may keep, since older servers let it in.
#[derive(Clone, Copy, Default)]
struct Tolerance {
    secret_names: bool,
    wildcard_rules: bool,
}

fn validate(object: &Value, tolerance: Tolerance, errors: &mut Vec<FieldError>) {
    let spec = at(object, "spec");
    let field = FieldPath::new("spec");
    if is_empty(spec, "rules") && !is_set(spec, "defaultBackend") {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid(&field, at(spec, "rules"), detail));
    }
    if is_set(spec, "defaultBackend") {
        validate_backend(at(spec, "defaultBackend"), &field.child("defaultBackend"), errors);
    }
    for (n, rule) in list(spec, "rules").iter().enumerate() {
        validate_rule(rule, tolerance, &field.child("rules").index(n), errors);
    }
    for (n, tls) in list(spec, "tls").iter().enumerate() {
        validate_tls(tls, tolerance, &field.child("tls").index(n), errors);
    }
    if is_set(spec, "ingressClassName") {
        let class = text(spec, "ingressClassName");
        check(errors, &field.child("ingressClassName"), class, names::subdomain(class));
    }
}

fn validate_rule(
    rule: &Value,
    tolerance: Tolerance,
    field: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let host = text(rule, "host");
    let wildcard = host.contains('*');
    if !host.is_empty() {
        let field = field.child("host");
        if lenient(host).is_some() {
            let detail = "must be a DNS name, not an IP address";
            errors.push(FieldError::invalid(&field, &json!(host), detail));
        }
        check(errors, &field, host, host_reasons(host));
    }
    if is_set(rule, "http") && !(wildcard && tolerance.wildcard_rules) {
        validate_http(at(rule, "http"), &field.child("http"), errors);
    }
}

fn host_reasons(host: &str) -> Vec<String> {
    if host.contains('*') { names::wildcard_subdomain(host) } else { names::subdomain(host) }
}

fn validate_http(http: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let paths = field.child("paths");
    if is_empty(http, "paths") {
        errors.push(FieldError::required(&paths, ""));
    }
    for (n, path) in list(http, "paths").iter().enumerate() {
        validate_path(path, &paths.index(n), errors);
    }
}

fn validate_path(rule: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let path = text(rule, "path");
    let mut wrong = |detail: &str| {
        errors.push(FieldError::invalid(&field.child("path"), &json!(path), detail));
    };
    match at(rule, "pathType").as_str() {
        None => {
            let detail = "pathType must be specified";
            errors.push(FieldError::required(&field.child("pathType"), detail));
            return;
        }
        Some("Exact" | "Prefix") => {
            if !path.starts_with('/') {
                wrong("must be an absolute path");
            }
            for sequence in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.contains(sequence) {
                    wrong(&format!("must not contain '{sequence}'"));
                }
            }
            for suffix in ["/..", "/."] {
                if path.ends_with(suffix) {
                    wrong(&format!("cannot end with '{suffix}'"));
                }
            }
        }
        Some("ImplementationSpecific") => {
            if !path.is_empty() && !path.starts_with('/') {
                wrong("must be an absolute path");
            }
        }
        Some(other) => {
            let supported = ["Exact", "ImplementationSpecific", "Prefix"];
            let field = field.child("pathType");
            errors.push(FieldError::not_supported(&field, &json!(other), &supported));
        }
    }
    validate_backend(at(rule, "backend"), &field.child("backend"), errors);
}

fn validate_backend(backend: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let whole = |detail: &str| FieldError::invalid(field, &json!(""), detail);
    match (is_set(backend, "resource"), is_set(backend, "service")) {
        (true, true) => errors.push(whole("cannot set both resource and service backends")),
        (true, false) => {
            validate_local_reference(at(backend, "resource"), &field.child("resource"), errors);
        }
        (false, true) => validate_service(at(backend, "service"), field, errors),
        (false, false) => errors.push(whole("resource or service backend is required")),
    }
}

fn validate_service(service: &Value, backend: &FieldPath, errors: &mut Vec<FieldError>) {
    let field = backend.child("service");
    match text(service, "name") {
        "" => errors.push(FieldError::required(&field.child("name"), "")),
        name => check(errors, &field.child("name"), name, names::label(name)),
    }
    let port = field.child("port");
    match (text(service, "port.name"), number(service, "port.number")) {
        ("", 0) => errors.push(FieldError::required(backend, "port name or number is required")),
        ("", number) => check(errors, &port.child("number"), number, names::port_number(number)),
        (name, 0) => check(errors, &port.child("name"), name, names::port_name(name)),
        _ => {
            let detail = "cannot set both port name & port number";
            errors.push(FieldError::invalid(backend, &json!(""), detail));
        }
    }
}

/// Adds what is wrong with a reference to an object in the same namespace.
fn validate_local_reference(reference: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    if is_set(reference, "apiGroup") {
        let group = text(reference, "apiGroup");
        check(errors, &field.child("apiGroup"), group, names::subdomain(group));
    }
    for name in ["kind", "name"] {
        match text(reference, name) {
            "" => errors.push(FieldError::required(&field.child(name), "")),
            value => check(errors, &field.child(name), value, names::path_segment(value)),
        }
    }
}

fn validate_tls(
    tls: &Value,
    tolerance: Tolerance,
    field: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    for (n, host) in texts(tls, "hosts").into_iter().enumerate() {
        check(errors, &field.child("hosts").index(n), host, host_reasons(host));
    }
    if !tolerance.secret_names {
        let secret = text(tls, "secretName");
        check(errors, &field.child("secretName"), secret, secret_name_reasons(secret));
    }
}

fn secret_name_reasons(name: &str) -> Vec<String> {
    if name.is_empty() { Vec::new() } else { names::subdomain(name) }
}

fn validate_create(object: &Value, errors: &mut Vec<FieldError>) {
    let class = at(object, "spec.ingressClassName").as_str();
    if let (Some(annotated), Some(class)) = (annotation(object, CLASS_ANNOTATION), class)
        && annotated != class
    {
        let field = FieldPath::new("annotations").child(CLASS_ANNOTATION);
        let detail = "must match `ingressClassName` when both are specified";
        errors.push(FieldError::invalid(&field, &json!(annotated), detail));
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let tolerance = Tolerance {
        secret_names: list(old, "spec.tls")
            .iter()
            .any(|tls| !secret_name_reasons(text(tls, "secretName")).is_empty()),
        wildcard_rules: list(old, "spec.rules").iter().any(|rule| {
            let mut errors = Vec::new();
            if text(rule, "host").contains('*') && is_set(rule, "http") {
                validate_http(at(rule, "http"), &FieldPath::root(), &mut errors);
            }
            !errors.is_empty()
        }),
    };
    errors.clear();
    validate(new, tolerance, errors);
}

fn validate_status(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let field = FieldPath::new("status").child("loadBalancer").child("ingress");
    let path = "status.loadBalancer.ingress";
    let existing: Vec<&str> = list(old, path).iter().map(|point| text(point, "ip")).collect();
    for (n, point) in list(new, path).iter().enumerate() {
        validate_address(point, &existing, &field.index(n), errors);
    }
}

/// Adds what is wrong with a point at which a load balancer is reached.
pub(super) fn validate_address(
    point: &Value,
    existing: &[&str],
    field: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let ip = text(point, "ip");
    if !ip.is_empty() && !existing.contains(&ip) {
        check_ip(errors, &field.child("ip"), ip);
    }
    validate_hostname(point, field, errors);
}

/// Adds what is wrong with the hostname at which a load balancer is reached.
pub(super) fn validate_hostname(point: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let hostname = text(point, "hostname");
    if !hostname.is_empty() {
        let field = field.child("hostname");
        check(errors, &field, hostname, names::subdomain(hostname));
        if lenient(hostname).is_some() {
            let detail = "must be a DNS name, not an IP address";
            errors.push(FieldError::invalid(&field, &json!(hostname), detail));
        }
    }
}

fn warnings(object: &Value) -> Vec<String> {
    let annotated = annotation(object, CLASS_ANNOTATION).is_some();
    if !annotated || is_set(object, "spec.ingressClassName") {
        return Vec::new();
    }
    vec![format!(
        "annotation {CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead"
    )]
}

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column("Class", "The ingress class that serves it."),
    column("Hosts", "The hosts that it has rules for."),
    column("Address", "Where the load balancer is reached."),
    column("Ports", "The ports that it listens on."),
    AGE,
];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let class = at(object, "spec.ingressClassName").as_str().unwrap_or("<none>");
    let ports = if is_empty(object, "spec.tls") { "80" } else { "80, 443" };
    vec![
        table::name(object),
        class.into(),
        hosts(list(object, "spec.rules")).into(),
        table::load_balancer(object).into(),
        ports.into(),
        age(object, now),
    ]
}

/// The first three hosts and the count of the other rules, with or without a host.
fn hosts(rules: &[Value]) -> String {
    let named = rules.iter().enumerate().filter(|(_, rule)| !is_empty(rule, "host"));
    let first: Vec<(usize, &str)> =
        named.map(|(n, rule)| (n, text(rule, "host"))).take(3).collect();
    let hosts = first.iter().map(|(_, host)| *host).collect::<Vec<_>>().join(",");
    match first[..] {
        [] => "*".to_owned(),
        [_, _, (last, _)] if last + 1 < rules.len() => {
            format!("{hosts} + {} more...", rules.len() - 3)
        }
        _ => hosts,
    }
}
