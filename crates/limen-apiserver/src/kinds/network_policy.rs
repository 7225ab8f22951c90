//! NetworkPolicy: who may talk to pods, and to whom they may.

use serde_json::{Value, json};

use super::addresses::{check_cidr, lenient_cidr};
use super::age::age;
use super::fields::{at, fill, fill_object, is_empty, is_set, items_mut, list, set, text, texts};
use super::labels::{self, check_selector};
use super::names::{self, check};
use super::table::{self, AGE, NAME, column};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

pub(super) const RULES: Rules =
    Rules { name: NameRule::Subdomain, default, validate, ..Rules::NONE };

fn default(object: &mut Value) {
    fill_object(object, "spec.podSelector");
    if is_empty(object, "spec.policyTypes") {
        let types = if is_empty(object, "spec.egress") {
            json!(["Ingress"])
        } else {
            json!(["Ingress", "Egress"])
        };
        set(object, "spec.policyTypes", types);
    }
    for direction in ["spec.ingress", "spec.egress"] {
        for rule in items_mut(object, direction) {
            for port in items_mut(rule, "ports") {
                fill(port, "protocol", "TCP");
            }
        }
    }
}

fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let (spec, field) = (at(object, "spec"), FieldPath::new("spec"));
    check_selector(errors, &field.child("podSelector"), at(spec, "podSelector"));
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (n, rule) in list(spec, direction).iter().enumerate() {
            let field = field.child(direction).index(n);
            for (n, port) in list(rule, "ports").iter().enumerate() {
                validate_port(port, &field.child("ports").index(n), errors);
            }
            for (n, peer) in list(rule, peers).iter().enumerate() {
                validate_peer(peer, &field.child(peers).index(n), errors);
            }
        }
    }
    let (types, types_field) = (texts(spec, "policyTypes"), field.child("policyTypes"));
    if types.len() > 2 {
        let detail = "may not specify more than two policyTypes";
        errors.push(FieldError::invalid(&types_field, &json!(types), detail));
        return;
    }
    for (n, kind) in types.into_iter().enumerate() {
        let supported = ["Ingress", "Egress"];
        if !supported.contains(&kind) {
            let field = types_field.index(n);
            errors.push(FieldError::not_supported(&field, &json!(kind), &supported));
        }
    }
}

fn validate_port(port: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let (protocol, supported) = (text(port, "protocol"), ["TCP", "UDP", "SCTP"]);
    if is_set(port, "protocol") && !supported.contains(&protocol) {
        let field = field.child("protocol");
        errors.push(FieldError::not_supported(&field, &json!(protocol), &supported));
    }
    let (port_field, end_field) = (field.child("port"), field.child("endPort"));
    let end = at(port, "endPort").as_i64();
    match (at(port, "port"), end) {
        (Value::Null, Some(end)) => {
            let detail = "may not be specified when `port` is not specified";
            errors.push(FieldError::invalid(&end_field, &json!(end), detail));
        }
        (Value::Null, None) => {}
        (Value::String(name), end) => {
            if let Some(end) = end {
                let detail = "may not be specified when `port` is non-numeric";
                errors.push(FieldError::invalid(&end_field, &json!(end), detail));
            }
            check(errors, &port_field, name.as_str(), names::port_name(name));
        }
        (number, end) => {
            let number = number.as_i64().unwrap_or_default();
            check(errors, &port_field, number, names::port_number(number));
            if let Some(end) = end {
                if end < number {
                    let detail = "must be greater than or equal to `port`";
                    errors.push(FieldError::invalid(&end_field, &json!(number), detail));
                }
                check(errors, &end_field, end, names::port_number(end));
            }
        }
    }
}

fn validate_peer(peer: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let selectors = ["podSelector", "namespaceSelector"];
    for name in selectors {
        check_selector(errors, &field.child(name), at(peer, name));
    }
    let selected = selectors.iter().any(|name| is_set(peer, name));
    let block = at(peer, "ipBlock");
    if !block.is_null() {
        validate_block(block, &field.child("ipBlock"), errors);
    }
    match (selected, block.is_null()) {
        (false, true) => errors.push(FieldError::required(field, "must specify a peer")),
        (true, false) => {
            let detail = "may not specify both ipBlock and another peer";
            errors.push(FieldError::forbidden(field, detail));
        }
        _ => {}
    }
}

fn validate_block(block: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let cidr = text(block, "cidr");
    if cidr.is_empty() {
        errors.push(FieldError::required(&field.child("cidr"), ""));
        return;
    }
    check_cidr(errors, &field.child("cidr"), cidr);
    let Some(whole) = lenient_cidr(cidr) else { return };
    for (n, except) in texts(block, "except").into_iter().enumerate() {
        let field = field.child("except").index(n);
        check_cidr(errors, &field, except);
        let Some(part) = lenient_cidr(except) else { continue };
        if !whole.contains(&part.network()) || whole.prefix_len() >= part.prefix_len() {
            let detail = "must be a strict subset of `cidr`";
            errors.push(FieldError::invalid(&field, &json!(except), detail));
        }
    }
}

pub(super) const COLUMNS: &[Column] =
    &[NAME, column("Pod-Selector", "Which pods the policy is for."), AGE];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let selector = labels::shown_or_none(at(object, "spec.podSelector"));
    vec![table::name(object), selector.into(), age(object, now)]
}
