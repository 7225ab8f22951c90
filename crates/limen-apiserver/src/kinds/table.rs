//! What the tables of built-in kinds have in common.

use serde_json::Value;

use super::fields::{at, list, text};
use crate::resource::Column;

/// The column that identifies the row.
pub(super) const NAME: Column = Column {
    name: "Name",
    kind: "string",
    format: "name",
    description: "The name of the object.",
    priority: 0,
};

/// The column that says how old the object is.
pub(super) const AGE: Column = column("Age", "How long ago the object was created.");

/// The column with the names of a pod template's containers.
pub(super) const CONTAINERS: Column = wide("Containers", "The names of the containers.");

/// The column with the images of a pod template's containers.
pub(super) const IMAGES: Column = wide("Images", "The images of the containers.");

/// The column with the label selector.
pub(super) const SELECTOR: Column = wide("Selector", "Which pods belong to the object.");

/// A column that is always shown.
pub(super) const fn column(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 0 }
}

/// A column with a number that is always shown.
pub(super) const fn integer(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "integer", format: "", description, priority: 0 }
}

/// A column that is shown with `-o wide`.
pub(super) const fn wide(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 1 }
}

/// The name of an object.
pub(super) fn name(object: &Value) -> Value {
    text(object, "metadata.name").into()
}

/// The text at a path, or a word if there is none.
pub(super) fn text_or<'a>(object: &'a Value, path: &str, otherwise: &'a str) -> &'a str {
    match text(object, path) {
        "" => otherwise,
        text => text,
    }
}

/// The names of the containers in the list at a path, and their images.
pub(super) fn containers(object: &Value, path: &str) -> (String, String) {
    let each = |name: &str| {
        let values: Vec<&str> =
            list(object, path).iter().map(|container| text(container, name)).collect();
        values.join(",")
    };
    (each("name"), each("image"))
}

/// The addresses and hostnames at which a load balancer is reached.
pub(super) fn load_balancer(object: &Value) -> String {
    let points = list(object, "status.loadBalancer.ingress").iter();
    let points = points.map(|point| text_or(point, "ip", text(point, "hostname")));
    let mut points: Vec<&str> = points.filter(|point| !point.is_empty()).collect();
    points.sort_unstable();
    points.dedup();
    points.join(",")
}

/// A number or text as people write it.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// At most `limit` items with the count of the others, where there are `count` in all.
pub(super) fn at_most(items: &[String], limit: usize, count: usize) -> String {
    let shown = items[..items.len().min(limit)].join(",");
    match count {
        count if count > limit => format!("{shown} + {} more...", count - limit),
        _ => shown,
    }
}

/// The condition of a type in an object's status, if it is there and true.
pub(super) fn has_condition(object: &Value, kind: &str) -> bool {
    list(object, "status.conditions")
        .iter()
        .any(|condition| text(condition, "type") == kind && text(condition, "status") == "True")
}

/// The whole number at a path, as a cell.
pub(super) fn count(object: &Value, path: &str) -> Value {
    at(object, path).as_i64().unwrap_or_default().into()
}

/// Gives a new object a count that is shown even when it is zero.
pub(super) fn start_with_zero(object: &mut Value, path: &str) {
    super::fields::set(object, path, 0);
}

/// The column that says when the object was created, of kinds that have no table of their own.
pub(super) const CREATED_AT: Column = Column {
    name: "Created At",
    kind: "date",
    format: "",
    description: "When the object was created.",
    priority: 0,
};
