//! Sets of fields that were written under another schema.
//!
//! Where a list or map has become atomic since, whoever owned a part of it owns all of it. The
//! other way around needs nothing: owning the whole of what can be owned in parts does no harm.

use super::field_set::FieldSet;
use super::path::PathElement;
use super::types::{Shape, Type};

/// The set as it would be under this schema.
pub(super) fn reconcile(schema: Type<'_>, set: &FieldSet) -> FieldSet {
    let mut whole = FieldSet::default();
    visit(schema, set, &mut Vec::new(), &mut whole);
    if whole.is_empty() { set.clone() } else { set.recursive_difference(&whole).union(&whole) }
}

/// Collects the fields that have to be owned as a whole.
fn visit(schema: Type<'_>, set: &FieldSet, path: &mut Vec<PathElement>, whole: &mut FieldSet) {
    for (element, below) in &set.children {
        let Some(field) = below_of(schema, element) else { continue };
        path.push(element.clone());
        match field.shape(None) {
            Shape::Map { .. } if field.is_free_form() => {}
            Shape::Map { atomic: true } | Shape::List { atomic: true } => whole.insert(path),
            _ => visit(field, below, path, whole),
        }
        path.pop();
    }
}

fn below_of<'a>(schema: Type<'a>, element: &PathElement) -> Option<Type<'a>> {
    match (schema.shape(None), element) {
        (Shape::Map { .. }, PathElement::Field(name)) => schema.field(name),
        (Shape::List { .. }, _) => schema.items(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::apply::fields_v1;
    use crate::schema::Schema;

    #[test]
    fn parts_of_what_became_atomic_are_owned_as_a_whole() {
        let atomic = json!({
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "x-kubernetes-map-type": "atomic",
        });
        let schema = json!({"type": "object", "properties": {
            "map": atomic,
            "list": {"type": "array", "items": {"type": "object"}},
            "struct": {"type": "object", "properties": {"b": {"type": "string"}}},
        }});
        let schema = Schema::from_json(&schema, &|_| None).unwrap();
        let old = json!({
            "f:map": {"f:a": {}},
            "f:list": {".": {}, "k:{\"name\":\"a\"}": {"f:name": {}}},
            "f:struct": {"f:b": {}},
        });
        let expected = json!({"f:map": {}, "f:list": {}, "f:struct": {"f:b": {}}});
        let set = fields_v1::read(&old).unwrap();
        let set = reconcile(Type::of(schema.root()), &set);
        assert_eq!(fields_v1::write(&set), expected);
        assert_eq!(reconcile(Type::of(schema.root()), &set), set);
    }
}
