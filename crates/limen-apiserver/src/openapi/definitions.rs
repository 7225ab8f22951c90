//! The component schemas of a document: what objects look like, in OpenAPI's words.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::prose::Prose;
use crate::resource::ResourceType;
use crate::schema::types::{self, Definition, Field, List, Shape};

/// Where references point.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The built-in definitions of these names and all that they refer to.
pub(super) fn built_in(names: &BTreeSet<String>) -> Map<String, Value> {
    let mut prose = Prose::of(names.iter().map(String::as_str));
    let mut made = Map::new();
    let mut wanted: Vec<String> = names.iter().cloned().collect();
    while let Some(name) = wanted.pop() {
        if made.contains_key(&name) {
            continue;
        }
        let mut schema = match types::definition(&name) {
            Some(definition) => object(definition, &mut prose, &mut wanted),
            None => leaf(&name),
        };
        describe(&mut schema, prose.of_definition(&name));
        made.insert(name, schema);
    }
    made
}

fn describe(schema: &mut Value, description: Option<Value>) {
    if let (Some(description), Some(schema)) = (description, schema.as_object_mut()) {
        schema.insert("description".to_owned(), description);
    }
}

/// The types that are written as scalars or as anything.
fn leaf(name: &str) -> Value {
    match name.rsplit('.').next() {
        Some("Time" | "MicroTime") => json!({"type": "string", "format": "date-time"}),
        Some("Quantity") => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        Some("IntOrString") => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        Some("FieldsV1" | "RawExtension" | "Patch") => json!({"type": "object"}),
        _ => json!({}),
    }
}

fn object(definition: &Definition, prose: &mut Prose, wanted: &mut Vec<String>) -> Value {
    let mut properties = Map::new();
    for field in &definition.fields {
        let mut schema = property(field, wanted);
        let description = prose.of_field(&definition.name, field.name);
        describe(&mut schema, description.map(|text| with_values(text, field)));
        properties.insert(field.name.to_owned(), bare_reference(schema));
    }
    let mut schema = json!({"type": "object"});
    if !properties.is_empty() {
        schema["properties"] = properties.into();
    }
    let required: Vec<&str> =
        definition.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    if definition.atomic {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    if let Some(unions) = &definition.unions {
        schema["x-kubernetes-unions"] = unions.clone();
    }
    if let Some(kind) = group_version_kind(definition) {
        schema["x-kubernetes-group-version-kind"] = json!([kind]);
    }
    schema
}

/// A description that ends with the values that the field takes.
fn with_values(description: Value, field: &Field) -> Value {
    let (Some(values), Some(text)) = (field.values, description.as_str()) else {
        return description;
    };
    let listed: Vec<String> = values.split('|').map(|value| format!(" - `\"{value}\"`")).collect();
    format!("{text}\n\nPossible enum values:\n{}", listed.join("\n")).into()
}

/// A reference with nothing beside it needs no wrapping.
fn bare_reference(schema: Value) -> Value {
    match schema.as_object() {
        Some(fields) if fields.len() == 1 && fields.contains_key("allOf") => {
            schema["allOf"][0].clone()
        }
        _ => schema,
    }
}

fn property(field: &Field, wanted: &mut Vec<String>) -> Value {
    let mut schema = shape(&field.shape, field.item_values, wanted);
    if let Some(default) = field.default() {
        schema["default"] = default;
    }
    match field.list {
        Some(List::Atomic) => schema["x-kubernetes-list-type"] = "atomic".into(),
        Some(List::Set) => schema["x-kubernetes-list-type"] = "set".into(),
        Some(List::Map(keys)) => {
            schema["x-kubernetes-list-type"] = "map".into();
            schema["x-kubernetes-list-map-keys"] = keys.split(',').collect();
        }
        None => {}
    }
    if let Some(kind) = field.map_type {
        schema["x-kubernetes-map-type"] = kind.into();
    }
    if let Some((strategy, key)) = field.patch {
        schema["x-kubernetes-patch-strategy"] = strategy.into();
        if let Some(key) = key {
            schema["x-kubernetes-patch-merge-key"] = key.into();
        }
    }
    if let Some(values) = field.values {
        schema["enum"] = values.split('|').collect();
    }
    schema
}

fn shape(shape: &Shape, item_values: Option<&str>, wanted: &mut Vec<String>) -> Value {
    if let Some(name) = shape.definition_name() {
        let schema = json!({"allOf": [reference(&name)]});
        wanted.push(name);
        return schema;
    }
    match shape {
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Int32 => json!({"type": "integer", "format": "int32"}),
        Shape::Int64 => json!({"type": "integer", "format": "int64"}),
        Shape::Float => json!({"type": "number", "format": "double"}),
        Shape::Bytes => json!({"type": "string", "format": "byte"}),
        Shape::List(inner) => {
            json!({"type": "array", "items": item(inner, item_values, wanted)})
        }
        Shape::Map(inner) => {
            json!({"type": "object", "additionalProperties": item(inner, item_values, wanted)})
        }
        _ => json!({"type": "string"}),
    }
}

/// A list's item or a map's value: never a pointer, so that its zero is its default.
fn item(inner: &Shape, values: Option<&str>, wanted: &mut Vec<String>) -> Value {
    let mut schema = shape(inner, None, wanted);
    if let Some(zero) = inner.zero_default() {
        schema["default"] = zero;
    }
    if let Some(values) = values {
        schema["enum"] = values.split('|').collect();
    }
    bare_reference(schema)
}

/// The kind that a definition is of, if it is a whole object.
fn group_version_kind(definition: &Definition) -> Option<Value> {
    let kind = definition.struct_name;
    let has = |name: &str| definition.fields.iter().any(|field| field.name == name);
    // Options are sent by themselves, too.
    let is_whole = has("kind") && (has("metadata") || kind == "DeleteOptions");
    if !is_whole {
        return None;
    }
    let parts: Vec<&str> = definition.name.rsplit('.').collect();
    let (version, package) = (*parts.get(1)?, *parts.get(2)?);
    let group = match package {
        "core" | "meta" => String::new(),
        "apps" | "autoscaling" | "batch" | "policy" => package.to_owned(),
        "rbac" => "rbac.authorization.k8s.io".to_owned(),
        package => format!("{package}.k8s.io"),
    };
    Some(json!({"group": group, "version": version, "kind": kind}))
}

/// The schema of a list of objects.
pub(super) fn list(resource: &ResourceType, definition: &str) -> Value {
    let kind = &resource.kind;
    let every = EveryObject::prose();
    let mut items = json!({"default": {}, "allOf": [reference(definition)]});
    let mut metadata = json!({
        "description": "Standard list metadata.",
        "default": {},
        "allOf": [reference(LIST_META)],
    });
    if resource.custom {
        items = reference(definition);
        metadata =
            json!({"description": "Standard list metadata.", "allOf": [reference(LIST_META)]});
    }
    json!({
        "description": format!("{} is a list of {kind}.", resource.list_kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"description": every.api_version, "type": "string"},
            "items": {
                "description": format!("The {}.", resource.plural),
                "type": "array",
                "items": items,
            },
            "kind": {"description": every.kind, "type": "string"},
            "metadata": metadata,
        },
        "x-kubernetes-group-version-kind": [{
            "group": resource.group, "version": resource.version, "kind": resource.list_kind,
        }],
    })
}

/// The schema of a custom resource: what its definition says, and what every object has.
pub(super) fn custom(resource: &ResourceType, schema: Option<Value>) -> Value {
    let mut schema = schema
        .unwrap_or_else(|| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    embed_inside(&mut schema);
    add_type_and_metadata(&mut schema);
    if let Some(fields) = schema.as_object_mut() {
        let kind = json!([{
            "group": resource.group, "version": resource.version, "kind": resource.kind,
        }]);
        fields.insert("x-kubernetes-group-version-kind".to_owned(), kind);
    }
    schema
}

/// Embedded resources have a type and metadata too, and must have the former.
fn embed_inside(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    for name in ["properties", "patternProperties"] {
        for property in fields.get_mut(name).and_then(Value::as_object_mut).into_iter().flatten() {
            embed_inside(property.1);
        }
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(name) {
            embed_inside(inner);
        }
    }
    if fields.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
        let mut required = match fields.remove("required") {
            Some(Value::Array(names)) => names,
            _ => Vec::new(),
        };
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == name) {
                required.push(name.into());
            }
        }
        fields.insert("required".to_owned(), required.into());
        add_type_and_metadata(schema);
    }
}

/// What is said of the fields that every object has, custom ones and lists included.
struct EveryObject {
    api_version: Value,
    kind: Value,
    metadata: Value,
}

impl EveryObject {
    /// One that has nothing else to say knows it.
    fn prose() -> &'static Self {
        static PROSE: LazyLock<EveryObject> = LazyLock::new(|| {
            let name = "io.k8s.api.core.v1.ConfigMap";
            let mut prose = Prose::of(std::iter::once(name));
            let mut of_field = |field| prose.of_field(name, field).unwrap_or_default();
            EveryObject {
                api_version: of_field("apiVersion"),
                kind: of_field("kind"),
                metadata: of_field("metadata"),
            }
        });
        &PROSE
    }
}

fn add_type_and_metadata(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    let Some(properties) = properties.as_object_mut() else { return };
    let every = EveryObject::prose();
    let metadata = json!({
        "description": every.metadata,
        "allOf": [reference(OBJECT_META)],
    });
    properties
        .insert("apiVersion".into(), json!({"description": every.api_version, "type": "string"}));
    properties.insert("kind".into(), json!({"description": every.kind, "type": "string"}));
    properties.insert("metadata".into(), metadata);
}

pub(super) const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
