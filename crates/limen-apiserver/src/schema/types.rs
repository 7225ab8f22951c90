//! The built-in types, read from `types.txt`.
//!
//! The table holds what the wire shows of each Go type: its fields, how they are written when they
//! are empty, what tells list items apart, and what the types are called in decoding errors. A
//! definition is parsed when it is first asked for and kept; few are ever used.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use serde_json::Value;

const TABLE: &str = include_str!("types.txt");

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.";
const API: &str = "io.k8s.api.";

/// A built-in type.
#[derive(Debug)]
pub(crate) struct Definition {
    /// The name in OpenAPI, such as `io.k8s.api.core.v1.Pod`.
    pub(crate) name: String,
    /// The name without its package, which is also the Go struct's.
    pub(crate) struct_name: &'static str,
    /// The whole object changes hands as one in server-side apply.
    pub(crate) atomic: bool,
    /// What OpenAPI says of unions, as it is published.
    pub(crate) unions: Option<Value>,
    /// The fields, in alphabetical order but for `apiVersion` and `kind`, which come first.
    pub(crate) fields: Vec<Field>,
}

/// A field of a built-in type.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// The number in protobuf; after those of the messages that it is inlined from.
    pub(crate) numbers: Vec<u32>,
    pub(crate) shape: Shape,
    /// Whether it is a pointer: absent differs from zero.
    pub(crate) pointer: bool,
    /// When it is left out of what the server writes.
    pub(crate) omit: Omit,
    pub(crate) required: bool,
    /// What Go calls the type, where it does not follow from the shape.
    go: Option<&'static str>,
    /// The Go structs that the field is inlined from, outermost first.
    pub(crate) inlined: Option<&'static str>,
    pub(crate) list: Option<List>,
    pub(crate) map_type: Option<&'static str>,
    /// `merge`, `retainKeys` or both with a comma, and the merge key.
    pub(crate) patch: Option<(&'static str, Option<&'static str>)>,
    pub(crate) values: Option<&'static str>,
    pub(crate) item_values: Option<&'static str>,
    /// The default, where it is not the zero value.
    default: Option<Value>,
    /// The version of the package of the type, which Go names types with.
    version: &'static str,
}

/// When a field is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Omit {
    Never,
    /// If it is a zero scalar, an empty list or map, or an absent pointer; structs are never.
    Empty,
    /// If it is zero, structs too.
    Zero,
}

/// How list items are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Atomic,
    Set,
    /// The keys, separated by commas.
    Map(&'static str),
}

/// What a value looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    String,
    Bool,
    Int32,
    Int64,
    Float,
    /// Bytes, as base64.
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// Any JSON, under the OpenAPI name of its type.
    Any(&'static str),
    /// A JSON schema, a list of them, a list of strings or a boolean: what else there may be
    /// besides one schema.
    SchemaOr(SchemaOr),
    List(Box<Shape>),
    Map(Box<Shape>),
    /// Another definition, by its name in the table.
    Struct(&'static str),
}

/// What may stand in for a JSON schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemaOr {
    Bool,
    Schemas,
    Strings,
}

struct Entry {
    text: &'static str,
    parsed: OnceLock<Definition>,
}

static ENTRIES: LazyLock<HashMap<&'static str, Entry>> = LazyLock::new(|| {
    let sections = TABLE.split("\n\n").filter(|section| !section.starts_with('#'));
    let entry = |text: &'static str| {
        let name = text.split([' ', '\n']).next().unwrap_or_default();
        (name, Entry { text, parsed: OnceLock::new() })
    };
    sections.map(|section| entry(section.trim_end())).collect()
});

/// The definition of that OpenAPI name.
pub(crate) fn definition(name: &str) -> Option<&'static Definition> {
    by_short_name(&short_name(name)?)
}

/// The definition that a shape refers to.
pub(crate) fn by_short_name(name: &str) -> Option<&'static Definition> {
    let (name, entry) = ENTRIES.get_key_value(name)?;
    Some(entry.parsed.get_or_init(|| parse(name, entry.text)))
}

/// The OpenAPI name of the definition of a built-in kind.
pub(crate) fn definition_name(group: &str, version: &str, kind: &str) -> String {
    match group.split('.').next() {
        Some("apiextensions") => format!("{EXTENSIONS}{kind}"),
        Some("" | "core") | None => format!("{API}core.{version}.{kind}"),
        Some(package) => format!("{API}{package}.{version}.{kind}"),
    }
}

/// The OpenAPI name of what the table calls by a short name.
pub(crate) fn full_name(short: &str) -> String {
    match short.split_once('.') {
        Some(("meta", name)) => format!("{META}{name}"),
        Some(("ext", name)) => format!("{EXTENSIONS}{name}"),
        _ => format!("{API}{short}"),
    }
}

fn short_name(name: &str) -> Option<String> {
    if let Some(name) = name.strip_prefix(META) {
        return Some(format!("meta.{name}"));
    }
    if let Some(name) = name.strip_prefix(EXTENSIONS) {
        return Some(format!("ext.{name}"));
    }
    name.strip_prefix(API).map(str::to_owned)
}

#[cfg(test)]
impl Definition {
    fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Field {
    /// What Go calls the type of the field's values.
    pub(crate) fn go_type(&self) -> String {
        match self.go {
            // A bare name is of the same package.
            Some(name) if !name.contains('.') => format!("{}.{name}", self.version),
            Some(name) => name.to_owned(),
            None => self.shape.go_type(),
        }
    }

    /// What Go calls the type of the items of the list or of the map's values.
    pub(crate) fn go_item_type(&self) -> String {
        let of_items = |name: &str| {
            let after_map = name.strip_prefix("map[").and_then(|name| name.split_once(']'));
            let item = name.strip_prefix("[]").or(after_map.map(|(_, item)| item))?;
            Some(item.to_owned())
        };
        let inner = || match &self.shape {
            Shape::List(inner) | Shape::Map(inner) => inner.go_type(),
            other => other.go_type(),
        };
        self.go.and_then(of_items).unwrap_or_else(inner)
    }

    /// The default as OpenAPI has it: that of the field, or the zero of what is not a pointer and
    /// always written.
    pub(crate) fn default(&self) -> Option<Value> {
        if let Some(default) = &self.default {
            return Some(default.clone()).filter(|default| !default.is_null());
        }
        let zero = self.shape.zero_default()?;
        let written = self.omit == Omit::Never || zero.is_object();
        (!self.pointer && written).then_some(zero)
    }
}

impl Shape {
    /// The default that OpenAPI gives to what is not a pointer.
    pub(crate) fn zero_default(&self) -> Option<Value> {
        match self {
            Self::String => Some("".into()),
            Self::Bool => Some(false.into()),
            Self::Int32 | Self::Int64 | Self::Float => Some(0.into()),
            Self::Struct(_) => Some(Value::Object(serde_json::Map::new())),
            _ => None,
        }
    }

    /// The OpenAPI name of the definition that describes such values, if one does.
    pub(crate) fn definition_name(&self) -> Option<String> {
        Some(match self {
            Self::Time => format!("{META}Time"),
            Self::MicroTime => format!("{META}MicroTime"),
            Self::Quantity => "io.k8s.apimachinery.pkg.api.resource.Quantity".to_owned(),
            Self::IntOrString => "io.k8s.apimachinery.pkg.util.intstr.IntOrString".to_owned(),
            Self::Any(name) => (*name).to_owned(),
            Self::SchemaOr(SchemaOr::Bool) => format!("{EXTENSIONS}JSONSchemaPropsOrBool"),
            Self::SchemaOr(SchemaOr::Schemas) => format!("{EXTENSIONS}JSONSchemaPropsOrArray"),
            Self::SchemaOr(SchemaOr::Strings) => {
                format!("{EXTENSIONS}JSONSchemaPropsOrStringArray")
            }
            Self::Struct(short) => full_name(short),
            _ => return None,
        })
    }

    /// What Go calls the type.
    pub(crate) fn go_type(&self) -> String {
        match self {
            Self::String => "string".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int32 => "int32".to_owned(),
            Self::Int64 => "int64".to_owned(),
            Self::Float => "float64".to_owned(),
            Self::Bytes => "[]uint8".to_owned(),
            Self::Time => "v1.Time".to_owned(),
            Self::MicroTime => "v1.MicroTime".to_owned(),
            Self::Quantity => "resource.Quantity".to_owned(),
            Self::IntOrString => "intstr.IntOrString".to_owned(),
            Self::Any(name) => {
                let package = if name.contains("runtime") { "runtime" } else { "v1" };
                format!("{package}.{}", name.rsplit('.').next().unwrap_or(name))
            }
            Self::SchemaOr(_) => "v1.JSONSchemaProps".to_owned(),
            Self::List(item) => format!("[]{}", item.go_type()),
            Self::Map(value) => format!("map[string]{}", value.go_type()),
            Self::Struct(name) => {
                let (package, name) = name.rsplit_once('.').unwrap_or(("", name));
                format!("{}.{name}", version_of(package))
            }
        }
    }
}

/// The version of a package such as `core.v1` or `meta`.
fn version_of(package: &'static str) -> &'static str {
    package.rsplit_once('.').map_or("v1", |(_, version)| version)
}

fn parse(name: &'static str, text: &'static str) -> Definition {
    let (package, struct_name) = name.rsplit_once('.').unwrap_or(("", name));
    let mut lines = text.lines();
    let flags = lines.next().unwrap_or_default();
    let flag = |start: &str| flags.split(' ').find_map(|flag| flag.strip_prefix(start));
    let unions = flag("unions=").map(|json| serde_json::from_str(json).unwrap_or_default());
    let mut fields = Vec::new();
    for line in lines {
        match line {
            "@TypeMeta" => fields.extend(
                ["apiVersion - string", "kind - string"].map(|line| parse_field(line, package)),
            ),
            line => fields.push(parse_field(line, package)),
        }
    }
    Definition {
        name: full_name(name),
        struct_name,
        atomic: flag("map=") == Some("atomic"),
        unions,
        fields,
    }
}

fn parse_field(line: &'static str, package: &'static str) -> Field {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    let numbers = words.next().unwrap_or_default();
    let written_type = words.next().unwrap_or_default();
    let always = name.ends_with('!');
    let pointer = written_type.starts_with('*');
    let (shape, go) = match written_type.trim_start_matches('*').split_once(':') {
        Some((shape, go)) => (shape, Some(go)),
        None => (written_type.trim_start_matches('*'), None),
    };
    let mut field = Field {
        name: name.trim_end_matches('!'),
        numbers: numbers.split('.').filter_map(|number| number.parse().ok()).collect(),
        shape: parse_shape(shape, package),
        pointer,
        omit: if always { Omit::Never } else { Omit::Empty },
        required: always,
        go,
        inlined: None,
        list: None,
        map_type: None,
        patch: None,
        values: None,
        item_values: None,
        default: None,
        version: version_of(package),
    };
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("required", _) => field.required = true,
            ("optional", _) => field.required = false,
            ("omitzero", _) => field.omit = Omit::Zero,
            ("atomic", _) => field.list = Some(List::Atomic),
            ("set", _) => field.list = Some(List::Set),
            ("list", keys) => field.list = Some(List::Map(keys)),
            ("map", kind) => field.map_type = Some(kind),
            ("patch", patch) => {
                field.patch = Some(match patch.split_once('=') {
                    Some((strategy, key)) => (strategy, Some(key)),
                    None => (patch, None),
                });
            }
            ("enum", values) => field.values = Some(values),
            ("items", values) => field.item_values = Some(values),
            ("in", structs) => field.inlined = Some(structs),
            ("default", json) => {
                field.default = Some(serde_json::from_str(json).unwrap_or_default());
            }
            _ => {}
        }
    }
    field
}

fn parse_shape(text: &'static str, package: &'static str) -> Shape {
    if let Some(item) = text.strip_prefix("[]") {
        return Shape::List(Box::new(parse_shape(item, package)));
    }
    if let Some(value) = text.strip_prefix("{}") {
        return Shape::Map(Box::new(parse_shape(value, package)));
    }
    match text.trim_start_matches("meta.") {
        "string" => Shape::String,
        "bool" => Shape::Bool,
        "int32" => Shape::Int32,
        "int64" => Shape::Int64,
        "float64" => Shape::Float,
        "bytes" => Shape::Bytes,
        "Time" => Shape::Time,
        "MicroTime" => Shape::MicroTime,
        "Quantity" => Shape::Quantity,
        "IntOrString" => Shape::IntOrString,
        "RawExtension" => Shape::Any("io.k8s.apimachinery.pkg.runtime.RawExtension"),
        "FieldsV1" => Shape::Any("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"),
        "JSON" => Shape::Any("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON"),
        "JSONSchemaPropsOrBool" => Shape::SchemaOr(SchemaOr::Bool),
        "JSONSchemaPropsOrArray" => Shape::SchemaOr(SchemaOr::Schemas),
        "JSONSchemaPropsOrStringArray" => Shape::SchemaOr(SchemaOr::Strings),
        _ if text.contains('.') => Shape::Struct(text),
        _ => Shape::Struct(sibling(text, package)),
    }
}

/// The name in the table of a definition of the same package.
fn sibling(name: &str, package: &str) -> &'static str {
    let full = format!("{package}.{name}");
    ENTRIES.get_key_value(full.as_str()).map_or("", |(name, _)| name)
}

/// The names of all definitions.
#[cfg(test)]
pub(crate) fn names() -> Vec<String> {
    ENTRIES.keys().map(|name| full_name(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_has_its_fields() {
        let port = definition("io.k8s.api.core.v1.ServicePort").unwrap();
        let protocol = port.field("protocol").unwrap();
        assert_eq!(protocol.default(), Some("TCP".into()));
        assert_eq!(protocol.go_type(), "v1.Protocol");
        assert_eq!(protocol.values, Some("SCTP|TCP|UDP"));
        let port_number = port.field("port").unwrap();
        assert!(port_number.required);
        assert_eq!(port_number.default(), Some(0.into()));
        assert_eq!(port.field("nodePort").unwrap().default(), None);
        let ports = definition("io.k8s.api.core.v1.ServiceSpec").unwrap().field("ports").unwrap();
        assert_eq!(ports.list, Some(List::Map("port,protocol")));
        assert_eq!(ports.patch, Some(("merge", Some("port"))));
        assert_eq!(ports.go_type(), "[]v1.ServicePort");
    }

    #[test]
    fn fields_of_a_definition_have_different_numbers() {
        for name in names().iter().filter(|name| !name.ends_with(".WatchEvent")) {
            let fields = definition(name).unwrap().fields.iter();
            let mut numbers = std::collections::HashSet::new();
            for field in fields.filter(|field| !matches!(field.name, "apiVersion" | "kind")) {
                assert!(!field.numbers.is_empty(), "{name}.{}", field.name);
                assert!(numbers.insert(&field.numbers), "{name}.{}", field.name);
            }
        }
    }

    #[test]
    fn every_definition_is_understood() {
        fn check(shape: &Shape, at: &str) {
            match shape {
                Shape::List(inner) | Shape::Map(inner) => check(inner, at),
                Shape::Struct(name) => {
                    assert!(by_short_name(name).is_some(), "{at} refers to {name:?}");
                }
                _ => {}
            }
        }
        let names = names();
        assert!(names.len() > 300, "only {} definitions", names.len());
        for name in names {
            let found = definition(&name).unwrap();
            assert_eq!(found.name, name);
            for field in &found.fields {
                check(&field.shape, &format!("{name}.{}", field.name));
            }
        }
    }
}
