use serde_json::{Value, json};

use crate::crd::{default_definition, validate_definition};

/// Definitions, with what the real server said of each.
const RECORDED: &str = include_str!("../recorded/definitions.json");

/// What is not said as the real server says it; all of it is in the list of divergences.
const DIFFERENT: &[&str] =
    &["rule messageExpression good", "rule too costly", "rule too costly in total"];

pub(super) fn causes(errors: &[crate::field_error::FieldError]) -> Vec<String> {
    let mut causes: Vec<String> = errors.iter().map(|error| shown(&error.cause())).collect();
    causes.sort();
    causes
}

pub(super) fn recorded_causes(case: &Value) -> Vec<String> {
    let mut causes: Vec<String> =
        case["causes"].as_array().into_iter().flatten().map(shown).collect();
    causes.sort();
    causes
}

fn shown(cause: &Value) -> String {
    let part = |name: &str| cause[name].as_str().unwrap_or_default().to_owned();
    format!("{} | {} | {}", part("field"), part("reason"), part("message"))
}

#[test]
fn definitions_are_judged_as_by_the_real_server() {
    let cases: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        if DIFFERENT.contains(&name) {
            continue;
        }
        let mut definition = case["definition"].clone();
        default_definition(&mut definition);
        let mut errors = Vec::new();
        validate_definition(&definition, &mut errors);
        let (ours, theirs) = (causes(&errors), recorded_causes(case));
        if ours != theirs {
            wrong.push(format!(
                "{name}\n  ours:   {}\n  theirs: {}",
                ours.join("\n          "),
                theirs.join("\n          ")
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn a_conversion_webhook_is_refused() {
    let mut definition = json!({
        "metadata": {"name": "things.crd.test"},
        "spec": {
            "group": "crd.test", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://a.test/"}}},
        },
    });
    default_definition(&mut definition);
    let mut errors = Vec::new();
    validate_definition(&definition, &mut errors);
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].to_string().starts_with(
            "spec.conversion.strategy: Forbidden: conversion webhooks are not supported"
        )
    );
}
