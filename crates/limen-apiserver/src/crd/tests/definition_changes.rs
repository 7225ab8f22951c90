use serde_json::{Value, json};

use super::definitions::{causes, recorded_causes};
use crate::crd::{
    Taken, accept, default_definition, prepare_update, resource_types, validate_definition_update,
};
use crate::resource::{Columns, ScalePaths};

/// A definition and changes of it, with what the real server said of each.
const RECORDED: &str = include_str!("../recorded/definition_changes.json");
const NOW: &str = "2026-11-15T20:38:41Z";

#[test]
fn changes_are_judged_as_by_the_real_server() {
    let recorded: Value = serde_json::from_str(RECORDED).unwrap();
    let old = &recorded["old"];
    for case in recorded["cases"].as_array().unwrap() {
        let mut new = case["new"].clone();
        default_definition(&mut new);
        prepare_update(&mut new, old);
        let mut errors = Vec::new();
        validate_definition_update(&new, old, &mut errors);
        assert_eq!(causes(&errors), recorded_causes(case), "{}", case["name"]);
        if let Some(stored) = case.get("storedVersions") {
            assert_eq!(&new["status"]["storedVersions"], stored, "{}", case["name"]);
        }
    }
}

fn definition(plural: &str, names: &Value) -> Value {
    let mut definition = json!({
        "metadata": {"name": format!("{plural}.crdacc.test")},
        "spec": {
            "group": "crdacc.test", "scope": "Namespaced", "names": {"plural": plural},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "selectableFields": [{"jsonPath": ".spec.a"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "a": {"type": "string", "default": "x"},
                        "e": {"type": "object", "x-kubernetes-embedded-resource": true,
                            "x-kubernetes-preserve-unknown-fields": true},
                        "i": {"x-kubernetes-int-or-string": true},
                    }},
                }}},
            }],
        },
    });
    for (name, value) in names.as_object().unwrap() {
        definition["spec"]["names"][name] = value.clone();
    }
    default_definition(&mut definition);
    definition
}

#[test]
fn names_are_given_as_by_the_real_server() {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "lastTransitionTime": NOW, "reason": reason,
            "message": message})
    };
    let cases = [
        (
            definition("ones", &json!({"kind": "One", "shortNames": ["o"], "categories": ["all"]})),
            json!({
                "conditions": [
                    condition("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
                    condition("Established", "True", "InitialNamesAccepted",
                        "the initial names have been accepted"),
                ],
                "acceptedNames": {"plural": "ones", "singular": "one", "shortNames": ["o"],
                    "kind": "One", "listKind": "OneList", "categories": ["all"]},
                "storedVersions": ["v1"],
            }),
        ),
        (
            definition("twos", &json!({"kind": "Two", "shortNames": ["o", "w"]})),
            json!({
                "conditions": [
                    condition("NamesAccepted", "False", "ShortNamesConflict",
                        "\"o\" is already in use"),
                    condition("Established", "False", "NotAccepted", "not all names are accepted"),
                ],
                "acceptedNames": {"plural": "twos", "singular": "two", "kind": "Two",
                    "listKind": "TwoList"},
                "storedVersions": ["v1"],
            }),
        ),
        (
            definition("threes", &json!({"kind": "One", "singular": "one"})),
            json!({
                "conditions": [
                    condition("NamesAccepted", "False", "ListKindConflict",
                        "\"OneList\" is already in use"),
                    condition("Established", "False", "NotAccepted", "not all names are accepted"),
                ],
                "acceptedNames": {"plural": "threes", "kind": ""},
                "storedVersions": ["v1"],
            }),
        ),
    ];
    let mut known: Vec<Value> = Vec::new();
    for (mut definition, status) in cases {
        let taken = Taken::by_others(&definition, &known);
        assert_eq!(accept(&definition, &taken, NOW), status, "{}", definition["metadata"]["name"]);
        definition["status"] = status;
        known.push(definition);
    }
}

#[test]
fn an_established_definition_stays_so_and_keeps_its_times() {
    let mut own = definition("ones", &json!({"kind": "One"}));
    own["status"] = accept(&own, &Taken::default(), NOW);
    own["spec"]["names"]["shortNames"] = json!(["o"]);
    let mut taken = Taken::default();
    taken.resources.insert("o".to_owned());
    let status = accept(&own, &taken, "later");
    assert_eq!(status["conditions"][0]["reason"], "ShortNamesConflict");
    assert_eq!(status["conditions"][0]["lastTransitionTime"], "later");
    assert_eq!(status["conditions"][1], own["status"]["conditions"][1]);
}

#[test]
fn a_definition_in_a_group_of_the_server_gets_no_names_and_loses_those_it_has() {
    let mut own = definition("ones", &json!({"kind": "One"}));
    own["status"] = accept(&own, &Taken::default(), NOW);
    let taken = Taken { group: true, ..Taken::default() };
    let status = accept(&own, &taken, "later");
    assert_eq!(status["acceptedNames"], json!({"plural": "", "kind": ""}));
    let conditions = status["conditions"].as_array().unwrap();
    let found: Vec<_> = conditions.iter().map(|it| (&it["type"], &it["status"])).collect();
    assert_eq!(
        found,
        [(&json!("NamesAccepted"), &json!("False")), (&json!("Established"), &json!("False"))]
    );
    own["status"] = status.clone();
    assert_eq!(accept(&own, &taken, "even later"), status, "it stays as it is");
}

#[test]
fn each_served_version_is_a_type() {
    let mut definition = definition("ones", &json!({"kind": "One", "shortNames": ["o"]}));
    let first = definition["spec"]["versions"][0].clone();
    let mut second = first.clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    second["subresources"] = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}});
    second["additionalPrinterColumns"] =
        json!([{"name": "A", "type": "string", "jsonPath": ".spec.a", "priority": 1}]);
    let mut hidden = first.clone();
    hidden["name"] = "v0".into();
    hidden["served"] = false.into();
    definition["spec"]["versions"] = json!([hidden, first, second]);

    let types = resource_types(&definition);

    let versions: Vec<&str> = types.iter().map(|made| made.version.as_str()).collect();
    assert_eq!(versions, ["v1", "v2"]);
    let (first, second) = (&types[0], &types[1]);
    assert!(first.custom && first.namespaced && !first.has_status && second.has_status);
    assert_eq!((first.singular.as_str(), first.list_kind.as_str()), ("one", "OneList"));
    let scale = ScalePaths { spec: ".spec.n".into(), status: ".status.n".into(), selector: None };
    assert_eq!(second.scale, Some(scale));
    let Columns::Paths(columns) = &first.columns else { panic!("columns are paths") };
    assert_eq!((columns.len(), columns[0].name.as_str()), (1, "Age"));
    let Columns::Paths(columns) = &second.columns else { panic!("columns are paths") };
    assert_eq!((columns[0].path.as_str(), columns[0].priority), (".spec.a", 1));
    assert_eq!(
        columns[0].description,
        "Custom resource definition column (in JSONPath format): .spec.a"
    );
    assert!(first.schema.get().root().field("spec").unwrap().field("a").is_some());
}
