//! Laws that hold for any object, any schema and any rule.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::crd::values::prune;
use crate::crd::{
    accept, default, default_definition, resource_types, validate, validate_definition,
};
use crate::schema::Schema;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-zµ.%/(\\[]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any_name(), inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Names that schemas and definitions have a meaning for, and others.
fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "spec",
            "status",
            "metadata",
            "apiVersion",
            "kind",
            "a",
            "b",
            "l",
            "m",
            "e",
            "type",
            "properties",
            "items",
            "additionalProperties",
            "default",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "required",
            "enum",
            "pattern",
            "format",
            "minimum",
            "maxLength",
            "multipleOf",
            "nullable",
            "names",
            "versions",
            "schema",
            "openAPIV3Schema",
            "group",
            "conversion",
            "x-kubernetes-validations",
            "x-kubernetes-list-type",
            "x-kubernetes-list-map-keys",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
            "rule",
            "storedVersions",
            "acceptedNames",
        ])
        .prop_map(str::to_owned),
        "[a-z]{1,3}",
    ]
}

fn schema() -> Schema {
    let json = json!({"type": "object", "properties": {
        "spec": {"type": "object", "default": {}, "properties": {
            "a": {"type": "string", "default": "x", "maxLength": 4},
            "b": {"type": "integer", "default": 3, "nullable": true},
            "l": {"type": "array", "items": {"type": "object", "properties": {
                "a": {"type": "integer", "default": 1}, "kind": {"type": "string"}}}},
            "m": {"type": "object", "additionalProperties": {"type": "string", "default": "y"}},
            "e": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true},
        }, "x-kubernetes-validations": [{"rule": "self.a.size() < 3 && self.b > 1"}]},
        "status": {"x-kubernetes-preserve-unknown-fields": true},
    }});
    Schema::from_json(&json, &|_| None).unwrap()
}

proptest! {
    #[test]
    fn pruning_twice_is_pruning_once(mut object in any_json()) {
        let schema = schema();
        prune(&mut object, schema.root());
        let once = object.clone();
        prop_assert!(prune(&mut object, schema.root()).is_empty());
        prop_assert_eq!(object, once);
    }

    #[test]
    fn defaulting_twice_is_defaulting_once(mut object in any_json()) {
        let schema = schema();
        default(&mut object, schema.root());
        let once = object.clone();
        default(&mut object, schema.root());
        prop_assert_eq!(object, once);
    }

    #[test]
    fn what_is_no_object_is_never_valid(object in any_json(), old in any_json()) {
        let schema = schema();
        let errors = validate(&object, None, schema.root());
        prop_assert!(object.is_object() || !errors.is_empty());
        let errors = validate(&object, Some(&old), schema.root());
        prop_assert!(object.is_object() || object == old || !errors.is_empty());
    }

    #[test]
    fn under_any_schema_twice_is_once(schema in any_json(), object in any_json()) {
        if let Ok(schema) = Schema::from_json(&schema, &|_| None) {
            validate(&object, Some(&object), schema.root());
            let (mut pruned, mut defaulted) = (object.clone(), object);
            prune(&mut pruned, schema.root());
            let once = pruned.clone();
            prop_assert!(prune(&mut pruned, schema.root()).is_empty());
            prop_assert_eq!(pruned, once);
            default(&mut defaulted, schema.root());
            let once = defaulted.clone();
            default(&mut defaulted, schema.root());
            prop_assert_eq!(defaulted, once);
        }
    }

    #[test]
    fn every_good_definition_makes_its_type(spec in any_json(), schema in any_json()) {
        for mut definition in [
            json!({"spec": spec}),
            spec.clone(),
            json!({"metadata": {"name": "things.a.b"}, "spec": {
                "group": "a.b", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}}],
            }}),
        ] {
            default_definition(&mut definition);
            let mut errors = Vec::new();
            validate_definition(&definition, &mut errors);
            accept(&definition, &crate::crd::Taken::default(), "now");
            let made = resource_types(&definition);
            for made in &made {
                made.schema.get();
            }
            let things = definition["metadata"]["name"] == "things.a.b";
            prop_assert!(!things || !errors.is_empty() || made.len() == 1, "{}", definition);
        }
    }

    #[test]
    fn whatever_the_rule_what_is_no_object_is_never_valid(
        rule in prop_oneof![
            "[a-z0-9 .()?!<>=&|+*/%'\"\\[\\]{},:-]{0,40}",
            prop::collection::vec(prop::sample::select(vec![
                "self", ".a", ".l", "[0]", "(", ")", "+", "-", "==", "1", "'x'", ".map(x, x)", ".all(x,",
                "x", ".size()", "has(", "{", "}", ":", "&&", "||", "?", "!", ".matches('('", "1u", "2.5",
                "duration('1h')", ".orValue(1)", ".?a", "lists.range(9)", ".sort()", ".format([1])",
            ]), 0..12).prop_map(|parts| parts.concat()),
        ],
        object in any_json(),
    ) {
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule, "messageExpression": rule}]});
        let definition = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}});
        validate_definition(&definition, &mut Vec::new());
        let schema = Schema::from_json(&schema, &|_| None).unwrap();
        validate(&object, Some(&object), schema.root());
        let errors = validate(&object, None, schema.root());
        prop_assert!(object.is_object() || !errors.is_empty());
    }
}

#[test]
fn work_is_bounded() {
    let rules = [
        "self.l.all(x, self.l.all(y, self.l.all(z, x + y + z >= 0)))",
        "lists.range(1000000000).size() > 0",
        "self.s.replace('', self.s).size() > 0",
        "self.l.map(x, self.l.map(y, self.s + self.s)).size() > 0",
        "self.l.all(x, self.s.matches('(x+x+)+y') || true)",
        "'%.999999999f'.format([1.0]) != ''",
    ];
    let object = json!({"l": (0..2000).collect::<Vec<i64>>(), "s": "x".repeat(100_000)});
    for rule in rules {
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}], "properties": {
            "l": {"type": "array", "items": {"type": "integer"}}, "s": {"type": "string"}}});
        let schema = Schema::from_json(&schema, &|_| None).unwrap();
        let errors = validate(&object, None, schema.root());
        assert_eq!(errors.len(), 1, "{rule}");
        assert!(errors[0].to_string().contains("cost"), "{rule}: {}", errors[0]);
    }
}

/// Half of the stack of the threads that requests are answered on.
const STACK: usize = 1024 * 1024;

#[test]
fn no_expression_outgrows_the_stack_of_a_usual_thread() {
    let nested = |open: &str, close: &str, levels: usize| {
        format!("{}true{}", open.repeat(levels), close.repeat(levels))
    };
    let rules = [
        nested("(", ")", 40),
        nested("(", ")", 5000),
        nested("!", "", 5000),
        nested("[", "]", 5000),
        nested("true ? ", " : true", 1000),
        nested("[1].all(x, ", ")", 1000),
        nested("", ".a", 240),
        nested("", " + true", 240),
        nested("", "[0]", 240),
        nested("", ".a", 2000),
        nested("", "[0]", 2000),
        nested("", " + true", 2000),
        nested("", " && true", 2000),
    ];
    for rule in rules {
        let judge = move || {
            let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
            let version = json!({"name": "v1", "schema": {"openAPIV3Schema": schema}});
            validate_definition(&json!({"spec": {"versions": [version]}}), &mut Vec::new());
            let schema = Schema::from_json(&schema, &|_| None).unwrap();
            validate(&json!({}), None, schema.root());
        };
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn(judge).unwrap().join().unwrap();
    }
}
