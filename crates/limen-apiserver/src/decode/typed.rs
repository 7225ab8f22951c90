//! Built-in objects: a parsed body becomes what the server would store of it.
//!
//! This is what Go's JSON decoder does with the types of Kubernetes, and what its encoder writes
//! afterwards. Absence and zero are one for most fields: such a field vanishes when it is zero. A
//! pointer keeps the difference, a struct that is not a pointer is always there, and what is marked
//! as always written is there even when it is zero; an empty list is then `null`, since the store
//! of Kubernetes does not tell it from an absent one.
//!
//! The first value of a wrong type is an error; unknown and duplicate fields are told but passed
//! over.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::MAX_STRICT_ERRORS;
use super::quote::quoted;
use super::raw::Raw;
use super::scalars;
use super::time::{self, Precision};
use crate::schema::types::{self, Definition, Field, Omit, SchemaOr, Shape};

/// A decoded object.
#[derive(Debug)]
pub(crate) struct Typed {
    pub(crate) object: Map<String, Value>,
    /// `unknown field "spec.foo"`, `duplicate field "metadata.name"`, ...
    pub(crate) strict_errors: Vec<String>,
}

/// Decodes the fields of an object of a built-in type. The error is Go's sentence.
pub(crate) fn decode(
    definition: &'static Definition,
    fields: Vec<(String, Raw)>,
) -> Result<Typed, String> {
    let mut decoder = Decoder::default();
    let object = decoder.object(definition, fields)?;
    match decoder.first_error {
        Some(error) => Err(error),
        None => Ok(Typed { object, strict_errors: decoder.strict_errors }),
    }
}

#[derive(Default)]
struct Decoder {
    /// The first value of a wrong type; the decoder goes on, since a fatal error may follow, which
    /// is told in its place.
    first_error: Option<String>,
    strict_errors: Vec<String>,
    /// Where the decoder is, for strict errors: `spec.rules[0].host`.
    path: String,
    /// Where it is for type errors, without positions but with Go's inlined structs.
    go_path: Vec<&'static str>,
    go_struct: &'static str,
    /// Inside types that decode themselves, strictness ends and errors name the outer struct.
    inside_own_decoder: bool,
}

/// The name of the type of a value, made when an error needs it.
type GoType<'a> = &'a dyn Fn() -> String;

impl Decoder {
    fn object(
        &mut self,
        definition: &'static Definition,
        fields: Vec<(String, Raw)>,
    ) -> Result<Map<String, Value>, String> {
        let mut found: Vec<Option<Value>> = vec![None; definition.fields.len()];
        let mut seen = vec![false; definition.fields.len()];
        for (name, raw) in fields {
            let Some(place) = definition.fields.iter().position(|field| field.name == name) else {
                self.strict("unknown field", &name);
                continue;
            };
            if std::mem::replace(&mut seen[place], true) {
                self.strict("duplicate field", &name);
            }
            let field = &definition.fields[place];
            found[place] = self.field(definition, field, raw)?;
        }
        let mut object = Map::new();
        for (field, value) in definition.fields.iter().zip(found) {
            if let Some(value) = self.written(field, value)? {
                object.insert(field.name.to_owned(), value);
            }
        }
        Ok(object)
    }

    fn field(
        &mut self,
        definition: &'static Definition,
        field: &'static Field,
        raw: Raw,
    ) -> Result<Option<Value>, String> {
        let (path_length, go_depth) = (self.path.len(), self.go_path.len());
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(field.name);
        self.go_path.extend(field.inlined.into_iter().flat_map(|structs| structs.split('.')));
        self.go_path.push(field.name);
        let outer_struct = self.go_struct;
        if !self.inside_own_decoder {
            self.go_struct = definition.struct_name;
        }
        let value = self.value(&field.shape, raw, &|| field.go_type(), &|| field.go_item_type())?;
        self.go_struct = outer_struct;
        self.go_path.truncate(go_depth);
        self.path.truncate(path_length);
        Ok(value)
    }

    /// A value; `None` for what is null or of a wrong type.
    fn value(
        &mut self,
        shape: &'static Shape,
        raw: Raw,
        go_type: GoType<'_>,
        go_item: GoType<'_>,
    ) -> Result<Option<Value>, String> {
        match (shape, raw) {
            (Shape::Any(_), raw) => Ok(Some(raw.into_value()).filter(|value| !value.is_null())),
            (_, Raw::Null) => Ok(None),
            (Shape::String, Raw::String(text)) => Ok(Some(text.into())),
            (Shape::Bool, Raw::Bool(value)) => Ok(Some(value.into())),
            (Shape::Int32, Raw::Number(text)) => Ok(self.int32(&text, go_type)),
            (Shape::Int64, Raw::Number(text)) => {
                Ok(self.parsed(text.parse::<i64>().ok(), &text, go_type))
            }
            (Shape::Float, Raw::Number(text)) => {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                let written = number.map(|_| Raw::Number(text.clone()).into_value());
                Ok(self.parsed(written, &text, go_type))
            }
            (Shape::Bytes, Raw::String(text)) => match scalars::base64(&text) {
                Ok(text) => Ok(Some(text.into())),
                Err(error) => {
                    self.first_error.get_or_insert(error);
                    Ok(None)
                }
            },
            (Shape::Bytes, Raw::List(items)) => Ok(self.bytes(&items)),
            (Shape::Time, raw) => self.time(raw, Precision::Seconds).map(Some),
            (Shape::MicroTime, raw) => self.time(raw, Precision::Microseconds).map(Some),
            (Shape::Quantity, raw) => quantity(raw).map(Some),
            (Shape::IntOrString, Raw::String(text)) => Ok(Some(text.into())),
            (Shape::IntOrString, Raw::Number(text)) => match text.parse::<i32>() {
                Ok(number) => Ok(Some(number.into())),
                Err(_) => Err(self.type_error(&format!("number {text}"), "int32")),
            },
            (Shape::IntOrString, raw) => Err(self.type_error(raw.go_name(), "int32")),
            (Shape::SchemaOr(other), raw) => self.schema_or(*other, raw),
            (Shape::List(item), Raw::List(items)) => self.list(item, items, go_item).map(Some),
            (Shape::Map(value), Raw::Object(fields)) => self.map(value, fields, go_item).map(Some),
            (Shape::Struct(name), Raw::Object(fields)) => match types::by_short_name(name) {
                Some(definition) => self.object(definition, fields).map(Value::Object).map(Some),
                None => Ok(Some(Raw::Object(fields).into_value())),
            },
            (_, raw) => {
                let error = self.type_error(raw.go_name(), &go_type());
                self.first_error.get_or_insert(error);
                Ok(None)
            }
        }
    }

    /// Bytes may be written as a list of numbers too.
    fn bytes(&mut self, items: &[Raw]) -> Option<Value> {
        let mut bytes = Vec::with_capacity(items.len());
        for item in items {
            let byte = match item {
                Raw::Null => Some(0),
                Raw::Number(text) => text.parse().ok(),
                _ => None,
            };
            let Some(byte) = byte else {
                let found = match item {
                    Raw::Number(text) => format!("number {text}"),
                    other => other.go_name().to_owned(),
                };
                let error = self.type_error(&found, "uint8");
                self.first_error.get_or_insert(error);
                return None;
            };
            bytes.push(byte);
        }
        Some(STANDARD.encode(bytes).into())
    }

    fn int32(&mut self, text: &str, go_type: GoType<'_>) -> Option<Value> {
        self.parsed(text.parse::<i32>().ok(), text, go_type)
    }

    fn parsed<T: Into<Value>>(
        &mut self,
        number: Option<T>,
        text: &str,
        go_type: GoType<'_>,
    ) -> Option<Value> {
        if number.is_none() {
            let error = self.type_error(&format!("number {text}"), &go_type());
            self.first_error.get_or_insert(error);
        }
        number.map(Into::into)
    }

    fn time(&self, raw: Raw, precision: Precision) -> Result<Value, String> {
        match raw {
            Raw::String(text) => time::normalized(&text, precision).map(Value::String),
            other => Err(self.type_error(other.go_name(), "string")),
        }
    }

    fn list(
        &mut self,
        item: &'static Shape,
        items: Vec<Raw>,
        go_item: GoType<'_>,
    ) -> Result<Value, String> {
        let length = self.path.len();
        let mut list = Vec::with_capacity(items.len());
        for (position, raw) in items.into_iter().enumerate() {
            self.path.push_str(&format!("[{position}]"));
            let value = self.value(item, raw, go_item, &|| nested(item))?;
            self.path.truncate(length);
            list.push(self.or_zero(item, value)?);
        }
        Ok(list.into())
    }

    fn map(
        &mut self,
        shape: &'static Shape,
        fields: Vec<(String, Raw)>,
        go_item: GoType<'_>,
    ) -> Result<Value, String> {
        let length = self.path.len();
        let mut map = Map::new();
        for (key, raw) in fields {
            if map.contains_key(&key) {
                self.strict("duplicate field", &key);
            }
            self.path.push('.');
            self.path.push_str(&key);
            let value = self.value(shape, raw, go_item, &|| nested(shape))?;
            self.path.truncate(length);
            let value = self.or_zero(shape, value)?;
            map.insert(key, value);
        }
        Ok(map.into())
    }

    /// The types of JSON schemas decode themselves: without strictness, and errors inside them end
    /// the decoding at once.
    fn schema_or(&mut self, other: SchemaOr, raw: Raw) -> Result<Option<Value>, String> {
        let schema = &Shape::Struct("ext.JSONSchemaProps");
        let schemas = || self::schemas();
        let no_name = || String::new();
        let (shape, raw): (&'static Shape, Raw) = match (other, raw) {
            (_, raw @ Raw::Object(_)) => (schema, raw),
            (SchemaOr::Bool, Raw::Bool(value)) => return Ok(Some(value.into())),
            (SchemaOr::Bool, _) => return Err("boolean or JSON schema expected".to_owned()),
            (SchemaOr::Schemas, raw @ Raw::List(_)) => (schemas(), raw),
            (SchemaOr::Strings, raw @ Raw::List(_)) => (strings(), raw),
            _ => return Ok(None),
        };
        let outer = std::mem::replace(&mut self.inside_own_decoder, true);
        let earlier_error = self.first_error.take();
        let value = self.value(shape, raw, &no_name, &|| nested(shape))?;
        self.inside_own_decoder = outer;
        match std::mem::replace(&mut self.first_error, earlier_error) {
            Some(fatal) => Err(fatal),
            None => Ok(value),
        }
    }

    /// What the server writes for a field, if anything.
    fn written(
        &mut self,
        field: &'static Field,
        value: Option<Value>,
    ) -> Result<Option<Value>, String> {
        if field.pointer {
            let absent = (field.omit == Omit::Never).then_some(Value::Null);
            return Ok(value.or(absent));
        }
        let is_time = matches!(field.shape, Shape::Time | Shape::MicroTime | Shape::Any(_));
        if is_time && value.is_none() {
            return Ok((field.omit != Omit::Zero).then_some(Value::Null));
        }
        let value = self.or_zero(&field.shape, value)?;
        let empty = match &value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Bool(value) => !value,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
        };
        let is_collection = matches!(field.shape, Shape::List(_) | Shape::Map(_) | Shape::Bytes);
        let is_struct =
            matches!(field.shape, Shape::Struct(_) | Shape::IntOrString | Shape::Quantity);
        // An empty list of owners is not the same as none: it takes the fields from all of them.
        let resets_owners = field.name == "managedFields" && self.path == "metadata";
        Ok(match (empty && !is_struct, field.omit) {
            (false, _) => Some(value),
            _ if resets_owners && value.is_array() => Some(value),
            (true, Omit::Never) if is_collection => Some(Value::Null),
            (true, Omit::Never) => Some(value),
            (true, _) => None,
        })
    }

    /// The value, or that of its shape that has nothing set.
    fn or_zero(&mut self, shape: &'static Shape, value: Option<Value>) -> Result<Value, String> {
        if let Some(value) = value {
            return Ok(value);
        }
        Ok(match shape {
            Shape::String | Shape::Bytes => "".into(),
            Shape::Bool => false.into(),
            Shape::Int32 | Shape::Int64 | Shape::Float | Shape::IntOrString => 0.into(),
            Shape::Quantity => "0".into(),
            Shape::Time | Shape::MicroTime | Shape::Any(_) | Shape::SchemaOr(_) => Value::Null,
            Shape::List(_) | Shape::Map(_) => Value::Null,
            Shape::Struct(name) => match types::by_short_name(name) {
                Some(definition) => Value::Object(self.object(definition, Vec::new())?),
                None => Value::Null,
            },
        })
    }

    fn strict(&mut self, problem: &str, name: &str) {
        let separator = if self.path.is_empty() { "" } else { "." };
        let path = format!("{}{separator}{name}", self.path);
        let error = format!("{problem} {}", quoted(&path));
        let full = self.strict_errors.len() >= MAX_STRICT_ERRORS;
        if !self.inside_own_decoder && !full && !self.strict_errors.contains(&error) {
            self.strict_errors.push(error);
        }
    }

    fn type_error(&self, found: &str, go_type: &str) -> String {
        if self.go_path.is_empty() {
            return format!("json: cannot unmarshal {found} into Go value of type {go_type}");
        }
        let field = self.go_path.join(".");
        format!(
            "json: cannot unmarshal {found} into Go struct field {}.{field} of type {go_type}",
            self.go_struct
        )
    }
}

/// The Go type of the items of what is itself an item.
fn nested(shape: &Shape) -> String {
    match shape {
        Shape::List(inner) | Shape::Map(inner) => inner.go_type(),
        other => other.go_type(),
    }
}

fn strings() -> &'static Shape {
    static SHAPE: std::sync::LazyLock<Shape> =
        std::sync::LazyLock::new(|| Shape::List(Box::new(Shape::String)));
    &SHAPE
}

fn schemas() -> &'static Shape {
    static SHAPE: std::sync::LazyLock<Shape> =
        std::sync::LazyLock::new(|| Shape::List(Box::new(Shape::Struct("ext.JSONSchemaProps"))));
    &SHAPE
}

/// A quantity's text, as it was written.
fn quantity(raw: Raw) -> Result<Value, String> {
    let text = match raw {
        Raw::String(text) | Raw::Number(text) => text,
        Raw::Bool(value) => value.to_string(),
        Raw::List(_) => "[]".to_owned(),
        _ => "{}".to_owned(),
    };
    let text = text.trim();
    scalars::check_quantity(text)?;
    Ok(text.into())
}
