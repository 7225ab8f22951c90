//! Event: something that happened to an object.
//!
//! There are two groups with an Event, core and events.k8s.io, over the same stored objects. They
//! are stored in the core form; [`to_core`] and [`to_events`] go between the two. The rules of
//! either group take objects in that group's form.

use serde_json::{Value, json};

use super::age::{seconds, since};
use super::fields::{at, fill, fill_object, is_empty, is_set, number, text};
use super::metadata::IMMUTABLE;
use super::names::{self, check};
use super::table::{self, column, text_or, wide};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

/// The names of fields that differ: in core, and in events.k8s.io.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// An event of events.k8s.io in the form of the core group.
pub(crate) fn to_core(event: &Value) -> Value {
    let mut core = rename(event, |(core, events)| (events, core));
    core["apiVersion"] = "v1".into();
    core_shape(&mut core);
    core
}

/// An event of the core group in the form of events.k8s.io.
pub(crate) fn to_events(event: &Value) -> Value {
    let mut events = rename(event, |names| names);
    events["apiVersion"] = "events.k8s.io/v1".into();
    // Fields that the core form shows even when empty.
    for name in ["reportingController", "reportingInstance"] {
        if is_empty(&events, name) {
            super::fields::remove(&mut events, name);
        }
    }
    events_shape(&mut events);
    events
}

fn rename(
    event: &Value,
    pair: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Value {
    let fields = event.as_object().into_iter().flatten();
    let renamed = fields.map(|(name, value)| {
        let mut pairs = RENAMED.into_iter().map(pair);
        let name = pairs.find(|(from, _)| from == name).map_or(name.as_str(), |(_, to)| to);
        (name.to_owned(), value.clone())
    });
    Value::Object(renamed.collect())
}

/// Fields that are shown even when there is nothing in them.
fn core_shape(event: &mut Value) {
    fill_object(event, "involvedObject");
    fill_object(event, "source");
    for name in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        fill(event, name, Value::Null);
    }
    for name in ["reportingComponent", "reportingInstance"] {
        fill(event, name, "");
    }
}

fn events_shape(event: &mut Value) {
    fill_object(event, "regarding");
    fill_object(event, "deprecatedSource");
    for name in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"] {
        fill(event, name, Value::Null);
    }
}

pub(super) const RULES: Rules = Rules {
    name: NameRule::PathSegment,
    default: core_shape,
    validate: |event, errors| validate(event, "reportingComponent", errors),
    selectable: &[
        ("involvedObject.kind", |event| text(event, "involvedObject.kind").to_owned()),
        ("involvedObject.namespace", |event| text(event, "involvedObject.namespace").to_owned()),
        ("involvedObject.name", |event| text(event, "involvedObject.name").to_owned()),
        ("involvedObject.uid", |event| text(event, "involvedObject.uid").to_owned()),
        ("involvedObject.apiVersion", |event| text(event, "involvedObject.apiVersion").to_owned()),
        ("involvedObject.resourceVersion", |event| {
            text(event, "involvedObject.resourceVersion").to_owned()
        }),
        ("involvedObject.fieldPath", |event| text(event, "involvedObject.fieldPath").to_owned()),
        ("reason", |event| text(event, "reason").to_owned()),
        ("reportingComponent", |event| text(event, "reportingComponent").to_owned()),
        ("source", |event| {
            text_or(event, "source.component", text(event, "reportingComponent")).to_owned()
        }),
        ("type", |event| text(event, "type").to_owned()),
    ],
    ..Rules::NONE
};

pub(super) const EVENTS_RULES: Rules = Rules {
    name: NameRule::Subdomain,
    default: events_shape,
    validate: |event, errors| validate(&to_core(event), "reportingController", errors),
    validate_create: |event, errors| validate_strictly(&to_core(event), errors),
    validate_update: |new, old, errors| validate_kept(&to_core(new), &to_core(old), errors),
    selectable: &[
        ("regarding.kind", |event| text(event, "regarding.kind").to_owned()),
        ("regarding.namespace", |event| text(event, "regarding.namespace").to_owned()),
        ("regarding.name", |event| text(event, "regarding.name").to_owned()),
        ("regarding.uid", |event| text(event, "regarding.uid").to_owned()),
        ("reason", |event| text(event, "reason").to_owned()),
        ("reportingController", |event| text(event, "reportingController").to_owned()),
        ("type", |event| text(event, "type").to_owned()),
    ],
    ..Rules::NONE
};

fn validate(event: &Value, controller_name: &str, errors: &mut Vec<FieldError>) {
    let namespace = text(event, "metadata.namespace");
    let about = text(event, "involvedObject.namespace");
    let agrees = match (is_set(event, "eventTime"), about) {
        (false, "") => ["", "default"].contains(&namespace),
        (false, about) => namespace == about,
        (true, "") => ["default", "kube-system"].contains(&namespace),
        (true, _) => true,
    };
    if !agrees {
        let field = FieldPath::new("involvedObject").child("namespace");
        let detail = "does not match event.namespace";
        errors.push(FieldError::invalid(&field, &json!(about), detail));
    }
    if is_set(event, "eventTime") {
        let (controller, field) =
            (text(event, "reportingComponent"), FieldPath::new(controller_name));
        if controller.is_empty() {
            errors.push(FieldError::required(&field, ""));
        }
        check(errors, &field, controller, names::label_key(controller));
        for (name, limit) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
            if is_empty(event, name) {
                errors.push(FieldError::required(&FieldPath::new(name), ""));
            }
            check_length(errors, event, name, limit);
        }
        check_length(errors, event, "message", 1024);
    }
    check(errors, &FieldPath::new("namespace"), namespace, names::subdomain(namespace));
}

fn check_length(errors: &mut Vec<FieldError>, event: &Value, name: &str, limit: usize) {
    if text(event, name).len() > limit {
        let detail = format!("can have at most {limit} characters");
        errors.push(FieldError::invalid(&FieldPath::new(name), &json!(""), &detail));
    }
}

fn validate_strictly(event: &Value, errors: &mut Vec<FieldError>) {
    validate_series(event, errors);
    if !is_set(event, "eventTime") {
        errors.push(FieldError::required(&FieldPath::new("eventTime"), ""));
    }
    let mut wrong = |name: &str, detail: &str| {
        errors.push(FieldError::invalid(&FieldPath::new(name), &json!(""), detail));
    };
    let kind = text(event, "type");
    if !["Normal", "Warning"].contains(&kind) {
        wrong("type", &format!("has invalid value: {kind}"));
    }
    let set = [
        ("firstTimestamp", is_set(event, "firstTimestamp")),
        ("lastTimestamp", is_set(event, "lastTimestamp")),
        ("count", number(event, "count") != 0),
        ("source", !is_empty(event, "source.component") || !is_empty(event, "source.host")),
    ];
    for (name, _) in set.iter().filter(|(_, set)| *set) {
        wrong(name, "needs to be unset");
    }
}

fn validate_series(event: &Value, errors: &mut Vec<FieldError>) {
    if is_set(event, "series") {
        if number(event, "series.count") < 2 {
            let field = FieldPath::new("series.count");
            errors.push(FieldError::invalid(&field, &json!(""), "should be at least 2"));
        }
        if !is_set(event, "series.lastObservedTime") {
            errors.push(FieldError::required(&FieldPath::new("series.lastObservedTime"), ""));
        }
    }
}

fn validate_kept(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if at(new, "series") != at(old, "series") {
        validate_series(new, errors);
    }
    let kept = [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ];
    for (name, shown) in kept {
        if at(new, name) != at(old, name) {
            errors.push(FieldError::invalid(&FieldPath::new(shown), at(new, name), IMMUTABLE));
        }
    }
}

pub(super) const COLUMNS: &[Column] = &[
    column("Last Seen", "How long ago it last happened."),
    column("Type", "Whether it is normal or a warning."),
    column("Reason", "Why it happened, in a word."),
    column("Object", "What it happened to."),
    wide("Subobject", "The part of the object."),
    wide("Source", "Who reports it."),
    column("Message", "What happened."),
    wide("First Seen", "How long ago it first happened."),
    wide("Count", "How often it happened."),
    Column {
        name: "Name",
        kind: "string",
        format: "name",
        description: "The name of the object.",
        priority: 1,
    },
];

pub(super) fn cells(event: &Value, now: i64) -> Vec<Value> {
    let known = |path: &str| seconds(text(event, path)).is_some();
    let first_path = if known("firstTimestamp") { "firstTimestamp" } else { "eventTime" };
    let last_path = match (is_set(event, "series"), known("lastTimestamp")) {
        (true, _) => "series.lastObservedTime",
        (false, true) => "lastTimestamp",
        (false, false) => first_path,
    };
    let count = match (at(event, "series.count").as_i64(), number(event, "count")) {
        (Some(count), _) => count,
        (None, 0) => 1,
        (None, count) => count,
    };
    let kind = text(event, "involvedObject.kind").to_lowercase();
    let object = match text(event, "involvedObject.name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = text_or(event, "source.component", text(event, "reportingComponent"));
    let source = match text_or(event, "source.host", text(event, "reportingInstance")) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    };
    vec![
        since(event, last_path, now).into(),
        text(event, "type").into(),
        text(event, "reason").into(),
        object.into(),
        text(event, "involvedObject.fieldPath").into(),
        source.into(),
        text(event, "message").trim().into(),
        since(event, first_path, now).into(),
        count.into(),
        table::name(event),
    ]
}

pub(super) fn events_cells(event: &Value, now: i64) -> Vec<Value> {
    cells(&to_core(event), now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_the_same_in_both_groups() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": "web.1", "namespace": "shop"},
            "involvedObject": {"kind": "Pod", "name": "web", "namespace": "shop"},
            "reason": "Started", "message": "Started container", "type": "Normal",
            "source": {"component": "kubelet", "host": "n1"}, "count": 3,
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:05:00Z",
            "eventTime": null, "reportingComponent": "kubelet", "reportingInstance": "n1",
        });
        let events = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": "web.1", "namespace": "shop"},
            "regarding": {"kind": "Pod", "name": "web", "namespace": "shop"},
            "reason": "Started", "note": "Started container", "type": "Normal",
            "deprecatedSource": {"component": "kubelet", "host": "n1"}, "deprecatedCount": 3,
            "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
            "deprecatedLastTimestamp": "2026-01-01T00:05:00Z",
            "eventTime": null, "reportingController": "kubelet", "reportingInstance": "n1",
        });
        assert_eq!(to_events(&core), events);
        assert_eq!(to_core(&events), core);
    }
}
