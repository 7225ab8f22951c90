use serde_json::{Value, json};

use crate::crd::{default_definition, validate, validate_definition};
use crate::schema::Schema;

/// Rules whose errors are worded differently: by Go's address parser, or for what is a crash in
/// cel-go.
const WORDED_DIFFERENTLY: &[&str] = &[
    "cidr(self.s).prefixLength() <= 24",
    "self.l.sortBy(x, x) == self.l",
    "self.l.distinct().size() == self.l.size()",
    "self.il.sort() == [1,2]",
];

/// Rules that the real server compiles, and objects with what it said of them.
const RECORDED: &str = include_str!("../recorded/rules.json");

fn schema(recorded: &Value) -> Value {
    let rules = recorded["rules"].as_array().unwrap().iter().enumerate();
    let rules: Vec<Value> =
        rules.map(|(n, rule)| json!({"rule": rule, "message": format!("rule {n}")})).collect();
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"f": {
        "type": "object", "properties": recorded["properties"], "x-kubernetes-validations": rules,
    }}}}})
}

#[test]
fn rules_that_the_real_server_compiles_compile() {
    let recorded: Value = serde_json::from_str(RECORDED).unwrap();
    let mut definition = json!({
        "metadata": {"name": "things.crd.test"},
        "spec": {
            "group": "crd.test", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema(&recorded)}}],
        },
    });
    default_definition(&mut definition);
    let mut errors = Vec::new();
    validate_definition(&definition, &mut errors);
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}

#[test]
fn rules_say_what_they_say_on_the_real_server() {
    let recorded: Value = serde_json::from_str(RECORDED).unwrap();
    let schema = schema(&recorded);
    let schema = Schema::from_json(&schema, &|_| None).unwrap();
    let mut wrong = Vec::new();
    for case in recorded["objects"].as_array().unwrap() {
        let object = json!({"spec": {"f": case["object"]}});
        let rule = |message: &str| {
            let n = message.rsplit("rule ").next().and_then(|n| n.parse::<usize>().ok());
            n.and_then(|n| recorded["rules"][n].as_str()).unwrap_or_default()
        };
        let told = |message: &str| match rule(message) {
            rule if WORDED_DIFFERENTLY.contains(&rule) => rule.to_owned(),
            rule => format!("{message} ({rule})"),
        };
        let errors = validate(&object, None, schema.root());
        let ours: Vec<String> =
            errors.iter().map(|error| told(error.cause()["message"].as_str().unwrap())).collect();
        let theirs = case["causes"].as_array().unwrap().iter();
        let theirs: Vec<String> = theirs.filter_map(Value::as_str).map(told).collect();
        let ours_only = ours.iter().filter(|message| !theirs.contains(message));
        wrong.extend(ours_only.map(|message| format!("only ours:   {message}")));
        let theirs_only = theirs.iter().filter(|message| !ours.contains(message));
        wrong.extend(theirs_only.map(|message| format!("only theirs: {message}")));
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
