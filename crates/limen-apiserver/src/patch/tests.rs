use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{PatchKind, apply_patch};
use crate::schema::Schema;

/// A pod-like kind: containers and env by name, finalizers by value, commands replaced.
fn schema() -> Schema {
    let env = json!({
        "type": "array",
        "x-kubernetes-patch-merge-key": "name",
        "x-kubernetes-patch-strategy": "merge",
        "items": {"type": "object", "properties": {
            "name": {"type": "string"}, "value": {"type": "string"},
        }},
    });
    let json = json!({"type": "object", "properties": {
        "finalizers": {
            "type": "array",
            "x-kubernetes-patch-strategy": "merge",
            "items": {"type": "string"},
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "containers": {
            "type": "array",
            "x-kubernetes-patch-merge-key": "name",
            "x-kubernetes-patch-strategy": "merge",
            "items": {"type": "object", "properties": {
                "name": {"type": "string"},
                "image": {"type": "string"},
                "command": {"type": "array", "items": {"type": "string"}},
                "env": env,
            }},
        },
        "strategy": {
            "type": "object",
            "x-kubernetes-patch-strategy": "retainKeys",
            "properties": {"type": {"type": "string"}, "rolling": {"type": "object"}},
        },
        "selector": {
            "type": "object",
            "x-kubernetes-patch-strategy": "replace",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        },
        "lists": {"type": "array", "items": {"type": "array", "items": {"type": "string"}},
            "x-kubernetes-patch-strategy": "merge"},
    }});
    Schema::from_json(&json, &|_| None).unwrap()
}

fn strategic(current: &Value, patch: &Value) -> crate::error::ApiResult<Value> {
    apply_patch(PatchKind::Strategic, current, patch, schema().root())
}

fn named(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name})).collect()
}

#[test]
fn strategic_merge_follows_the_schema() {
    let cases = [
        // Objects merge, null removes, unknown lists are replaced.
        (
            json!({"labels": {"a": "1", "b": "2"}, "other": [1, 2]}),
            json!({"labels": {"a": "3", "b": null, "c": null}, "other": [3]}),
            json!({"labels": {"a": "3"}, "other": [3]}),
        ),
        // Lists merge by key, and inside their items too.
        (
            json!({"containers": [
                {"name": "a", "image": "x", "command": ["1"], "env": [{"name": "E", "value": "1"}]},
                {"name": "b"},
            ]}),
            json!({"containers": [
                {"name": "b", "image": "y"},
                {"name": "a", "command": ["2"], "env": [{"name": "F", "value": "2"}]},
            ]}),
            json!({"containers": [
                {"name": "b", "image": "y"},
                {"name": "a", "image": "x", "command": ["2"], "env": [
                    {"name": "F", "value": "2"}, {"name": "E", "value": "1"},
                ]},
            ]}),
        ),
        // New items come before those that only the server has.
        (
            json!({"containers": named(&["a", "b"])}),
            json!({"containers": named(&["c"])}),
            json!({"containers": named(&["c", "a", "b"])}),
        ),
        (
            json!({"finalizers": ["a", "b"]}),
            json!({"finalizers": ["c", "a"]}),
            json!({"finalizers": ["c", "a", "b"]}),
        ),
        (
            json!({"finalizers": ["a", "b", "c"]}),
            json!({"$deleteFromPrimitiveList/finalizers": ["b", "z"]}),
            json!({"finalizers": ["a", "c"]}),
        ),
        (
            json!({"finalizers": ["a", "b", "c"]}),
            json!({"$setElementOrder/finalizers": ["c", "d", "a"], "finalizers": ["d"]}),
            json!({"finalizers": ["b", "c", "d", "a"]}),
        ),
        (
            json!({"containers": named(&["a", "b", "c"])}),
            json!({"$setElementOrder/containers": named(&["c", "a"])}),
            json!({"containers": named(&["b", "c", "a"])}),
        ),
        (
            json!({"containers": named(&["a", "b"])}),
            json!({
                "$setElementOrder/containers": named(&["n"]),
                "containers": [{"name": "n"}, {"$patch": "delete", "name": "a"}],
            }),
            json!({"containers": named(&["b", "n"])}),
        ),
        // Directives.
        (
            json!({"containers": named(&["a", "b"])}),
            json!({"containers": [{"$patch": "replace"}, {"name": "c"}]}),
            json!({"containers": named(&["c"])}),
        ),
        (
            json!({"labels": {"a": "1"}}),
            json!({"labels": {"$patch": "replace", "b": "2"}}),
            json!({"labels": {"b": "2"}}),
        ),
        (
            json!({"labels": {"a": "1"}}),
            json!({"labels": {"$patch": "delete"}}),
            json!({"labels": {}}),
        ),
        (json!({}), json!({"labels": {"$patch": "delete"}}), json!({})),
        (
            json!({"strategy": {"type": "Rolling", "rolling": {}}}),
            json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
            json!({"strategy": {"type": "Recreate"}}),
        ),
        (
            json!({"selector": {"a": "1"}}),
            json!({"selector": {"b": "2"}}),
            json!({"selector": {"b": "2"}}),
        ),
    ];
    for (current, patch, expected) in cases {
        assert_eq!(strategic(&current, &patch).unwrap(), expected, "{current} with {patch}");
    }
}

#[test]
fn a_bad_strategic_patch_gets_the_answer_of_kubernetes() {
    let current = json!({
        "labels": {}, "containers": named(&["a"]), "finalizers": ["a"], "lists": [["a"]],
        "strategy": {},
    });
    let rejected = "the server rejected our request due to an error in our request";
    let cases = [
        (json!({"$patch": "nope"}), 500, "unknown patch type: nope in map: map[$patch:nope]"),
        (
            json!({"containers": [{"$patch": 5, "name": "a"}]}),
            500,
            "unknown patch type: %!s(int64=5) in map: map[$patch:5 name:a]",
        ),
        (
            json!({"containers": [{"$patch": "merge", "name": "a"}]}),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            json!({"containers": [{"image": "x"}]}),
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            json!({"containers": [{"$patch": "delete"}]}),
            500,
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (json!({"finalizers": [1]}), 500, "list element types are not identical: [[a] [1]]"),
        (json!({"lists": [["b"]]}), 422, rejected),
        (
            json!({"strategy": {"$retainKeys": ["a"], "type": "b"}}),
            400,
            "invalid patch format of retainKeys",
        ),
        (json!({"$deleteFromPrimitiveList": ["a"]}), 400, "invalid patch format of primitive list"),
        (json!({"$setElementOrder": []}), 400, "invalid patch format of setElementOrder list"),
        (
            json!({"$setElementOrder/finalizers": 1}),
            500,
            "expected a []interface {}, but received a int64",
        ),
        (
            json!({"$setElementOrder/finalizers": ["a"], "finalizers": ["b"]}),
            500,
            "The order in patch list:\n[b]\n doesn't match $setElementOrder list:\n[a]\n",
        ),
        (
            json!([1]),
            400,
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
    ];
    for (patch, code, message) in cases {
        let error = strategic(&current, &patch).unwrap_err();
        assert_eq!((error.code.as_u16(), error.message.as_str()), (code, message), "{patch}");
    }
}

#[test]
fn a_patch_that_does_not_fit_gets_the_answer_of_kubernetes() {
    use PatchKind::{Json, Merge};
    let current = json!({"data": {"a": "1"}});
    let rejected = "the server rejected our request due to an error in our request";
    let many = vec![json!({"op": "test", "path": "/data/a", "value": "1"}); 10_001];
    let cases = [
        (Json, json!([{"op": "test", "path": "/data/a", "value": "2"}]), 422, rejected),
        (Json, json!([{"op": "nope", "path": "/data/a"}]), 422, rejected),
        (
            Json,
            json!({"op": "add"}),
            400,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            Json,
            json!([5]),
            400,
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
        ),
        (
            Json,
            json!(many),
            413,
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
        ),
        (
            Merge,
            json!([1]),
            400,
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (Merge, json!(null), 400, "Invalid JSON Patch"),
    ];
    let schema = schema();
    for (kind, patch, code, message) in cases {
        let error = apply_patch(kind, &current, &patch, schema.root()).unwrap_err();
        assert_eq!((error.code.as_u16(), error.message.as_str()), (code, message));
    }
}

#[test]
fn unknown_fields_of_operations_are_named() {
    let patch = json!([
        {"op": "test", "path": "/a", "value": 1},
        {"op": "copy", "from": "/a", "path": "/b", "junk": 1, "more": 2},
    ]);
    assert_eq!(
        super::unknown_operation_fields(&patch),
        ["json patch unknown field \"[1].junk\"", "json patch unknown field \"[1].more\""]
    );
}

#[test]
fn what_is_nested_too_deep_is_refused() {
    let schema = schema();
    let mut deep = json!(1);
    for _ in 0..1000 {
        deep = Value::Array(vec![deep]);
    }
    let deep = Value::Object([("a".to_owned(), deep)].into_iter().collect());
    for kind in [PatchKind::Merge, PatchKind::Strategic] {
        let error = apply_patch(kind, &json!({}), &deep, schema.root()).unwrap_err();
        assert_eq!(error.code, http::StatusCode::BAD_REQUEST);
    }
    let nest = json!({"op": "move", "from": "/a", "path": "/b/a"});
    let wrap = json!({"op": "add", "path": "/b", "value": {}});
    let back = json!({"op": "move", "from": "/b", "path": "/a"});
    let operations = [wrap, nest, back].into_iter().cycle().take(3 * 1000);
    let patch = Value::Array(operations.collect());
    let error = apply_patch(PatchKind::Json, &json!({"a": 1}), &patch, schema.root()).unwrap_err();
    assert_eq!(error.code, http::StatusCode::UNPROCESSABLE_ENTITY);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i8>().prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    let field = prop_oneof![
        Just("containers".to_owned()),
        Just("finalizers".to_owned()),
        Just("name".to_owned()),
        Just("$patch".to_owned()),
        Just("$retainKeys".to_owned()),
        Just("$setElementOrder/containers".to_owned()),
        Just("$setElementOrder/finalizers".to_owned()),
        Just("$deleteFromPrimitiveList/finalizers".to_owned()),
        "[ab]",
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(field.clone(), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Objects of objects, without lists.
fn maps() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), any::<i8>().prop_map(Value::from)];
    let maps = leaf.prop_recursive(4, 32, 4, |inner| {
        btree_map("[abc]", inner, 0..4)
            .prop_map(|fields| Value::Object(fields.into_iter().collect()))
    });
    btree_map("[abc]", maps, 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn without_a_schema_strategic_merge_is_merge(current in maps(), patch in maps()) {
        let schema = Schema::anything();
        let strategic = apply_patch(PatchKind::Strategic, &current, &patch, schema.root()).unwrap();
        let merged = apply_patch(PatchKind::Merge, &current, &patch, schema.root()).unwrap();
        prop_assert_eq!(strategic, merged);
    }

    #[test]
    fn no_patch_makes_it_panic_and_a_merged_one_changes_nothing_again(
        current in value(),
        patch in value(),
    ) {
        let schema = schema();
        for kind in [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic] {
            let once = apply_patch(kind, &current, &patch, schema.root());
            if let (PatchKind::Merge, Ok(once)) = (kind, once) {
                let twice = apply_patch(kind, &once, &patch, schema.root()).ok();
                prop_assert_eq!(twice, Some(once));
            }
        }
    }

    #[test]
    fn no_operation_makes_it_panic_and_a_test_changes_nothing(
        current in value(),
        op in "add|remove|replace|move|copy|test",
        path in "(/(a|b|0|1|-1|-|name)){0,3}",
        from in "(/(a|b|0|1|-1|-|name)){0,3}",
        value in value(),
    ) {
        let schema = schema();
        let patch = json!([{"op": op, "path": path, "from": from, "value": value}]);
        let patched = apply_patch(PatchKind::Json, &current, &patch, schema.root());
        if let ("test", Ok(patched)) = (op.as_str(), patched) {
            prop_assert_eq!(patched, current);
        }
    }
}
