//! What happens to a custom resource because of its schema: it is pruned, defaulted and validated.
//!
//! ```text
//! request ──▶ prune ──▶ default ──▶ validate ──▶ store
//!            (unknown    (fills in)  (values, embedded metadata,
//!             fields go)              list keys, rules)
//! ```
//!
//! All of it walks the object beside its schema and recurses as deep as the object is nested, which
//! the JSON parser bounds.

mod default;
mod embedded;
mod format;
mod keyed_lists;
mod number;
mod prune;
mod scale;
mod schema_part;
mod validate;

pub(crate) use default::default;
pub(super) use embedded::check_parts as check_embedded;
pub(super) use format::is_known as format_is_known;
pub(crate) use prune::prune;
pub(crate) use scale::validate_scale;
pub(super) use validate::check_values;
pub(crate) use validate::{validate, validate_status};

use serde_json::Value;

use crate::schema::Node;

/// Whether a value is what it was, as far as its schema lets the two be compared.
pub(super) fn unchanged(value: &Value, old: &Value, node: Node<'_>) -> bool {
    validate::unchanged(value, old, schema_part::SchemaPart::Node(node))
}

/// The item of an old list that belongs to an item of the new one.
pub(super) fn counterpart<'a>(item: &Value, old: &'a Value, list: Node<'_>) -> Option<&'a Value> {
    keyed_lists::counterpart(item, old, schema_part::SchemaPart::Node(list))
}
