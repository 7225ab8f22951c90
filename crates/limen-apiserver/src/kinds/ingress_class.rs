//! IngressClass: who serves an Ingress.

use serde_json::{Value, json};

use super::age::age;
use super::fields::{annotation, at, fill, fill_object, is_set, text};
use super::metadata::IMMUTABLE;
use super::names::{self, check, not_of_form};
use super::table::{self, AGE, NAME, column};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

const DEFAULT_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";
const CONTROLLER_LIMIT: usize = 250;

pub(super) const RULES: Rules = Rules {
    name: NameRule::Subdomain,
    default: |object| {
        fill_object(object, "spec");
        if is_set(object, "spec.parameters") {
            fill(object, "spec.parameters.scope", "Cluster");
        }
    },
    validate,
    validate_update: |new, old, errors| {
        let (new, old) = (at(new, "spec.controller"), at(old, "spec.controller"));
        if new != old {
            let field = FieldPath::new("spec").child("controller");
            errors.insert(0, FieldError::invalid(&field, new, IMMUTABLE));
        }
    },
    ..Rules::NONE
};

fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let field = FieldPath::new("spec");
    let controller = text(object, "spec.controller");
    let controller_field = field.child("controller");
    if controller.len() > CONTROLLER_LIMIT {
        errors.push(FieldError::too_long(&controller_field, CONTROLLER_LIMIT));
    }
    check_domain_path(errors, &controller_field, controller);
    if is_set(object, "spec.parameters") {
        let field = field.child("parameters");
        validate_parameters(at(object, "spec.parameters"), &field, errors);
    }
}

/// Adds what is wrong with a path that begins with a domain.
fn check_domain_path(errors: &mut Vec<FieldError>, field: &FieldPath, value: &str) {
    let mut wrong = |value: &str, detail: &str| {
        errors.push(FieldError::invalid(field, &json!(value), detail));
    };
    let (domain, path) = match value.split_once('/') {
        _ if value.is_empty() => return errors.push(FieldError::required(field, "")),
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => (domain, path),
        _ => return wrong(value, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    };
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    let path_is_good = path.bytes().all(allowed);
    names::subdomain(domain).iter().for_each(|reason| wrong(domain, reason));
    if !path_is_good {
        let expression = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";
        wrong(path, &not_of_form("Invalid path", expression, &[]));
    }
}

fn validate_parameters(parameters: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    if is_set(parameters, "apiGroup") {
        let group = text(parameters, "apiGroup");
        check(errors, &field.child("apiGroup"), group, names::subdomain(group));
    }
    for name in ["kind", "name"] {
        match text(parameters, name) {
            "" => errors.push(FieldError::required(&field.child(name), "")),
            value => check(errors, &field.child(name), value, names::path_segment(value)),
        }
    }
    let namespace = field.child("namespace");
    match (text(parameters, "scope"), at(parameters, "namespace").as_str()) {
        ("Namespace", None) => {
            let detail = "`parameters.scope` is set to 'Namespace'";
            errors.push(FieldError::required(&namespace, detail));
        }
        ("Namespace", Some(name)) => check(errors, &namespace, name, names::label(name)),
        ("Cluster", Some(_)) => {
            let detail = "`parameters.scope` is set to 'Cluster'";
            errors.push(FieldError::forbidden(&namespace, detail));
        }
        ("Cluster", None) => {}
        (scope, _) => {
            let supported = ["Cluster", "Namespace"];
            let field = field.child("scope");
            errors.push(FieldError::not_supported(&field, &json!(scope), &supported));
        }
    }
}

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column("Controller", "Who serves ingresses of the class."),
    column("Parameters", "The object with more settings."),
    AGE,
];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let name = text(object, "metadata.name");
    let default = annotation(object, DEFAULT_ANNOTATION) == Some("true");
    let name = if default { format!("{name} (default)") } else { name.to_owned() };
    let parameters = at(object, "spec.parameters");
    let (kind, of) = (text(parameters, "kind"), text(parameters, "name"));
    let parameters = match at(parameters, "apiGroup").as_str() {
        _ if parameters.is_null() => "<none>".to_owned(),
        Some(group) => format!("{kind}.{group}/{of}"),
        None => format!("{kind}/{of}"),
    };
    let controller = table::text_or(object, "spec.controller", "");
    vec![name.into(), controller.into(), parameters.into(), age(object, now)]
}
