use serde_json::{Value, json};

use super::definitions::{causes, recorded_causes};
use crate::crd::values::prune;
use crate::crd::{default, validate};
use crate::schema::Schema;

/// A schema and objects of it, with what the real server said of each.
const RECORDED: &str = include_str!("../recorded/objects.json");

/// What comes of an object that is created or changed: what is stored, or what is wrong.
fn outcome(new: &Value, old: Option<&Value>, schema: &Schema) -> (Value, Vec<String>, Vec<String>) {
    let mut object = new.clone();
    let unknown = prune(&mut object, schema.root());
    default(&mut object, schema.root());
    let old = old.map(|old| {
        let mut old = old.clone();
        default(&mut old, schema.root());
        old
    });
    let errors = causes(&validate(&object, old.as_ref(), schema.root()));
    (object, unknown, errors)
}

#[test]
fn objects_are_judged_as_by_the_real_server() {
    let recorded: Value = serde_json::from_str(RECORDED).unwrap();
    let schema = Schema::from_json(&recorded["schema"], &|_| None).unwrap();
    let cases = recorded["cases"].as_array().unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let old = case.get("old");
        let (object, unknown, ours) = outcome(&case["new"], old, &schema);
        let theirs = recorded_causes(case);
        let stored = case["stored"]["spec"] == object["spec"] || case.get("stored").is_none();
        let warned: Vec<String> = case["warnings"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|warning| warning.as_str().unwrap().to_owned())
            .collect();
        let warnings: Vec<String> =
            unknown.iter().map(|path| format!("299 - \"unknown field \\\"{path}\\\"\"")).collect();
        if ours != theirs || !stored || warned != warnings {
            wrong.push(format!(
                "{}\n  ours:   {}\n  theirs: {}\n  ours:   {object} {unknown:?}\n  theirs: {} {warned:?}",
                case["name"],
                ours.join("\n          "),
                theirs.join("\n          "),
                case["stored"],
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// A schema, changes of objects that break it already, and objects that it fills in.
const CHANGES: &str = include_str!("../recorded/changes.json");

#[test]
fn what_was_bad_before_may_stay_so() {
    let recorded: Value = serde_json::from_str(CHANGES).unwrap();
    let schema = Schema::from_json(&recorded["schema"], &|_| None).unwrap();
    for case in recorded["updates"].as_array().unwrap() {
        let (_, _, ours) = outcome(&case["new"], Some(&case["old"]), &schema);
        assert_eq!(ours, recorded_causes(case), "{}", case["name"]);
    }
}

#[test]
fn objects_are_filled_in_as_by_the_real_server() {
    let recorded: Value = serde_json::from_str(CHANGES).unwrap();
    let schema = Schema::from_json(&recorded["schema"], &|_| None).unwrap();
    for case in recorded["defaulted"].as_array().unwrap() {
        let (object, unknown, _) = outcome(&json!({"spec": case["spec"]}), None, &schema);
        let warnings = unknown.iter().map(|path| format!("299 - \"unknown field \\\"{path}\\\"\""));
        let warnings = match warnings.collect::<Vec<_>>() {
            none if none.is_empty() => Value::Null,
            warnings => warnings.into(),
        };
        assert_eq!(warnings, case["warnings"], "{}", case["name"]);
        if !case["stored"].is_null() {
            assert_eq!(object["spec"], case["stored"], "{}", case["name"]);
        }
    }
}

#[test]
fn a_status_is_judged_alone() {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}},
        "status": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}},
    }});
    let schema = Schema::from_json(&schema, &|_| None).unwrap();
    let old = json!({"spec": {}, "status": {"n": 2}});
    let new = json!({"spec": {}, "status": {"n": 0}});
    let errors = crate::crd::validate_status(&new, &old, schema.root());
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        ["status.n: Invalid value: 0: n in body should be greater than or equal to 1"]
    );
}
