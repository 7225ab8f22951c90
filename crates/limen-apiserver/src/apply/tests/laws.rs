//! Laws that hold whatever the objects are.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::KINDS;
use crate::apply::types::Type;
use crate::apply::{FieldSet, compare, fields_v1, managed_apply, managed_update, merge, owned};
use crate::apply::{path::PathElement, remove, validate};

const NOW: &str = "2026-01-01T00:00:01Z";
const LATER: &str = "2026-01-01T00:00:02Z";

fn name() -> impl Strategy<Value = String> {
    "[abc]"
}

/// A Gadget with parts, tags, labels and what else its schema has.
fn gadget(names: &'static str) -> impl Strategy<Value = Value> {
    let parts = btree_map(names, proptest::option::of(0..3), 0..3).prop_map(|parts| {
        let parts = parts.into_iter().map(|(id, n)| match n {
            Some(n) => json!({"id": id, "n": n}),
            None => json!({"id": id}),
        });
        Value::Array(parts.collect())
    });
    let tags = btree_map(names, 0..1, 1..3)
        .prop_map(|tags| Value::from(tags.into_keys().collect::<Vec<String>>()));
    let texts = || btree_map(names, "[xy]", 1..3).prop_map(|texts| json!(texts));
    let spec = (
        proptest::option::of(parts),
        proptest::option::of(tags),
        proptest::option::of(texts()),
        proptest::option::of(texts()),
    );
    spec.prop_map(|(parts, tags, labels, free)| {
        let mut spec = Map::new();
        let fields = [("parts", parts), ("tags", tags), ("labels", labels), ("free", free)];
        for (name, value) in fields {
            // An empty list is not owned by anybody, so it is not applied either.
            if let Some(value) = value.filter(|value| value != &json!([])) {
                spec.insert(name.to_owned(), value);
            }
        }
        let mut gadget = json!({
            "apiVersion": "limen.test/v1", "kind": "Gadget", "metadata": {"name": "g"},
        });
        if !spec.is_empty() {
            gadget["spec"] = Value::Object(spec);
        }
        gadget
    })
}

/// Any JSON, not too deep.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        "[a-c:.]{0,3}".prop_map(Value::from),
    ];
    let field = prop_oneof![
        Just("metadata".to_owned()),
        Just("managedFields".to_owned()),
        Just("spec".to_owned()),
        Just("parts".to_owned()),
        Just("tags".to_owned()),
        Just("free".to_owned()),
        Just("id".to_owned()),
        "[a-c]",
    ];
    leaf.prop_recursive(5, 32, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(field.clone(), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        "[a-c:.\"]{1,2}".prop_map(PathElement::Field),
        btree_map(name(), any::<i8>(), 1..3).prop_map(|fields| {
            PathElement::key(fields.into_iter().map(|(name, n)| (name, json!(n))).collect())
        }),
        "[a<&]{1,2}".prop_map(|text| PathElement::Value(json!(text))),
        any::<bool>().prop_map(|value| PathElement::Value(json!(value))),
        (0..9_i64).prop_map(PathElement::Index),
    ]
}

fn field_set() -> impl Strategy<Value = FieldSet> {
    vec(vec(element(), 1..4), 0..6).prop_map(|paths| {
        let mut set = FieldSet::default();
        for path in paths {
            set.insert(&path);
        }
        set
    })
}

fn apply(live: Option<&Value>, applied: &Value, manager: &str, now: &str) -> Value {
    let kind = &KINDS["Gadget"];
    let ignored = FieldSet::default();
    managed_apply(&kind.scope("", &ignored, now), live, applied, manager, true).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_written_set_reads_the_same(set in field_set()) {
        prop_assert_eq!(fields_v1::read(&fields_v1::write(&set)).unwrap(), set);
    }

    #[test]
    fn sets_behave_as_sets(left in field_set(), right in field_set()) {
        prop_assert_eq!(left.union(&right), right.union(&left));
        prop_assert_eq!(left.intersection(&right), right.intersection(&left));
        prop_assert!(left.difference(&right).intersection(&right).is_empty());
        prop_assert_eq!(left.difference(&right).union(&left.intersection(&right)), left.clone());
        for path in left.paths() {
            prop_assert!(left.has(&path));
        }
    }

    #[test]
    fn what_is_applied_is_there_and_owned(live in gadget("[abc]"), applied in gadget("[abc]")) {
        let schema = Type::of(KINDS["Gadget"].schema.root());
        let live = apply(None, &live, "first", NOW);
        let object = apply(Some(&live), &applied, "second", LATER);
        let extracted = owned::fields_of(schema, &object);
        prop_assert!(owned::fields_of(schema, &applied).difference(&extracted).is_empty());
        let changed = compare::compare(schema, &applied, &object).unwrap();
        prop_assert!(changed.modified.is_empty() && changed.removed.is_empty());
    }

    #[test]
    fn applying_twice_changes_nothing(live in gadget("[abc]"), applied in gadget("[abc]")) {
        let live = apply(None, &live, "first", NOW);
        let once = apply(Some(&live), &applied, "second", NOW);
        prop_assert_eq!(apply(Some(&once), &applied, "second", LATER), once);
    }

    #[test]
    fn applying_nothing_gives_all_back(applied in gadget("[abc]")) {
        let once = apply(None, &applied, "only", NOW);
        let nothing = json!({
            "apiVersion": "limen.test/v1", "kind": "Gadget", "metadata": {"name": "g"},
        });
        prop_assert_eq!(apply(Some(&once), &nothing, "only", LATER), nothing);
    }

    #[test]
    fn those_who_apply_different_fields_never_conflict(
        one in gadget("[abc]"),
        other in gadget("[xyz]"),
    ) {
        let kind = &KINDS["Gadget"];
        let ignored = FieldSet::default();
        let live = apply(None, &one, "one", NOW);
        let scope = kind.scope("", &ignored, LATER);
        let both = managed_apply(&scope, Some(&live), &other, "other", false).unwrap();
        let again = managed_apply(&scope, Some(&both), &one, "one", false).unwrap();
        prop_assert_eq!(again, both);
    }

    #[test]
    fn an_update_is_owned_by_who_made_it(old in gadget("[abc]"), new in gadget("[abc]")) {
        let kind = &KINDS["Gadget"];
        let ignored = FieldSet::default();
        let old = managed_update(&kind.scope("", &ignored, NOW), None, &old, "creator");
        let made = managed_update(&kind.scope("", &ignored, LATER), Some(&old), &new, "updater");
        let schema = Type::of(kind.schema.root());
        let changed = compare::compare(schema, &old, &new).unwrap().set();
        let entries = made["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let updater = entries.iter().find(|entry| entry["manager"] == "updater");
        let owns = updater.map(|entry| fields_v1::read(&entry["fieldsV1"]).unwrap());
        prop_assert_eq!(owns.unwrap_or_default(), changed);
    }

    #[test]
    fn whatever_there_is_nothing_differs_from_itself(live in anything(), applied in anything(), set in field_set()) {
        let kind = &KINDS["Gadget"];
        let ignored = FieldSet::default();
        let schema = Type::of(kind.schema.root());
        let scope = kind.scope("", &ignored, NOW);
        let _ = validate::problems(schema, &applied);
        let _ = compare::compare(schema, &live, &applied);
        if let Ok(same) = compare::compare(schema, &live, &live) {
            prop_assert_eq!(same.set(), FieldSet::default());
        }
        let _ = merge::merge(schema, &live, &applied);
        let _ = remove::remove(schema, &live, &set);
        let _ = owned::fields_of(schema, &live);
        let _ = fields_v1::read(&live);
        let _ = managed_update(&scope, Some(&live), &applied, "m");
        let mut typed = applied.clone();
        if let Some(fields) = typed.as_object_mut() {
            fields.insert("apiVersion".to_owned(), json!("limen.test/v1"));
            fields.insert("kind".to_owned(), json!("Gadget"));
        }
        let _ = managed_apply(&scope, Some(&live), &typed, "m", true);
    }
}
