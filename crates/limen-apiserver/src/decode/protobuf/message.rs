//! Messages become what their JSON would have been, by the table of types.
//!
//! A field's items are gathered before its value is made: a scalar is its last item, a message is
//! all of its pieces together, a list is one value for each.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use super::super::json;
use super::super::raw::Raw;
use super::wire::{self, Item};
use crate::schema::types::{self, Definition, Field, SchemaOr, Shape};

/// The fields of a message of a built-in type. Those that the table does not know are left out.
pub(super) fn fields(
    definition: &'static Definition,
    pieces: &[&[u8]],
) -> Result<Vec<(String, Raw)>, String> {
    let fields: Vec<_> = definition.fields.iter().collect();
    let mut found = Vec::new();
    let message = Message { name: definition.struct_name, fields, level: 0, depth: 1 };
    message.read(pieces, &mut found)?;
    Ok(found)
}

/// What is known of a message.
struct Message {
    name: &'static str,
    fields: Vec<&'static Field>,
    /// How many messages the fields have been inlined from so far.
    level: usize,
    /// How deep in objects and lists the message is.
    depth: usize,
}

impl Message {
    fn read(&self, pieces: &[&[u8]], found: &mut Vec<(String, Raw)>) -> Result<(), String> {
        for (number, items) in by_number(pieces, self.name)? {
            let is_here = |field: &&Field| field.numbers.get(self.level) == Some(&number);
            let fields: Vec<_> = self.fields.iter().copied().filter(is_here).collect();
            match fields.as_slice() {
                [] => {}
                [field] if field.numbers.len() == self.level + 1 => {
                    let read = Value { field: field.name, depth: self.depth };
                    found.push((field.name.to_owned(), read.of(&field.shape, &items)?));
                }
                [field, ..] => {
                    let pieces = pieces_of(&items, field.inlined.unwrap_or_default())?;
                    let inlined = Self { fields, level: self.level + 1, ..*self };
                    inlined.read(&pieces, found)?;
                }
            }
        }
        Ok(())
    }
}

/// A value that is being read.
#[derive(Clone, Copy)]
struct Value {
    /// The field that it is in, for errors.
    field: &'static str,
    depth: usize,
}

impl Value {
    /// The value of some items; the zero value of none.
    fn of(self, shape: &'static Shape, items: &[Item<'_>]) -> Result<Raw, String> {
        let last = items.last();
        match shape {
            Shape::String => self.text(last).map(Raw::String),
            Shape::Bytes => {
                let bytes = last.map_or(Ok(&b""[..]), |item| item.bytes(&self.go_name()))?;
                Ok(Raw::String(STANDARD.encode(bytes)))
            }
            Shape::Bool => Ok(Raw::Bool(self.varint(last)? != 0)),
            // What does not fit is cut off, as in Go.
            Shape::Int32 => Ok(Raw::Number((self.varint(last)? as i32).to_string())),
            Shape::Int64 => Ok(Raw::Number((self.varint(last)? as i64).to_string())),
            Shape::Float => {
                let number = last.map_or(Ok(0.0), |item| item.double(&self.go_name()))?;
                Ok(Raw::Number(number.to_string()))
            }
            Shape::Time => self.time(items, "%Y-%m-%dT%H:%M:%SZ"),
            Shape::MicroTime => self.time(items, "%Y-%m-%dT%H:%M:%S.%6fZ"),
            Shape::Quantity => match self.inner(items, "Quantity")?.get(&1) {
                Some(text) => self.text(text.last()).map(Raw::String),
                None => Ok(Raw::String("0".to_owned())),
            },
            Shape::IntOrString => {
                let mut inner = self.inner(items, "IntOrString")?;
                let mut part = |number| inner.remove(&number).unwrap_or_default();
                match self.of(&Shape::Int64, &part(1))? {
                    Raw::Number(kind) if kind == "1" => self.of(&Shape::String, &part(3)),
                    _ => self.of(&Shape::Int32, &part(2)),
                }
            }
            Shape::Any(_) => self.json(items),
            Shape::SchemaOr(other) => self.schema_or(*other, items),
            Shape::List(item) => self.list(item, items).map(Raw::List),
            Shape::Map(value) => {
                let deeper = self.deeper()?;
                let entry = |entry| deeper.entry(value, entry);
                items.iter().map(entry).collect::<Result<_, _>>().map(Raw::Object)
            }
            Shape::Struct(name) => {
                let definition = types::by_short_name(name)
                    .ok_or_else(|| format!("nothing is known of {name}"))?;
                let fields = definition.fields.iter().collect();
                let depth = self.deeper()?.depth;
                let message = Message { name: definition.struct_name, fields, level: 0, depth };
                let mut found = Vec::new();
                message.read(&pieces_of(items, &self.go_name())?, &mut found)?;
                Ok(Raw::Object(found))
            }
        }
    }

    fn list(self, shape: &'static Shape, items: &[Item<'_>]) -> Result<Vec<Raw>, String> {
        let deeper = self.deeper()?;
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            match shape {
                Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Float => {
                    for item in item.unpacked(*shape == Shape::Float)? {
                        list.push(deeper.of(shape, &[item])?);
                    }
                }
                _ => list.push(deeper.nested(shape, &[*item])?),
            }
        }
        Ok(list)
    }

    fn entry(self, shape: &'static Shape, entry: &Item<'_>) -> Result<(String, Raw), String> {
        let mut parts = self.inner(&[*entry], "Entry")?;
        let key = self.text(parts.remove(&1).unwrap_or_default().last())?;
        let value = self.nested(shape, &parts.remove(&2).unwrap_or_default())?;
        Ok((key, value))
    }

    /// A value in a list or a map. There, a list is a message that has nothing else.
    fn nested(self, shape: &'static Shape, items: &[Item<'_>]) -> Result<Raw, String> {
        match shape {
            Shape::List(_) | Shape::Map(_) => {
                let inner = self.inner(items, "Items")?.remove(&1).unwrap_or_default();
                self.of(shape, &inner)
            }
            _ => self.of(shape, items),
        }
    }

    fn schema_or(self, other: SchemaOr, items: &[Item<'_>]) -> Result<Raw, String> {
        const SCHEMA: &Shape = &Shape::Struct("ext.JSONSchemaProps");
        let mut inner = self.inner(items, "JSONSchemaProps")?;
        let mut part = |number| inner.remove(&number).unwrap_or_default();
        let (first, second) = (part(1), part(2));
        match other {
            SchemaOr::Bool if second.is_empty() => self.of(&Shape::Bool, &first),
            SchemaOr::Bool => self.of(SCHEMA, &second),
            SchemaOr::Schemas if !second.is_empty() => self.list(SCHEMA, &second).map(Raw::List),
            SchemaOr::Strings if !second.is_empty() => {
                self.list(&Shape::String, &second).map(Raw::List)
            }
            _ if first.is_empty() => Ok(Raw::Null),
            _ => self.of(SCHEMA, &first),
        }
    }

    /// JSON, which is carried as it is.
    fn json(self, items: &[Item<'_>]) -> Result<Raw, String> {
        let inner = self.inner(items, "RawExtension")?;
        let text = inner.get(&1).and_then(|raw| raw.last()).map(|raw| raw.bytes("Raw"));
        match text.transpose()? {
            None | Some(b"") => Ok(Raw::Null),
            Some(text) => json::parse(text),
        }
    }

    /// A time, which is null if nothing is said of it.
    fn time(self, items: &[Item<'_>], format: &str) -> Result<Raw, String> {
        let parts = self.inner(items, "Timestamp")?;
        if parts.is_empty() {
            return Ok(Raw::Null);
        }
        let part = |number| self.varint(parts.get(&number).and_then(|items| items.last()));
        let (seconds, nanoseconds) = (part(1)? as i64, part(2)? as i32);
        let micros = seconds.checked_mul(1_000_000);
        let micros = micros.and_then(|whole| whole.checked_add(i64::from(nanoseconds / 1000)));
        let time = micros.and_then(|micros| Timestamp::from_microsecond(micros).ok());
        let time = time.ok_or("Time.MarshalJSON: year outside of range [0,9999]")?;
        Ok(Raw::String(time.strftime(format).to_string()))
    }

    fn inner<'a>(
        self,
        items: &[Item<'a>],
        message: &str,
    ) -> Result<BTreeMap<u32, Vec<Item<'a>>>, String> {
        by_number(&pieces_of(items, &self.go_name())?, message)
    }

    fn text(self, item: Option<&Item<'_>>) -> Result<String, String> {
        item.map_or(Ok(String::new()), |item| item.text(&self.go_name()))
    }

    fn varint(self, item: Option<&Item<'_>>) -> Result<u64, String> {
        item.map_or(Ok(0), |item| item.varint(&self.go_name()))
    }

    /// A value inside this one; as deep as JSON may be.
    fn deeper(self) -> Result<Self, String> {
        if self.depth == json::MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    /// What Go most likely calls the field.
    fn go_name(self) -> String {
        if self.field == "metadata" {
            return "ObjectMeta".to_owned();
        }
        let mut letters = self.field.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
    }
}

fn by_number<'a>(
    pieces: &[&'a [u8]],
    message: &str,
) -> Result<BTreeMap<u32, Vec<Item<'a>>>, String> {
    let mut by_number: BTreeMap<u32, Vec<Item<'a>>> = BTreeMap::new();
    for item in wire::items(pieces, message)? {
        by_number.entry(item.number).or_default().push(item);
    }
    Ok(by_number)
}

fn pieces_of<'a>(items: &[Item<'a>], field: &str) -> Result<Vec<&'a [u8]>, String> {
    items.iter().map(|item| item.bytes(field)).collect()
}
