//! Tables: what `kubectl get` prints.

use serde_json::{Value, json};

use super::{Wanted, jsonpath};
use crate::error::{ApiError, ApiResult};
use crate::field_error::{FieldError, FieldPath};
use crate::kinds::human_duration;
use crate::resource::{Columns, PathColumn, ResourceType};

/// Makes tables of one type's objects.
pub(crate) struct Tables<'a> {
    columns: &'a Columns,
    wanted: Wanted,
    include: Include,
    /// Unix seconds, which ages are relative to.
    now: i64,
}

/// How much of each object comes along with its row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Include {
    Nothing,
    Metadata,
    Object,
}

impl<'a> Tables<'a> {
    pub(crate) fn new(
        kind: &'a ResourceType,
        wanted: Wanted,
        include: Option<&str>,
        now: i64,
    ) -> Self {
        Self::of_columns(&kind.columns, wanted, include, now)
    }

    pub(crate) fn of_columns(
        columns: &'a Columns,
        wanted: Wanted,
        include: Option<&str>,
        now: i64,
    ) -> Self {
        let include = match include {
            Some("None") => Include::Nothing,
            Some("Object") => Include::Object,
            _ => Include::Metadata,
        };
        Self { columns, wanted, include, now }
    }

    /// Refuses what cannot come along with a row.
    pub(crate) fn check_include(include: Option<&str>) -> ApiResult<()> {
        match include {
            None | Some("None" | "Object" | "Metadata") => Ok(()),
            Some(other) => {
                let detail = "must be 'Metadata', 'Object', 'None', or empty";
                let error =
                    FieldError::invalid(&FieldPath::new("includeObject"), &json!(other), detail);
                let message = format!("Unable to convert to Table as requested: {error}");
                Err(ApiError::bad_request(message))
            }
        }
    }

    pub(crate) fn table(&self, list_metadata: &Value, objects: &[Value], header: bool) -> Value {
        let rows: Vec<Value> = objects.iter().map(|object| self.row(object)).collect();
        let mut table = json!({
            "kind": "Table",
            "apiVersion": self.wanted.meta_version(),
            "metadata": list_metadata,
            "columnDefinitions": Value::Null,
            "rows": rows,
        });
        // Later tables of a watch leave the definitions out.
        if header {
            table["columnDefinitions"] = self.definitions();
        }
        table
    }

    fn definitions(&self) -> Value {
        let define = |name: &str, kind: &str, format: &str, description: &str, priority: i32| {
            json!({
                "name": name,
                "type": kind,
                "format": format,
                "description": description,
                "priority": priority,
            })
        };
        match self.columns {
            Columns::BuiltIn { definitions, .. } => definitions
                .iter()
                .map(|c| define(c.name, c.kind, c.format, c.description, c.priority))
                .collect(),
            Columns::Paths(paths) => {
                let name = define("Name", "string", "name", NAME, 0);
                let rest = paths.iter().map(|column| {
                    let description = if column.description.is_empty() {
                        format!(
                            "Custom resource definition column (in JSONPath format): {}",
                            column.path
                        )
                    } else {
                        column.description.clone()
                    };
                    define(
                        &column.name,
                        &column.kind,
                        &column.format,
                        &description,
                        column.priority,
                    )
                });
                std::iter::once(name).chain(rest).collect()
            }
        }
    }

    fn row(&self, object: &Value) -> Value {
        let cells = match self.columns {
            Columns::BuiltIn { cells, .. } => cells(object, self.now),
            Columns::Paths(paths) => {
                let name = object["metadata"]["name"].clone();
                let rest = paths.iter().map(|column| self.cell(column, object));
                std::iter::once(name).chain(rest).collect()
            }
        };
        let mut row = json!({"cells": cells});
        match self.include {
            Include::Nothing => row["object"] = Value::Null,
            Include::Metadata => row["object"] = self.wanted.metadata_only(object),
            Include::Object => row["object"] = object.clone(),
        }
        row
    }

    fn cell(&self, column: &PathColumn, object: &Value) -> Value {
        let found = jsonpath::first(object, &column.path);
        match (column.kind.as_str(), found) {
            (_, None) => Value::Null,
            ("date", Some(Value::String(time))) => match time.parse::<jiff::Timestamp>() {
                Ok(time) => human_duration(self.now - time.as_second()).into(),
                Err(_) => "<invalid>".into(),
            },
            ("string", Some(value)) => match value {
                text @ Value::String(_) => text,
                other => other.to_string().into(),
            },
            ("integer", Some(Value::Number(number))) => {
                number.as_i64().map_or(Value::Null, Value::from)
            }
            ("number", Some(number @ Value::Number(_))) => number,
            ("boolean", Some(flag @ Value::Bool(_))) => flag,
            _ => Value::Null,
        }
    }
}

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
