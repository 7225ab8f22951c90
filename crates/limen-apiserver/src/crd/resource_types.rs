//! The resource types that a definition makes: one for each version that is served.
//!
//! The columns here are what follows the name. The real server's table code puts `Name` first (of
//! type string, format `name`), then these; a version without columns of its own shows `Age`.

use std::sync::Arc;

use serde_json::Value;

use super::definition::storage_version;
use super::schema_json::{flag, list, present, text, texts};
use crate::registry::maturity;
use crate::resource::{
    AmongVersions, Columns, LazySchema, PathColumn, ResourceType, Rules, ScalePaths,
};
use crate::schema::Schema;

const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The types that a definition serves, by the names that it was given.
pub(crate) fn resource_types(definition: &Value) -> Vec<ResourceType> {
    let Some(spec) = definition.get("spec") else { return Vec::new() };
    let names = names_of(definition);
    let served = list(spec, "versions").iter().filter(|version| flag(version, "served"));
    served.map(|version| resource_type(definition, names, version)).collect()
}

/// The type of a definition's objects, in whichever version: all of them are stored in one place,
/// even those of versions that are no longer served.
pub(crate) fn stored_type(definition: &Value) -> Option<ResourceType> {
    let version = list(definition.get("spec")?, "versions").first()?;
    Some(resource_type(definition, names_of(definition), version))
}

/// The names that a definition was given, or asks for.
fn names_of(definition: &Value) -> &Value {
    definition
        .pointer("/status/acceptedNames")
        .filter(|names| !text(names, "plural").is_empty())
        .unwrap_or(&definition["spec"]["names"])
}

fn resource_type(definition: &Value, names: &Value, version: &Value) -> ResourceType {
    let spec = &definition["spec"];
    let owned = |json: &Value, name: &str| text(json, name).to_owned();
    let schema = version.pointer("/schema/openAPIV3Schema");
    // As text, which takes a fraction of the memory that it does as a value.
    let published: Option<Arc<str>> = schema.map(|schema| schema.to_string().into());
    let schema = published.clone();
    let subresources = present(version, "subresources");
    ResourceType {
        group: owned(spec, "group"),
        version: owned(version, "name"),
        kind: owned(names, "kind"),
        list_kind: owned(names, "listKind"),
        plural: owned(names, "plural"),
        singular: owned(names, "singular"),
        short_names: texts(names, "shortNames").map(str::to_owned).collect(),
        categories: texts(names, "categories").map(str::to_owned).collect(),
        namespaced: text(spec, "scope") == "Namespaced",
        has_status: subresources.is_some_and(|all| present(all, "status").is_some()),
        scale: subresources.and_then(|all| present(all, "scale")).map(scale_paths),
        columns: Columns::Paths(columns(version)),
        rules: Rules::NONE,
        schema: LazySchema::new(move || {
            let json = schema.as_deref().and_then(|text| serde_json::from_str(text).ok());
            // A schema of a custom resource refers to nothing, so this cannot fail.
            let made = Schema::from_json(&json.unwrap_or_default(), &|_| None);
            Arc::new(made.unwrap_or_else(|_| Schema::anything()))
        }),
        custom: true,
        selectable_paths: selectable_paths(version),
        published,
        among: Some(AmongVersions {
            storage: storage_version(definition).unwrap_or_default().to_owned(),
            deprecation: flag(version, "deprecated").then(|| deprecation(spec, names, version)),
            reshaped: list(spec, "versions").len() > 1
                || definition["metadata"]["generation"].as_i64() > Some(1),
        }),
    }
}

/// What to warn users of a deprecated version of: the definition's words, or where to go instead.
fn deprecation(spec: &Value, names: &Value, version: &Value) -> String {
    if let Some(warning) = present(version, "deprecationWarning").and_then(Value::as_str) {
        return warning.to_owned();
    }
    let (group, kind) = (text(spec, "group"), text(names, "kind"));
    let deprecated = text(version, "name");
    let better = list(spec, "versions").iter().filter(|other| {
        flag(other, "served")
            && !flag(other, "deprecated")
            && maturity(text(other, "name")) > maturity(deprecated)
    });
    let best = better.map(|other| text(other, "name")).max_by_key(|name| maturity(name));
    let instead = best.map(|best| format!("; use {group}/{best} {kind}")).unwrap_or_default();
    format!("{group}/{deprecated} {kind} is deprecated{instead}")
}

fn scale_paths(scale: &Value) -> ScalePaths {
    let selector = text(scale, "labelSelectorPath");
    ScalePaths {
        spec: text(scale, "specReplicasPath").to_owned(),
        status: text(scale, "statusReplicasPath").to_owned(),
        selector: (!selector.is_empty()).then(|| selector.to_owned()),
    }
}

fn columns(version: &Value) -> Vec<PathColumn> {
    let columns = list(version, "additionalPrinterColumns");
    if columns.is_empty() {
        return vec![PathColumn {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: AGE.to_owned(),
            priority: 0,
            path: ".metadata.creationTimestamp".to_owned(),
        }];
    }
    columns
        .iter()
        .map(|column| {
            let path = text(column, "jsonPath");
            let description = match text(column, "description") {
                "" => format!("Custom resource definition column (in JSONPath format): {path}"),
                description => description.to_owned(),
            };
            let priority = column.get("priority").and_then(Value::as_i64).unwrap_or_default();
            PathColumn {
                name: text(column, "name").to_owned(),
                kind: text(column, "type").to_owned(),
                format: text(column, "format").to_owned(),
                description,
                priority: i32::try_from(priority).unwrap_or_default(),
                path: path.to_owned(),
            }
        })
        .collect()
}

/// The fields, besides name and namespace, that field selectors may name, as `spec.colour`.
fn selectable_paths(version: &Value) -> Vec<String> {
    let paths = list(version, "selectableFields").iter().map(|field| text(field, "jsonPath"));
    paths.map(|path| path.trim_start_matches('.').to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deprecated_version_says_what_to_use_instead() {
        let spec = |better: &[&str]| {
            let version = |name: &&str| json!({"name": name, "served": true});
            json!({"group": "g", "versions": better.iter().map(version).collect::<Vec<_>>()})
        };
        let old = json!({"name": "v1beta1", "deprecated": true});
        let own = json!({"name": "v1beta1", "deprecated": true, "deprecationWarning": "go away"});
        let cases = [
            (spec(&["v1alpha1", "v1beta2", "v1"]), &old, "g/v1beta1 K is deprecated; use g/v1 K"),
            (spec(&["v1alpha1"]), &old, "g/v1beta1 K is deprecated"),
            (spec(&["v1"]), &own, "go away"),
        ];
        for (spec, version, expected) in cases {
            assert_eq!(deprecation(&spec, &json!({"kind": "K"}), version), expected);
        }
    }
}
