//! The types of expressions, as far as a schema tells them.

use std::fmt;

use serde_json::Value;

use crate::crd::schema_json::{additional, fields, flag, has_additional, items, text};

/// The type of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type<'a> {
    /// Not known before it runs.
    Dyn,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Null,
    Duration,
    Timestamp,
    List(Box<Self>),
    /// With the type of the keys and of the values.
    Map(Box<Self>, Box<Self>),
    /// An object with the fields that its schema names; whether it is a whole object.
    Object(&'a Value, bool),
    /// The metadata of a whole object.
    Metadata,
    Optional(Box<Self>),
}

impl<'a> Type<'a> {
    /// The type of the values that a schema describes; none if rules cannot see them.
    pub(super) fn of(schema: &'a Value, whole_object: bool) -> Option<Self> {
        if flag(schema, "x-kubernetes-int-or-string") {
            return Some(Self::Dyn);
        }
        Some(match text(schema, "type") {
            "boolean" => Self::Bool,
            "integer" => Self::Int,
            "number" => Self::Double,
            "string" => match text(schema, "format") {
                "byte" => Self::Bytes,
                "duration" => Self::Duration,
                "date" | "date-time" => Self::Timestamp,
                _ => Self::String,
            },
            "array" => Self::List(Box::new(Self::of(items(schema)?, false)?)),
            "object" if has_additional(schema) => {
                let value = Self::of(additional(schema)?, false)?;
                Self::Map(Box::new(Self::String), Box::new(value))
            }
            "object" => {
                Self::Object(schema, whole_object || flag(schema, "x-kubernetes-embedded-resource"))
            }
            _ => return None,
        })
    }

    /// Whether a value of this type may be one of the other.
    pub(super) fn may_be(&self, other: &Type<'_>) -> bool {
        match (self, other) {
            (Self::Dyn, _) | (_, Type::Dyn) => true,
            (Self::List(own), Type::List(other)) | (Self::Optional(own), Type::Optional(other)) => {
                own.may_be(other)
            }
            (Self::Map(own_key, own), Type::Map(key, other)) => {
                own_key.may_be(key) && own.may_be(other)
            }
            (Self::Object(..) | Self::Metadata, Type::Object(..) | Type::Metadata) => true,
            (Self::Null, other) => !other.is_plain(),
            (own, Type::Null) => !own.is_plain(),
            (own, other) => {
                std::mem::discriminant(&own.owned()) == std::mem::discriminant(&other.owned())
            }
        }
    }

    /// The type without what it holds, for telling types apart across lifetimes.
    fn owned(&self) -> Type<'static> {
        match self {
            Self::Dyn => Type::Dyn,
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Uint => Type::Uint,
            Self::Double => Type::Double,
            Self::String => Type::String,
            Self::Bytes => Type::Bytes,
            Self::Null => Type::Null,
            Self::Duration => Type::Duration,
            Self::Timestamp => Type::Timestamp,
            Self::List(_) => Type::List(Box::new(Type::Dyn)),
            Self::Map(..) => Type::Map(Box::new(Type::Dyn), Box::new(Type::Dyn)),
            Self::Object(..) | Self::Metadata => Type::Metadata,
            Self::Optional(_) => Type::Optional(Box::new(Type::Dyn)),
        }
    }

    fn is_plain(&self) -> bool {
        matches!(
            self,
            Self::Bool | Self::Int | Self::Uint | Self::Double | Self::String | Self::Bytes
        )
    }

    /// The type of a field, if there is one of that name.
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        match self {
            Self::Dyn => Some(Self::Dyn),
            Self::Map(_, value) => Some((**value).clone()),
            Self::Metadata => matches!(name, "name" | "generateName").then_some(Self::String),
            Self::Optional(inner) => inner.field(name).map(|field| Self::Optional(Box::new(field))),
            Self::Object(schema, whole_object) => {
                match (whole_object, name) {
                    (true, "apiVersion" | "kind") => return Some(Self::String),
                    (true, "metadata") => return Some(Self::Metadata),
                    _ => {}
                }
                let (_, field) = fields(schema, "properties")
                    .find(|(own, _)| super::values::escape(own) == name)?;
                Self::of(field, false)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Null => f.write_str("null"),
            Self::Duration => f.write_str("google.protobuf.Duration"),
            Self::Timestamp => f.write_str("google.protobuf.Timestamp"),
            Self::List(item) => write!(f, "list({item})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Object(..) | Self::Metadata => f.write_str("object"),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
        }
    }
}
