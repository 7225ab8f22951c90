//! PersistentVolumeClaim: storage that somebody asks for. The hub has none to give, so a claim stays
//! pending here.

use serde_json::{Value, json};

use super::age::age;
use super::fields::{annotation, at, existing_mut, fill, is_empty, is_set, text, texts};
use super::quantity;
use super::table::{self, AGE, NAME, column, wide};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const MODES: [(&str, &str); 4] = [
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOnce", "RWO"),
    ("ReadWriteOncePod", "RWOP"),
];

pub(super) const RULES: Rules = Rules {
    name: NameRule::Subdomain,
    default,
    prepare_create: |object| fill(object, "status.phase", "Pending"),
    validate,
    validate_update,
    ..Rules::NONE
};

fn default(object: &mut Value) {
    fill(object, "spec.volumeMode", "Filesystem");
    for amounts in ["spec.resources.requests", "spec.resources.limits", "status.capacity"] {
        if let Some(amounts) = existing_mut(object, amounts) {
            quantity::normalize_list(amounts);
        }
    }
}

fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let (spec, field) = (at(object, "spec"), FieldPath::new("spec"));
    let modes = field.child("accessModes");
    if is_empty(spec, "accessModes") {
        errors.push(FieldError::required(&modes, "at least 1 access mode is required"));
    }
    for mode in texts(spec, "accessModes") {
        let supported = MODES.map(|(mode, _)| mode);
        if !supported.contains(&mode) {
            errors.push(FieldError::not_supported(&modes, &json!(mode), &supported));
        }
    }
    let storage = field.child("resources").key("storage");
    match at(spec, "resources.requests").get("storage").and_then(Value::as_str) {
        None => errors.push(FieldError::required(&storage, "")),
        Some(amount) if amount == "0" || amount.starts_with('-') => {
            let detail = "must be greater than zero";
            errors.push(FieldError::invalid(&storage, &json!(amount), detail));
        }
        Some(_) => {}
    }
    let (mode, supported) = (text(spec, "volumeMode"), ["Block", "Filesystem"]);
    if is_set(spec, "volumeMode") && !supported.contains(&mode) {
        let field = field.child("volumeMode");
        errors.push(FieldError::not_supported(&field, &json!(mode), &supported));
    }
}

/// What was asked for is settled, but for its size and its class of attributes.
fn validate_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let settled = |object: &Value| {
        let mut spec = at(object, "spec").as_object().cloned().unwrap_or_default();
        for changeable in ["resources", "volumeAttributesClassName"] {
            spec.remove(changeable);
        }
        // An empty name is filled in when a volume is found.
        if is_empty(old, "spec.volumeName") {
            spec.remove("volumeName");
        }
        spec
    };
    if settled(new) != settled(old) {
        let detail = "spec is immutable after creation except resources.requests and \
            volumeAttributesClassName for bound claims";
        errors.push(FieldError::forbidden(&FieldPath::new("spec"), detail));
    }
}

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column("Status", "Whether there is a volume for it."),
    column("Volume", "The volume."),
    column("Capacity", "How much the volume holds."),
    column("Access Modes", "Who may use the volume, and how."),
    column("StorageClass", "The kind of storage."),
    column("VolumeAttributesClass", "The class of the volume's attributes."),
    AGE,
    wide("VolumeMode", "Whether it is a file system or a bare device."),
];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let deleting = is_set(object, "metadata.deletionTimestamp");
    let phase = if deleting { "Terminating" } else { text(object, "status.phase") };
    let volume = text(object, "spec.volumeName");
    let (capacity, modes) = match volume {
        "" => ("", String::new()),
        _ => (text(object, "status.capacity.storage"), short_modes(object)),
    };
    let class = annotation(object, CLASS_ANNOTATION);
    vec![
        table::name(object),
        phase.into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        class.unwrap_or_else(|| text(object, "spec.storageClassName")).into(),
        table::text_or(object, "spec.volumeAttributesClassName", "<unset>").into(),
        age(object, now),
        table::text_or(object, "spec.volumeMode", "<unset>").into(),
    ]
}

fn short_modes(object: &Value) -> String {
    let given = texts(object, "status.accessModes");
    let order = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
    let short = |mode: &str| MODES.iter().find(|(long, _)| *long == mode).map(|(_, short)| *short);
    let shown = order.into_iter().filter(|mode| given.contains(mode)).filter_map(short);
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_says_what_it_needs() {
        let message = |spec: Value| {
            let mut errors = Vec::new();
            validate(&json!({"spec": spec}), &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        let storage = json!({"requests": {"storage": "1Gi"}});
        assert_eq!(message(json!({"accessModes": ["ReadWriteOnce"], "resources": storage})), "");
        assert_eq!(
            message(json!({})),
            "spec.accessModes: Required value: at least 1 access mode is required; \
             spec.resources[storage]: Required value"
        );
        assert!(message(json!({"accessModes": ["Mine"]})).contains("Unsupported value: \"Mine\""));
    }

    #[test]
    fn a_claim_may_grow_and_not_change() {
        let claim = |size: &str, class: &str| json!({"spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}}});
        let problems = |new: Value| {
            let mut errors = Vec::new();
            validate_update(&new, &claim("1Gi", "fast"), &mut errors);
            errors.len()
        };
        assert_eq!(problems(claim("2Gi", "fast")), 0);
        assert_eq!(problems(claim("1Gi", "slow")), 1);
    }
}
