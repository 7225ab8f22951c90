//! The scale subresource: a few numbers of an object, as an object of its own.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::dispatch::{Answer, Asked};
use super::patched::BodyPatch;
use super::{Api, Change, Scope, Tracking};
use crate::answer::{Body, Form, Tables, jsonpath};
use crate::apply::is_owned;
use crate::error::{ApiError, ApiResult};
use crate::field_error::{FieldError, FieldPath};
use crate::kinds::scale::COLUMNS;
use crate::request::Verb;
use crate::resource::ScalePaths;
use crate::schema::Schema;

/// What a scale is to be: another one, or what a patch makes of it.
enum Wish {
    Scale(Value),
    Patch(BodyPatch),
}

impl Api {
    pub(super) async fn on_scale(&self, asked: Asked, scope: Scope) -> ApiResult<Answer> {
        let name = asked.path.name.clone().unwrap_or_default();
        let paths = scope.kind.scale.clone().ok_or_else(ApiError::no_such_path)?;
        let found = self.find(&scope, &name).await?;
        let stored = found.ok_or_else(|| ApiError::not_found(scope.subject(), &name))?;
        let current = scope.read(&stored);
        if asked.verb == Verb::Get {
            return Ok(self.show_scale(&asked, &scale_of(&current, &paths)).into());
        }

        let manager = asked.manager()?;
        let types = self.registry.types();
        let writing = self.writing(&types, &asked, &manager);
        let wanted = match asked.verb {
            Verb::Update => Wish::Scale(asked.typed_value("autoscaling", "Scale")?),
            Verb::Patch => {
                let kind = BodyPatch::kind(&asked, scope.kind.custom)?;
                Wish::Patch(BodyPatch::read(&asked, kind)?)
            }
            _ => return Err(ApiError::method_not_allowed()),
        };
        let anything = Schema::anything();
        let make = |old: &Value| {
            let before = scale_of(old, &paths);
            let wanted = match &wanted {
                Wish::Scale(scale) => scale.clone(),
                Wish::Patch(patch) => patch.apply(&before, anything.root())?,
            };
            check_name(&wanted, &name)?;
            check(&wanted, &name)?;
            let version = wanted["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            if !version.is_empty() && before["metadata"]["resourceVersion"] != version {
                return Err(ApiError::modified(scope.subject(), &name));
            }
            let mut new = old.clone();
            set(&mut new, &paths.spec, wanted["spec"]["replicas"].as_i64().unwrap_or(0));
            Ok(new)
        };
        // Whoever scales takes the count from its owner; a count without one stays so.
        let count: Vec<&str> = plain_fields(&paths.spec).collect();
        let followed = is_owned(&current, &count);
        let change = Change {
            make: &make,
            subresource: Some("scale"),
            tracking: if followed { Tracking::Record(&writing) } else { Tracking::Done },
            honours_version: false,
            dry_run: asked.options.dry_run,
        };
        let stored = self.update_object(&scope, &name, &change).await?;
        let scale = scale_of(&scope.read(&stored), &paths);
        Ok(self.show_scale(&asked, &scale).into())
    }

    fn show_scale(&self, asked: &Asked, scale: &Value) -> Response<Body> {
        if asked.wanted.form != Form::Table {
            return asked.wanted.value(StatusCode::OK, scale);
        }
        let include = asked.options.include_object.as_deref();
        let tables = Tables::of_columns(&COLUMNS, asked.wanted, include, self.now().as_second());
        let metadata = json!({"resourceVersion": scale["metadata"]["resourceVersion"]});
        let table = tables.table(&metadata, std::slice::from_ref(scale), true);
        asked.wanted.value(StatusCode::OK, &table)
    }
}

fn scale_of(object: &Value, paths: &ScalePaths) -> Value {
    let metadata = &object["metadata"];
    let mut kept = serde_json::Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.get(field) {
            kept.insert(field.to_owned(), value.clone());
        }
    }
    let number =
        |path: &str| jsonpath::first(object, path).and_then(|value| value.as_i64()).unwrap_or(0);
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": kept,
        "spec": {},
        "status": {"replicas": number(&paths.status)},
    });
    let wanted = number(&paths.spec);
    if wanted != 0 {
        scale["spec"]["replicas"] = wanted.into();
    }
    let selector = paths.selector.as_deref().and_then(|path| jsonpath::first(object, path));
    if let Some(selector) = selector.map(|selector| selector_text(&selector)) {
        scale["status"]["selector"] = selector.into();
    }
    scale
}

/// A selector in text form: as it stands, or from a selector object.
fn selector_text(selector: &Value) -> String {
    if let Some(text) = selector.as_str() {
        return text.to_owned();
    }
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    let expressions = expressions.map(|expression| {
        let key = expression["key"].as_str().unwrap_or_default();
        let values = expression["values"].as_array().into_iter().flatten();
        let mut values: Vec<&str> = values.filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        }
    });
    labels.chain(expressions).collect::<Vec<_>>().join(",")
}

fn check_name(scale: &Value, name: &str) -> ApiResult<()> {
    match scale["metadata"]["name"].as_str() {
        Some(given) if !given.is_empty() && given != name => Err(ApiError::other_name(given, name)),
        _ => Ok(()),
    }
}

fn check(scale: &Value, name: &str) -> ApiResult<()> {
    let replicas = &scale["spec"]["replicas"];
    let path = FieldPath::new("spec").child("replicas");
    let error = match replicas {
        Value::Null => return Ok(()),
        Value::Number(number) if number.as_i64().is_some_and(|number| number >= 0) => return Ok(()),
        value => FieldError::invalid(&path, value, "must be greater than or equal to 0"),
    };
    let subject = crate::error::Subject { group: "autoscaling", resource: "Scale" };
    Err(ApiError::invalid(subject, name, &[error]))
}

/// The fields of a path such as `.spec.replicas`.
fn plain_fields(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|field| !field.is_empty())
}

/// Sets the number at a path of plain fields.
fn set(object: &mut Value, path: &str, number: i64) {
    let mut place = object;
    for field in plain_fields(path) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[field];
    }
    *place = number.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_written_as_text() {
        let selector = json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a"]},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        });
        assert_eq!(selector_text(&selector), "app=web,tier in (a,b),!old");
        assert_eq!(selector_text(&json!("a=b")), "a=b");
    }

    #[test]
    fn a_number_is_set_where_the_path_leads() {
        let mut object = json!({"spec": {"other": 1}});
        set(&mut object, ".spec.size.replicas", 3);
        assert_eq!(object, json!({"spec": {"other": 1, "size": {"replicas": 3}}}));
    }
}
