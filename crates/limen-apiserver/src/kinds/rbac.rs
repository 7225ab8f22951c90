//! Roles and their bindings: who may do what.

use serde_json::{Value, json};

use super::age::age;
use super::fields::{at, fill, is_empty, is_set, items_mut, list, text};
use super::labels::check_selector;
use super::names::{self, check};
use super::table::{self, AGE, NAME, column, wide};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) const ROLE_RULES: Rules = Rules {
    name: NameRule::PathSegment,
    default: default_rules,
    validate: |object, errors| validate_rules(object, true, errors),
    ..Rules::NONE
};

pub(super) const CLUSTER_ROLE_RULES: Rules = Rules {
    name: NameRule::PathSegment,
    default: default_rules,
    validate: |object, errors| {
        validate_rules(object, false, errors);
        validate_aggregation(object, errors);
    },
    ..Rules::NONE
};

pub(super) const ROLE_BINDING_RULES: Rules = Rules {
    name: NameRule::PathSegment,
    default: default_binding,
    validate: |object, errors| validate_binding(object, &["Role", "ClusterRole"], errors),
    validate_update: validate_binding_update,
    ..Rules::NONE
};

pub(super) const CLUSTER_ROLE_BINDING_RULES: Rules = Rules {
    name: NameRule::PathSegment,
    default: default_binding,
    validate: |object, errors| validate_binding(object, &["ClusterRole"], errors),
    validate_update: validate_binding_update,
    ..Rules::NONE
};

/// Rules are shown even if there are none.
fn default_rules(object: &mut Value) {
    fill(object, "rules", Value::Null);
}

fn default_binding(object: &mut Value) {
    fill(object, "roleRef.apiGroup", GROUP);
    for subject in items_mut(object, "subjects") {
        if ["User", "Group"].contains(&text(subject, "kind")) {
            fill(subject, "apiGroup", GROUP);
        }
    }
}

fn validate_rules(object: &Value, namespaced: bool, errors: &mut Vec<FieldError>) {
    for (n, rule) in list(object, "rules").iter().enumerate() {
        let field = FieldPath::new("rules").index(n);
        if is_empty(rule, "verbs") {
            let detail = "verbs must contain at least one value";
            errors.push(FieldError::required(&field.child("verbs"), detail));
        }
        if !is_empty(rule, "nonResourceURLs") {
            let (field, urls) = (field.child("nonResourceURLs"), at(rule, "nonResourceURLs"));
            if namespaced {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                errors.push(FieldError::invalid(&field, urls, detail));
            }
            if ["apiGroups", "resources", "resourceNames"].iter().any(|it| !is_empty(rule, it)) {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errors.push(FieldError::invalid(&field, urls, detail));
            }
            continue;
        }
        if is_empty(rule, "apiGroups") {
            let detail = "resource rules must supply at least one api group";
            errors.push(FieldError::required(&field.child("apiGroups"), detail));
        }
        if is_empty(rule, "resources") {
            let detail = "resource rules must supply at least one resource";
            errors.push(FieldError::required(&field.child("resources"), detail));
        }
    }
}

fn validate_aggregation(object: &Value, errors: &mut Vec<FieldError>) {
    if !is_set(object, "aggregationRule") {
        return;
    }
    let field = FieldPath::new("aggregationRule").child("clusterRoleSelectors");
    let selectors = list(object, "aggregationRule.clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(&field, detail));
    }
    for (n, selector) in selectors.iter().enumerate() {
        check_selector(errors, &field.index(n), selector);
    }
}

fn validate_binding(object: &Value, kinds: &[&str], errors: &mut Vec<FieldError>) {
    let (role, field) = (at(object, "roleRef"), FieldPath::new("roleRef"));
    if text(role, "apiGroup") != GROUP {
        let group = json!(text(role, "apiGroup"));
        errors.push(FieldError::not_supported(&field.child("apiGroup"), &group, &[GROUP]));
    }
    if !kinds.contains(&text(role, "kind")) {
        let kind = json!(text(role, "kind"));
        errors.push(FieldError::not_supported(&field.child("kind"), &kind, kinds));
    }
    match text(role, "name") {
        "" => errors.push(FieldError::required(&field.child("name"), "")),
        name => check(errors, &field.child("name"), name, names::path_segment(name)),
    }
    let namespaced = kinds.contains(&"Role");
    for (n, subject) in list(object, "subjects").iter().enumerate() {
        validate_subject(subject, namespaced, &FieldPath::new("subjects").index(n), errors);
    }
}

fn validate_subject(
    subject: &Value,
    namespaced: bool,
    field: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let (name, group) = (text(subject, "name"), text(subject, "apiGroup"));
    if name.is_empty() {
        errors.push(FieldError::required(&field.child("name"), ""));
    }
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                check(errors, &field.child("name"), name, names::subdomain(name));
            }
            if !group.is_empty() {
                let field = field.child("apiGroup");
                errors.push(FieldError::not_supported(&field, &json!(group), &[""]));
            }
            if !namespaced && is_empty(subject, "namespace") {
                errors.push(FieldError::required(&field.child("namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                let field = field.child("apiGroup");
                errors.push(FieldError::not_supported(&field, &json!(group), &[GROUP]));
            }
        }
        other => {
            let (field, kinds) = (field.child("kind"), ["ServiceAccount", "User", "Group"]);
            errors.push(FieldError::not_supported(&field, &json!(other), &kinds));
        }
    }
}

fn validate_binding_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (new, old) = (at(new, "roleRef"), at(old, "roleRef"));
    if new != old {
        // The Go structure that Kubernetes shows a role in.
        let shown = format!(
            r#"{{"APIGroup":{},"Kind":{},"Name":{}}}"#,
            at(new, "apiGroup"),
            at(new, "kind"),
            at(new, "name")
        );
        let field = FieldPath::new("roleRef");
        errors.push(FieldError::invalid_shown(&field, &shown, "cannot change roleRef"));
    }
}

pub(super) const ROLE_COLUMNS: &[Column] = &[NAME, table::CREATED_AT];

pub(super) fn role_cells(object: &Value, _now: i64) -> Vec<Value> {
    vec![table::name(object), text(object, "metadata.creationTimestamp").into()]
}

pub(super) const BINDING_COLUMNS: &[Column] = &[
    NAME,
    column("Role", "What the subjects may do."),
    AGE,
    wide("Users", "The users that are bound."),
    wide("Groups", "The groups that are bound."),
    wide("ServiceAccounts", "The service accounts that are bound."),
];

pub(super) fn binding_cells(object: &Value, now: i64) -> Vec<Value> {
    let role = at(object, "roleRef");
    let of = |kind: &str| {
        let subjects = list(object, "subjects").iter().filter(|it| text(it, "kind") == kind);
        let shown = subjects.map(|subject| match text(subject, "namespace") {
            namespace if kind == "ServiceAccount" => {
                format!("{namespace}/{}", text(subject, "name"))
            }
            _ => text(subject, "name").to_owned(),
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    vec![
        table::name(object),
        format!("{}/{}", text(role, "kind"), text(role, "name")).into(),
        age(object, now),
        of("User").into(),
        of("Group").into(),
        of("ServiceAccount").into(),
    ]
}
