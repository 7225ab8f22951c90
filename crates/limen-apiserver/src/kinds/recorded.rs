//! Holds the kinds against what a real server answered: see `testdata/record.py`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::fields::{fill, set, text};
use super::service::allocation::{self, Wanted};
use super::{builtin_types, metadata};
use crate::error::{ApiError, Subject};
use crate::field_error::FieldError;
use crate::resource::{Columns, ResourceType};

const NAMESPACE: &str = "limen-recording";

/// What the server answers to a write.
#[derive(Debug, PartialEq)]
enum Answer {
    Refused(String),
    Written(Value),
}

struct Write<'a> {
    kind: &'a ResourceType,
    case: &'a Value,
}

fn type_of<'a>(types: &'a [ResourceType], object: &Value) -> &'a ResourceType {
    let (version, kind) = (text(object, "apiVersion"), text(object, "kind"));
    let api_version = |it: &ResourceType| match it.group.as_str() {
        "" => it.version.clone(),
        group => format!("{group}/{}", it.version),
    };
    types.iter().find(|it| it.kind == kind && api_version(it) == version).expect("a known kind")
}

impl Write<'_> {
    fn answer(&self) -> Answer {
        let mut new = self.case["stored"].clone();
        if let Some(patch) = self.case.get("update") {
            merge(&mut new, patch);
            self.update(new, &self.case["stored"])
        } else if let Some(patch) = self.case.get("status") {
            merge(&mut new, &json!({"status": patch}));
            self.update_status(new, &self.case["stored"])
        } else {
            self.create(self.case["object"].clone())
        }
    }

    fn create(&self, mut object: Value) -> Answer {
        let rules = &self.kind.rules;
        if self.kind.namespaced {
            set(&mut object, "metadata.namespace", NAMESPACE);
        }
        (rules.default)(&mut object);
        if self.kind.has_status
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
        set(&mut object, "metadata.uid", "the-uid");
        if let Err(errors) = self.allocate(&mut object, None) {
            return self.refuse(&object, &errors);
        }
        (rules.prepare_create)(&mut object);
        let mut errors = Vec::new();
        metadata::validate_create(self.kind, &object, &mut errors);
        let mut of_kind = Vec::new();
        (rules.validate)(&object, &mut of_kind);
        (rules.validate_create)(&object, &mut of_kind);
        errors.extend(of_kind);
        self.finish(object, &errors)
    }

    fn update(&self, mut new: Value, old: &Value) -> Answer {
        let rules = &self.kind.rules;
        set(&mut new, "metadata.resourceVersion", "2");
        fill(&mut new, "metadata.uid", "the-uid");
        let mut old = old.clone();
        set(&mut old, "metadata.uid", "the-uid");
        (rules.default)(&mut new);
        (rules.prepare_update)(&mut new, &old);
        if let Err(errors) = self.allocate(&mut new, Some(&old)) {
            return self.refuse(&new, &errors);
        }
        let mut errors = Vec::new();
        metadata::validate_update(self.kind, &new, &old, &mut errors);
        let mut of_kind = Vec::new();
        (rules.validate)(&new, &mut of_kind);
        (rules.validate_update)(&new, &old, &mut of_kind);
        errors.extend(of_kind);
        self.finish(new, &errors)
    }

    fn update_status(&self, mut new: Value, old: &Value) -> Answer {
        (self.kind.rules.default)(&mut new);
        let mut errors = Vec::new();
        (self.kind.rules.validate_status)(&new, old, &mut errors);
        self.finish(new, &errors)
    }

    /// Hands out what the real server handed out.
    fn allocate(&self, new: &mut Value, old: Option<&Value>) -> Result<(), Vec<FieldError>> {
        if self.kind.kind != "Service" {
            return Ok(());
        }
        allocation::init_families(new, old)?;
        let wants = allocation::wants(new, old);
        let result = &self.case["result"];
        match &wants.cluster_ip {
            Some(Wanted::Any) => {
                let ip = result["spec"]["clusterIP"].as_str().unwrap_or("10.0.0.1");
                allocation::set_cluster_ip(new, ip);
            }
            Some(Wanted::This(ip)) => allocation::set_cluster_ip(new, &ip.clone()),
            None => {}
        }
        let mut taken = BTreeSet::new();
        for wanted in &wants.node_ports {
            let port = match wanted.port {
                Wanted::This(port) => port,
                Wanted::Any => {
                    let port = &result["spec"]["ports"][wanted.ports[0]]["nodePort"];
                    port.as_i64().unwrap_or(30000)
                }
            };
            let asked = wanted.port != Wanted::Any;
            if asked && !allocation::NODE_PORTS.contains(&port) {
                return Err(vec![allocation::node_port_out_of_range(wanted.ports[0], port)]);
            }
            if !taken.insert(port) {
                return Err(vec![allocation::node_port_taken(wanted.ports[0], port)]);
            }
            allocation::set_node_port(new, wanted, port);
        }
        if wants.health_check_port == Some(Wanted::Any) {
            let port = result["spec"]["healthCheckNodePort"].as_i64().unwrap_or(30000);
            allocation::set_health_check_port(new, port);
        }
        Ok(())
    }

    fn finish(&self, mut object: Value, errors: &[FieldError]) -> Answer {
        if !errors.is_empty() {
            return self.refuse(&object, errors);
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for name in ["uid", "resourceVersion"] {
                metadata.remove(name);
            }
        }
        Answer::Written(object)
    }

    fn refuse(&self, object: &Value, errors: &[FieldError]) -> Answer {
        // Events are judged in their core form, whichever group they are sent to.
        let group = if self.kind.kind == "Event" { "" } else { &self.kind.group };
        let subject = Subject { group, resource: &self.kind.kind };
        let error = ApiError::invalid(subject, text(object, "metadata.name"), errors);
        Answer::Refused(error.message)
    }

    /// The cells of the real server's object, as if it had been created just now.
    fn cells(&self) -> Vec<Value> {
        let mut object = self.case["result"].clone();
        set(&mut object, "metadata.creationTimestamp", "2026-06-01T00:00:00Z");
        let now = super::age::seconds("2026-06-01T00:00:00Z").expect("a time");
        let Columns::BuiltIn { cells, definitions } = &self.kind.columns else {
            panic!("{} has no columns", self.kind.kind);
        };
        let cells = cells(&object, now);
        assert_eq!(cells.len(), definitions.len(), "{}", self.kind.kind);
        let moments = ["0s", "2026-06-01T00:00:00Z"];
        let shown = |cell: Value| match cell.as_str() {
            Some(text) if moments.contains(&text) => json!("now"),
            _ => cell,
        };
        cells.into_iter().map(shown).collect()
    }

    fn warnings(&self) -> Vec<String> {
        let mut object = self.case["object"].clone();
        (self.kind.rules.default)(&mut object);
        (self.kind.rules.warnings)(&object)
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            target.as_object_mut().expect("an object").remove(name);
        } else {
            merge(&mut target[name], value);
        }
    }
}

/// How the cases in a file differ from what the real server has answered.
fn differences(recorded: &str) -> Vec<String> {
    let types = builtin_types();
    let cases: Vec<Value> = serde_json::from_str(recorded).expect("recorded cases");
    let mut differences = Vec::new();
    for case in &cases {
        let write = Write { kind: type_of(&types, &case["object"]), case };
        let expected = match case.get("message").and_then(Value::as_str) {
            Some(message) => Answer::Refused(message.to_owned()),
            None => Answer::Written(case["result"].clone()),
        };
        let answer = write.answer();
        // A status is written by controllers, who send it whole and may come between the create
        // and the update of a case; only the judgement counts.
        let same = match (&answer, &expected) {
            (Answer::Written(_), Answer::Written(_)) if case.get("status").is_some() => true,
            (Answer::Written(ours), Answer::Written(real)) if case.get("update").is_some() => {
                without_status(ours) == without_status(real)
            }
            (answer, expected) => answer == expected,
        };
        if !same {
            differences.push(format!(
                "{}\n  ours: {}\n  real: {}",
                case["case"],
                shown(&answer),
                shown(&expected)
            ));
        }
        if let Some(expected) = case.get("cells") {
            let ours = Value::Array(write.cells());
            if ours != *expected {
                differences
                    .push(format!("{} table\n  ours: {ours}\n  real: {expected}", case["case"]));
            }
        }
        let expected: Vec<String> =
            serde_json::from_value(case.get("warnings").cloned().unwrap_or(json!([]))).unwrap();
        let created = case.get("stored").is_none() && matches!(answer, Answer::Written(_));
        if created && write.warnings() != expected {
            let ours = write.warnings();
            differences
                .push(format!("{} warns\n  ours: {ours:?}\n  real: {expected:?}", case["case"]));
        }
    }
    assert!(!cases.is_empty());
    differences
}

fn without_status(object: &Value) -> Value {
    let mut object = object.clone();
    super::fields::remove(&mut object, "status");
    object
}

fn shown(answer: &Answer) -> String {
    match answer {
        Answer::Refused(message) => message.clone(),
        Answer::Written(object) => object.to_string(),
    }
}

macro_rules! recorded {
    ($($name:ident: $file:literal,)*) => {
        $(
            #[test]
            fn $name() {
                let found = differences(include_str!(concat!("testdata/", $file, ".json")));
                assert!(found.is_empty(), "{}: {}\n{}", $file, found.len(), found.join("\n"));
            }
        )*
    };
}

recorded! {
    config_maps_and_metadata_are_judged_as_by_the_real_server: "config_map",
    ingresses_are_judged_as_by_the_real_server: "ingress",
    namespaces_are_judged_as_by_the_real_server: "namespace",
    secrets_are_judged_as_by_the_real_server: "secret",
    services_are_judged_as_by_the_real_server: "service",
    other_kinds_are_judged_as_by_the_real_server: "others",
    statuses_are_judged_and_shown_as_by_the_real_server: "status",
}
