//! What holds for the metadata of every object.
//!
//! The rest of the server calls [`validate_create`] or [`validate_update`] before the rules of the
//! kind. A name has been generated and the namespace filled in from the request by then.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::fields::{at, flag, is_set, list, number, text, texts};
use super::labels::check_labels;
use super::names::{self, check};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{NameRule, ResourceType};

/// The words for a field that must stay as it is.
pub(super) const IMMUTABLE: &str = "field is immutable";

const ANNOTATIONS_LIMIT: usize = 256 * 1024;
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// What is wrong with the metadata of a new object.
pub(crate) fn validate_create(kind: &ResourceType, object: &Value, errors: &mut Vec<FieldError>) {
    let field = FieldPath::new("metadata");
    let metadata = at(object, "metadata");

    let prefix = text(metadata, "generateName");
    if !prefix.is_empty() {
        let reasons = name_prefix_reasons(kind.rules.name, prefix);
        check(errors, &field.child("generateName"), prefix, reasons);
    }
    match text(metadata, "name") {
        "" => {
            let detail = "name or generateName is required";
            errors.push(FieldError::required(&field.child("name"), detail));
        }
        name => check(errors, &field.child("name"), name, name_reasons(kind.rules.name, name)),
    }
    let namespace = field.child("namespace");
    match (kind.namespaced, text(metadata, "namespace")) {
        (true, "") => errors.push(FieldError::required(&namespace, "")),
        (true, name) => check(errors, &namespace, name, names::label(name)),
        (false, "") => {}
        (false, _) => errors.push(FieldError::forbidden(&namespace, "not allowed on this type")),
    }
    if number(metadata, "generation") < 0 {
        let detail = "must be greater than or equal to 0";
        let generation = at(metadata, "generation");
        errors.push(FieldError::invalid(&field.child("generation"), generation, detail));
    }
    validate_maps(kind, metadata, &field, errors);
}

/// What is wrong with a change of an object's metadata.
pub(crate) fn validate_update(
    kind: &ResourceType,
    new: &Value,
    old: &Value,
    errors: &mut Vec<FieldError>,
) {
    let field = FieldPath::new("metadata");
    let (new, old) = (at(new, "metadata"), at(old, "metadata"));

    if is_set(old, "deletionTimestamp") {
        validate_no_new_finalizers(new, old, &field, errors);
    }
    if text(new, "resourceVersion").is_empty() {
        let detail = "must be specified for an update";
        errors.push(FieldError::invalid(&field.child("resourceVersion"), &json!(""), detail));
    }
    if number(new, "generation") < number(old, "generation") {
        let generation = json!(number(new, "generation"));
        let detail = "must not be decremented";
        errors.push(FieldError::invalid(&field.child("generation"), &generation, detail));
    }
    for name in ["name", "namespace", "uid"] {
        if text(new, name) != text(old, name) {
            let value = json!(text(new, name));
            errors.push(FieldError::invalid(&field.child(name), &value, IMMUTABLE));
        }
    }
    for name in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if at(new, name) != at(old, name) {
            errors.push(FieldError::invalid(&field.child(name), at(new, name), IMMUTABLE));
        }
    }
    validate_maps(kind, new, &field, errors);
}

/// What is wrong with a name.
pub(crate) fn name_reasons(rule: NameRule, name: &str) -> Vec<String> {
    match rule {
        NameRule::Subdomain => names::subdomain(name),
        NameRule::Label => names::label(name),
        NameRule::Rfc1035Label => names::rfc1035_label(name),
        NameRule::PathSegment => names::path_segment(name),
    }
}

/// What is wrong with the beginning of a generated name. It may end in a dash, since more follows.
fn name_prefix_reasons(rule: NameRule, prefix: &str) -> Vec<String> {
    match prefix.strip_suffix('-') {
        _ if rule == NameRule::PathSegment => names::path_segment_prefix(prefix),
        Some(rest) if !rest.is_empty() => {
            let mut masked = rest.to_owned();
            masked.pop();
            masked.push('a');
            name_reasons(rule, &masked)
        }
        _ => name_reasons(rule, prefix),
    }
}

fn validate_maps(
    kind: &ResourceType,
    metadata: &Value,
    field: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    check_labels(errors, &field.child("labels"), at(metadata, "labels"));
    check_annotations(errors, &field.child("annotations"), at(metadata, "annotations"));
    validate_owners(list(metadata, "ownerReferences"), &field.child("ownerReferences"), errors);
    validate_finalizers(kind, metadata, &field.child("finalizers"), errors);
    validate_managed_fields(list(metadata, "managedFields"), &field.child("managedFields"), errors);
}

/// Adds what is wrong with a map of annotations.
pub(super) fn check_annotations(
    errors: &mut Vec<FieldError>,
    field: &FieldPath,
    annotations: &Value,
) {
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        check(errors, field, key.as_str(), names::label_key(&key.to_lowercase()));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long(field, ANNOTATIONS_LIMIT));
    }
}

fn validate_owners(owners: &[Value], field: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut controller: Option<String> = None;
    for owner in owners {
        let required = [
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ];
        let api_version = text(owner, "apiVersion");
        if api_version.is_empty() || api_version.ends_with('/') {
            let value = json!(api_version);
            let detail = "version must not be empty";
            errors.push(FieldError::invalid(&field.child("apiVersion"), &value, detail));
        }
        for (name, detail) in required {
            if text(owner, name).is_empty() {
                errors.push(FieldError::invalid(&field.child(name), &json!(""), detail));
            }
        }
        if (api_version, text(owner, "kind")) == ("v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid_shown(field, &shown_owner(owner), detail));
        }
        if flag(owner, "controller") {
            let this = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            match &controller {
                Some(first) => {
                    let shown: Vec<String> = owners.iter().map(shown_owner).collect();
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in \
                         references for {first} and {this}"
                    );
                    let shown = format!("[{}]", shown.join(","));
                    errors.push(FieldError::invalid_shown(field, &shown, &detail));
                }
                None => controller = Some(this),
            }
        }
    }
}

/// An owner reference with its fields in the order that Kubernetes shows them.
fn shown_owner(owner: &Value) -> String {
    let order = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let fields = order.into_iter().filter(|name| is_set(owner, name));
    let fields: Vec<String> = fields.map(|name| format!("{name:?}:{}", at(owner, name))).collect();
    format!("{{{}}}", fields.join(","))
}

fn validate_finalizers(
    kind: &ResourceType,
    metadata: &Value,
    field: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let finalizers = texts(metadata, "finalizers");
    for finalizer in &finalizers {
        check(errors, field, *finalizer, names::label_key(finalizer));
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(field, &json!(finalizers), detail));
    }
    // Definitions of custom resources, and those themselves, are held to less.
    if !kind.custom && kind.group != "apiextensions.k8s.io" {
        for (n, finalizer) in finalizers.iter().enumerate() {
            check_standard_finalizer(errors, &field.index(n), finalizer);
        }
    }
}

/// Adds that a finalizer without a domain is none of those that Kubernetes knows.
pub(super) fn check_standard_finalizer(
    errors: &mut Vec<FieldError>,
    field: &FieldPath,
    finalizer: &str,
) {
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(FieldError::invalid(field, &json!(finalizer), detail));
    }
}

fn validate_no_new_finalizers(
    new: &Value,
    old: &Value,
    field: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let old: BTreeSet<&str> = texts(old, "finalizers").into_iter().collect();
    let new: BTreeSet<&str> = texts(new, "finalizers").into_iter().collect();
    let added: Vec<String> = new.difference(&old).map(|name| format!("{name:?}")).collect();
    if !added.is_empty() {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{{{}}}",
            added.join(", ")
        );
        errors.push(FieldError::forbidden(&field.child("finalizers"), &detail));
    }
}

fn validate_managed_fields(managers: &[Value], field: &FieldPath, errors: &mut Vec<FieldError>) {
    for (n, entry) in managers.iter().enumerate() {
        let field = field.index(n);
        let operation = text(entry, "operation");
        if !["Apply", "Update"].contains(&operation) {
            let detail = "must be `Apply` or `Update`";
            errors.push(FieldError::invalid(&field.child("operation"), &json!(operation), detail));
        }
        let form = text(entry, "fieldsType");
        if !["", "FieldsV1"].contains(&form) {
            let detail = "must be `FieldsV1`";
            errors.push(FieldError::invalid(&field.child("fieldsType"), &json!(form), detail));
        }
        if text(entry, "manager").len() > 128 {
            errors.push(FieldError::too_long(&field.child("manager"), 128));
        }
        if text(entry, "subresource").len() > 256 {
            errors.push(FieldError::too_long(&field.child("subresource"), 256));
        }
    }
}

/// What to warn of in the finalizers of a custom resource, whose names are not checked.
pub(crate) fn finalizer_warnings(object: &Value) -> Vec<String> {
    let finalizers = texts(object, "metadata.finalizers").into_iter();
    let bare = finalizers.filter(|name| !name.contains('/') && !STANDARD_FINALIZERS.contains(name));
    bare.map(|name| {
        format!(
            "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name including a \
             path (/) to avoid accidental conflicts with other finalizer writers"
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_maps() -> ResourceType {
        let mut types = super::super::builtin_types().into_iter();
        types.find(|kind| kind.kind == "ConfigMap").expect("a built-in kind")
    }

    fn changes(old: &Value, new: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        let (new, old) = (json!({"metadata": new}), json!({"metadata": old}));
        validate_update(&config_maps(), &new, &old, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_identifies_an_object_never_changes() {
        let old = json!({
            "name": "a", "namespace": "b", "uid": "c", "resourceVersion": "1", "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        });
        assert_eq!(changes(&old, &old), Vec::<String>::new());
        let new = json!({"name": "x", "namespace": "y", "uid": "z", "generation": 1});
        assert_eq!(
            changes(&old, &new),
            [
                "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
                "metadata.generation: Invalid value: 1: must not be decremented",
                "metadata.name: Invalid value: \"x\": field is immutable",
                "metadata.namespace: Invalid value: \"y\": field is immutable",
                "metadata.uid: Invalid value: \"z\": field is immutable",
                "metadata.creationTimestamp: Invalid value: null: field is immutable",
            ]
        );
    }

    #[test]
    fn an_object_that_goes_away_gets_no_new_finalizers() {
        let old = json!({
            "name": "a", "resourceVersion": "1", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["example.com/a"],
        });
        let mut new = old.clone();
        new["finalizers"] = json!([]);
        assert_eq!(changes(&old, &new), Vec::<String>::new());
        new["finalizers"] = json!(["example.com/b", "example.com/a"]);
        assert_eq!(
            changes(&old, &new),
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being \
             deleted, found new finalizers []string{\"example.com/b\"}",
            ]
        );
    }

    #[test]
    fn annotations_have_room_for_a_quarter_mebibyte() {
        let annotated = |size: usize| {
            let mut errors = Vec::new();
            let annotations = json!({"a": "b".repeat(size)});
            check_annotations(&mut errors, &FieldPath::new("annotations"), &annotations);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(annotated(ANNOTATIONS_LIMIT - 1), Vec::<String>::new());
        assert_eq!(
            annotated(ANNOTATIONS_LIMIT),
            ["annotations: Too long: may not be more than 262144 bytes",]
        );
    }
}
