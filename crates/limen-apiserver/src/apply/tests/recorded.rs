//! What a real kube-apiserver 1.36 answered to sequences of writes, with the times renumbered.
//!
//! Every step has the live object before it, what was sent, and what came of it. Our functions get
//! the same and must agree on `managedFields` to the letter, and on every field that is not filled
//! in by defaulting.

use std::fmt::Write;

use serde_json::Value;

use super::KINDS;
use crate::apply::{managed_apply, managed_update};
use crate::patch::{PatchKind, apply_patch};

#[test]
fn writes_go_as_they_went_on_a_real_server() {
    let cases: Value = serde_json::from_str(include_str!("../testdata/recorded.json")).unwrap();
    let cases = cases.as_array().unwrap();
    assert!(cases.len() > 25, "the recording is there");
    let mut differences = String::new();
    for case in cases {
        let mut live = None;
        for (n, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            live = match step.get("live") {
                Some(Value::Null) => None,
                Some(recorded) => Some(recorded.clone()),
                None => live,
            };
            if let Err(difference) = play(case["kind"].as_str().unwrap(), live.as_ref(), step) {
                let _ = writeln!(differences, "{} step {n}: {difference}", case["name"]);
            }
            live = step.get("result").cloned().or(live);
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

fn play(kind: &str, live: Option<&Value>, step: &Value) -> Result<(), String> {
    let kind = &KINDS[kind];
    let text = |name: &str| step.get(name).and_then(Value::as_str).unwrap_or_default();
    let ignored = kind.ignored(text("sub"));
    let mut scope = kind.scope(text("sub"), &ignored, text("now"));
    if let Some(version) = step.get("version").and_then(Value::as_str) {
        scope.api_version = version;
    }
    let made = if text("op") == "apply" {
        managed_apply(&scope, live, &step["body"], text("manager"), step["force"] == true)
    } else {
        let patch = match text("op") {
            "json" => Some(PatchKind::Json),
            "merge" => Some(PatchKind::Merge),
            "strategic" => Some(PatchKind::Strategic),
            _ => None,
        };
        if let (Some(patch), Some(live)) = (patch, live) {
            let mut patched = apply_patch(patch, live, &step["body"], scope.schema).unwrap();
            patched["metadata"]["managedFields"].take();
            contained(&patched, &step["new"]).map_err(|at| format!("the patch differs at {at}"))?;
        }
        Ok(managed_update(&scope, live, &step["new"], text("manager")))
    };
    match (made, step.get("error")) {
        (Ok(made), None) => agree(&made, &step["result"]),
        (Err(made), Some(recorded)) => {
            let status = made.status();
            let part =
                |name: &str| (status.get(name) != recorded.get(name)).then(|| name.to_owned());
            let different: Vec<String> =
                ["code", "message", "reason", "details"].into_iter().filter_map(part).collect();
            if different.is_empty() {
                return Ok(());
            }
            Err(format!("{different:?} differ: {status}\nrather than {recorded}"))
        }
        (Ok(_), Some(error)) => Err(format!("should have failed: {error}")),
        (Err(error), None) => Err(format!("failed: {error}")),
    }
}

fn agree(made: &Value, recorded: &Value) -> Result<(), String> {
    let owners = |object: &Value| object["metadata"]["managedFields"].clone();
    if owners(made) != owners(recorded) {
        return Err(format!("owners are {}\nrather than {}", owners(made), owners(recorded)));
    }
    contained(made, recorded).map_err(|at| format!("the object differs at {at}: {made}"))
}

/// Whether all that we made is in what was recorded, which may have been defaulted.
fn contained(made: &Value, recorded: &Value) -> Result<(), String> {
    match (made, recorded) {
        (Value::Null, _) => Ok(()),
        (Value::Object(made), Value::Object(recorded)) => {
            for (name, made) in made {
                let recorded = recorded.get(name).unwrap_or(&Value::Null);
                contained(made, recorded).map_err(|at| format!(".{name}{at}"))?;
            }
            Ok(())
        }
        (Value::Object(made), Value::Null) if made.is_empty() => Ok(()),
        (Value::Array(made), Value::Null) if made.is_empty() => Ok(()),
        (Value::Array(made), Value::Array(recorded)) if made.len() == recorded.len() => {
            for (n, (made, recorded)) in made.iter().zip(recorded).enumerate() {
                contained(made, recorded).map_err(|at| format!("[{n}]{at}"))?;
            }
            Ok(())
        }
        _ if made == recorded => Ok(()),
        _ => Err(format!(" ({made} rather than {recorded})")),
    }
}
