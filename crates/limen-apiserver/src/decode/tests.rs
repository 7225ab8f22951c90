//! Bodies and answers, as kube-apiserver gave them.

use super::patch::Patch;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const CONFIG_MAP: Expected<'static> =
    Expected { group: "", version: "v1", kind: "ConfigMap", custom: None };

fn built_in(group: &'static str, version: &'static str, kind: &'static str) -> Expected<'static> {
    Expected { group, version, kind, custom: None }
}

fn message(body: &str, expected: Expected<'_>) -> String {
    match decode(body.as_bytes(), Media::Json, expected, FieldValidation::Strict) {
        Ok(decoded) => format!("taken as {}", decoded.object),
        Err(error) => {
            assert_eq!(error.reason, "BadRequest");
            error.message
        }
    }
}

#[test]
fn what_cannot_be_read_is_told_as_in_kubernetes() {
    let go_struct = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    let cases = [
        ("", "unexpected end of JSON input (<empty>)".to_owned()),
        ("[]", format!("json: cannot unmarshal array into Go value of type {go_struct} (5b5d)")),
        ("5", format!("json: cannot unmarshal number into Go value of type {go_struct} (35)")),
        ("{", "unexpected end of JSON input ({)".to_owned()),
        (
            r#"{"a":}"#,
            r#"invalid character '}' looking for beginning of value ({"a":})"#.to_owned(),
        ),
        (
            r#"{"kind":5}"#,
            r#"json: cannot unmarshal number into Go struct field .kind of type string ({"kind":5})"#
                .to_owned(),
        ),
    ];
    for (body, error) in cases {
        let start = "the object provided is unrecognized (must be of type ConfigMap): couldn't get \
                     version/kind; json parse error: ";
        assert_eq!(message(body, CONFIG_MAP), format!("{start}{error}"), "{body}");
    }
    assert_eq!(
        message(r#"{"apiVersion":"a/b/c","kind":"ConfigMap","metadata":{"name":"a"}}"#, CONFIG_MAP),
        "the object provided is unrecognized (must be of type ConfigMap): unexpected GroupVersion \
         string: a/b/c ({\"apiVersion\":\"a/b/c\",\"kind\":\" ...)"
    );
}

#[test]
fn wrong_types_are_told_as_in_kubernetes() {
    let cases = [
        (
            r#"{"metadata":{"name":5}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        (
            r#"{"data":5}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            r#"{"data":{"a":5}}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            r#"{"metadata":{"labels":{"a":true}}}"#,
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (r#"{"binaryData":{"a":"x"}}"#, "illegal base64 data at input byte 0"),
        (
            r#"{"metadata":{"creationTimestamp":"yesterday"}}"#,
            "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\"",
        ),
        (
            r#"{"metadata":{"creationTimestamp":5}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            r#"{"immutable":"yes"}"#,
            "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool",
        ),
        (
            r#"{"metadata":{"generation":1.0}}"#,
            "json: cannot unmarshal number 1.0 into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
        (
            r#"{"metadata":{"generation":99999999999999999999}}"#,
            "json: cannot unmarshal number 99999999999999999999 into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
        (
            r#"{"metadata":[]}"#,
            "json: cannot unmarshal array into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
        ),
        (
            r#"{"metadata":{"ownerReferences":[{"name":5}]}}"#,
            "json: cannot unmarshal number into Go struct field OwnerReference.metadata.ownerReferences.name of type string",
        ),
        (
            r#"{"metadata":{"ownerReferences":{}}}"#,
            "json: cannot unmarshal object into Go struct field ObjectMeta.metadata.ownerReferences of type []v1.OwnerReference",
        ),
        (r#"{"kind":"Pod"}"#, "converting (v1.Pod) to (core.ConfigMap): unknown conversion"),
        (
            r#"{"kind":"Foo"}"#,
            "no kind \"Foo\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"",
        ),
        (
            r#"{"apiVersion":"apps/v1"}"#,
            "no kind \"ConfigMap\" is registered for version \"apps/v1\" in scheme \"pkg/runtime/scheme.go:111\"",
        ),
    ];
    for (body, error) in cases {
        let kind = ["Pod", "Foo"].into_iter().find(|kind| body.contains(kind));
        let kind = kind.unwrap_or("ConfigMap");
        assert_eq!(
            message(body, CONFIG_MAP),
            format!("{kind} in version \"v1\" cannot be handled as a ConfigMap: {error}"),
            "{body}"
        );
    }
}

#[test]
fn strictness_is_as_asked() {
    let body = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"foo":1,
        "metadata":{"name":"b","x":1},"data":{"a":"1","a":"2"},"zz":{"a":1,"a":2}}"#;
    let problems = [
        "unknown field \"foo\"",
        "duplicate field \"metadata\"",
        "unknown field \"metadata.x\"",
        "duplicate field \"data.a\"",
        "unknown field \"zz\"",
    ];
    let run = |validation| decode(body, Media::Json, CONFIG_MAP, validation);
    assert_eq!(
        run(FieldValidation::Strict).unwrap_err().message,
        format!(
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: {}",
            problems.join(", ")
        )
    );
    let warned = run(FieldValidation::Warn).unwrap();
    assert_eq!(warned.warnings, problems);
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"a": "2"},
    });
    assert_eq!(warned.object, object);
    assert_eq!(run(FieldValidation::Ignore).unwrap(), Decoded { object, warnings: Vec::new() });
}

#[test]
fn yaml_tells_duplicates_by_line() {
    let body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  name: b\nfoo: 1\n\
        data:\n  a: b\n  a: c\n";
    let run = |validation| decode(body, Media::Yaml, CONFIG_MAP, validation);
    assert_eq!(
        run(FieldValidation::Strict).unwrap_err().message,
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
         yaml: unmarshal errors:\n  line 5: key \"name\" already set in map\n  \
         line 9: key \"a\" already set in map, unknown field \"foo\""
    );
    assert_eq!(
        run(FieldValidation::Warn).unwrap().warnings,
        [
            "line 5: key \"name\" already set in map",
            "line 9: key \"a\" already set in map",
            "unknown field \"foo\"",
        ]
    );
}

#[test]
fn objects_are_stored_as_in_kubernetes() {
    let meta = json!({"name": "a"});
    let networking = "networking.k8s.io";
    let cases: [(Expected<'_>, Value, Value); 12] = [
        (CONFIG_MAP, json!({"data": {}}), json!({})),
        (CONFIG_MAP, json!({"data": {"a": null}}), json!({"data": {"a": ""}})),
        (CONFIG_MAP, json!({"binaryData": {"a": null}}), json!({"binaryData": {"a": ""}})),
        (CONFIG_MAP, json!({"immutable": false}), json!({"immutable": false})),
        (CONFIG_MAP, json!({"immutable": null}), json!({})),
        (
            built_in(networking, "v1", "Ingress"),
            json!({"spec": {"rules": [{"host": ""}], "tls": []}}),
            json!({"spec": {"rules": [{}]}, "status": {"loadBalancer": {}}}),
        ),
        (
            built_in("rbac.authorization.k8s.io", "v1", "Role"),
            json!({"rules": []}),
            json!({"rules": null}),
        ),
        (
            built_in("", "v1", "Event"),
            json!({"involvedObject": {"namespace": "x"}}),
            json!({
                "involvedObject": {"namespace": "x"}, "source": {}, "firstTimestamp": null,
                "lastTimestamp": null, "eventTime": null, "reportingComponent": "",
                "reportingInstance": "",
            }),
        ),
        (
            built_in("discovery.k8s.io", "v1", "EndpointSlice"),
            json!({"addressType": "IPv4", "endpoints": [], "ports": [{"port": null}]}),
            json!({"addressType": "IPv4", "endpoints": null, "ports": [{}]}),
        ),
        (
            built_in("coordination.k8s.io", "v1", "Lease"),
            json!({"spec": {"renewTime": "2024-01-01T01:02:03.123456+02:00"}}),
            json!({"spec": {"renewTime": "2023-12-31T23:02:03.123456Z"}}),
        ),
        (
            built_in("", "v1", "Service"),
            json!({"spec": {"ports": [{"port": 80, "targetPort": "http", "nodePort": 0}]}}),
            json!({
                "spec": {"ports": [{"port": 80, "targetPort": "http"}]},
                "status": {"loadBalancer": {}},
            }),
        ),
        (
            built_in("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
            json!({"spec": {"group": "x.io", "names": {"kind": "A", "plural": "as"},
                "scope": "Namespaced", "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"l": {
                    "type": "array", "items": {"type": "object", "zoo": 1,
                    "additionalProperties": {"type": "string", "x": 1}}}}}}}]}}),
            json!({"spec": {"group": "x.io", "names": {"kind": "A", "plural": "as"},
                "scope": "Namespaced", "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"l": {
                    "type": "array", "items": {"type": "object",
                    "additionalProperties": {"type": "string"}}}}}}}]},
                "status": {"conditions": null, "acceptedNames": {"plural": "", "kind": ""},
                "storedVersions": null}}),
        ),
    ];
    for (expected, mut body, mut object) in cases {
        body["metadata"] = meta.clone();
        object["metadata"] = meta.clone();
        object["apiVersion"] = expected.api_version().into();
        object["kind"] = expected.kind.into();
        let text = body.to_string();
        let strict = decode(text.as_bytes(), Media::Json, expected, FieldValidation::Strict);
        let decoded = strict.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(decoded.object, object, "{text}");
        let again = normalize(object.clone(), expected).unwrap();
        assert_eq!(again.object, object, "normalising again changes {text}");
    }
}

#[test]
fn inlined_structs_are_named_in_errors() {
    let body = r#"{"spec":{"template":{"spec":{"volumes":[{"emptyDir":{"medium":5}}]}}}}"#;
    let error = message(body, built_in("apps", "v1", "Deployment"));
    assert_eq!(
        error,
        "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal \
         number into Go struct field EmptyDirVolumeSource.spec.template.spec.volumes.VolumeSource.\
         emptyDir.medium of type v1.StorageMedium"
    );
}

fn widget_schema() -> Schema {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "string"},
        "o": {"type": "object", "properties": {"x": {"type": "string", "nullable": true}}},
        "l": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "string"}}}},
        "m": {"type": "object", "additionalProperties":
            {"type": "object", "properties": {"c": {"type": "string"}}}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "tpl": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true},
    }}}});
    Schema::from_json(&schema, &|_| None).unwrap()
}

#[test]
fn custom_objects_are_told_as_in_kubernetes() {
    let schema = widget_schema();
    let expected =
        Expected { group: "x.test", version: "v1", kind: "Widget", custom: Some(&schema) };
    let unrecognized = "the object provided is unrecognized (must be of type Widget): ";
    let cannot = "Widget in version \"v1\" cannot be handled as a Widget: ";
    let strict = format!("{cannot}strict decoding error: ");
    let with = |rest: &str| {
        format!(r#"{{"apiVersion":"x.test/v1","kind":"Widget","metadata":{{"name":"a"}}{rest}}}"#)
    };
    let typed = |metadata: &str| {
        format!(r#"{{"apiVersion":"x.test/v1","kind":"Widget","metadata":{metadata}}}"#)
    };
    let cases = [
        ("null".to_owned(), format!("{unrecognized}Object 'Kind' is missing in 'null' (6e756c6c)")),
        ("{}".to_owned(), format!("{unrecognized}Object 'Kind' is missing in '{{}}' ({{}})")),
        (
            r#"{"kind":"Widget"}"#.to_owned(),
            "the API version in the data () does not match the expected API version (x.test/v1)"
                .to_owned(),
        ),
        (
            r#"{"apiVersion":"v1","kind":"Widget"}"#.to_owned(),
            "the API version in the data (v1) does not match the expected API version (x.test/v1)"
                .to_owned(),
        ),
        (
            typed(r#"{"name":5}"#),
            format!(
                "{cannot}json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"
            ),
        ),
        (
            typed("[]"),
            format!("{cannot}json: cannot unmarshal array into Go value of type v1.ObjectMeta"),
        ),
        (
            typed(r#"{"name":"a","foo":1,"ownerReferences":[{"zz":1}]}"#),
            format!(
                "{strict}unknown field \"metadata.foo\", unknown field \"metadata.ownerReferences[0].zz\""
            ),
        ),
        (
            with(
                r#","spec":{"zoo":1,"a":"1","a":"2","l":[{"q":1}],"m":{"k":{"q":1}},"any":{"x":1,"x":2},"o":null},"extra":1"#,
            ),
            format!(
                "{strict}duplicate field \"spec.a\", duplicate field \"spec.any.x\", unknown field \"extra\", unknown field \"spec.l[0].q\", unknown field \"spec.m.k.q\", unknown field \"spec.zoo\""
            ),
        ),
        (
            with(r#","spec":{"tpl":{"metadata":{"name":"a","foo":1}}}"#),
            format!("{strict}unknown field \"spec.tpl.metadata.foo\""),
        ),
        (
            with(r#","spec":{"tpl":{"metadata":{"name":5}}}"#),
            format!(
                "{cannot}spec.tpl.metadata: Invalid value: {{\"name\":5}}: json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"
            ),
        ),
    ];
    for (body, error) in cases {
        assert_eq!(message(&body, expected), error, "{body}");
    }
    let other = with("").replace("Widget", "Foo");
    let error = decode(other.as_bytes(), Media::Json, expected, FieldValidation::Strict);
    assert_eq!(
        error.unwrap_err().message,
        "Foo.x.test \"a\" is invalid: kind: Invalid value: \"Foo\": must be Widget"
    );
}

#[test]
fn unknown_fields_of_custom_objects_are_dropped() {
    let schema = widget_schema();
    let expected =
        Expected { group: "x.test", version: "v1", kind: "Widget", custom: Some(&schema) };
    let body = json!({
        "apiVersion": "x.test/v1", "kind": "Widget",
        "metadata": {"name": "a", "generateName": "", "finalizers": [], "creationTimestamp": null},
        "spec": {"o": {"x": null, "y": 1}, "any": {"n": null, "deep": {"z": 1.5}}},
        "extra": 1,
    });
    let decoded =
        decode(body.to_string().as_bytes(), Media::Json, expected, FieldValidation::Ignore);
    assert_eq!(
        decoded.unwrap().object,
        json!({
            "apiVersion": "x.test/v1", "kind": "Widget", "metadata": {"name": "a"},
            "spec": {"o": {"x": null}, "any": {"n": null, "deep": {"z": 1.5}}},
        })
    );
}

#[test]
fn options_are_lenient_but_typed() {
    let read = |body: &str| decode_options(body.as_bytes(), Media::Json, "DeleteOptions");
    let scheme = "in scheme \"pkg/runtime/scheme.go:111\"";
    let errors = [
        (
            r#"{"propagationPolicy":5}"#,
            "json: cannot unmarshal number into Go struct field DeleteOptions.propagationPolicy of type v1.DeletionPropagation".to_owned(),
        ),
        (
            r#"{"preconditions":{"uid":5}}"#,
            "json: cannot unmarshal number into Go struct field Preconditions.preconditions.uid of type types.UID".to_owned(),
        ),
        (
            r#"{"kind":"Foo","apiVersion":"v1"}"#,
            format!("no kind \"Foo\" is registered for version \"v1\" {scheme}"),
        ),
        ("[", "couldn't get version/kind; json parse error: unexpected end of JSON input".to_owned()),
    ];
    for (body, error) in errors {
        assert_eq!(read(body).unwrap_err().message, error, "{body}");
    }
    assert_eq!(read("").unwrap(), json!({}));
    let body = r#"{"kind":"DeleteOptions","apiVersion":"v2","foo":1,"gracePeriodSeconds":0}"#;
    assert_eq!(read(body).unwrap()["gracePeriodSeconds"], json!(0));
}

#[test]
fn patches_are_parsed_by_their_kind() {
    let errors = [
        (PatchMedia::Merge, "", "error decoding patch: unexpected end of JSON input"),
        (
            PatchMedia::Merge,
            "[]",
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (PatchMedia::Strategic, "{", "unexpected end of JSON input"),
        (
            PatchMedia::Strategic,
            "5",
            "json: cannot unmarshal number into Go value of type map[string]interface {}",
        ),
        (
            PatchMedia::Json,
            "{}",
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            PatchMedia::Apply,
            "[]",
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
    ];
    for (media, body, error) in errors {
        let found = parse_patch(body.as_bytes(), media).unwrap_err();
        assert_eq!(
            (found.reason, found.message.as_str()),
            ("BadRequest", error),
            "{media:?} {body}"
        );
    }
    let merge = br#"{"data":{"a":"1","a":"2"},"foo":1,"foo":2}"#;
    assert_eq!(
        parse_patch(merge, PatchMedia::Merge).unwrap(),
        Patch {
            value: json!({"data": {"a": "2"}, "foo": 2}),
            strict_errors: vec![
                "duplicate field \"data.a\"".to_owned(),
                "duplicate field \"foo\"".to_owned(),
            ],
        }
    );
    let operations = br#"[{"op":"add","path":"/data/a","value":"x","zzz":1}]"#;
    assert_eq!(
        parse_patch(operations, PatchMedia::Json).unwrap().strict_errors,
        ["json patch unknown field \"[0].zzz\""]
    );
}

#[test]
fn many_fields_take_no_longer_than_they_must() {
    let fields: Vec<String> = (0..100_000).map(|n| format!("\"key{n}\":\"\"")).collect();
    let body = format!(r#"{{"metadata":{{"name":"a"}},"data":{{{}}}}}"#, fields.join(","));
    let started = std::time::Instant::now();
    decode(body.as_bytes(), Media::Json, CONFIG_MAP, FieldValidation::Strict).unwrap();
    // Looking through all earlier keys for each would take minutes.
    assert!(started.elapsed().as_secs() < 20, "took {:?}", started.elapsed());
}

#[test]
fn only_so_many_problems_are_told() {
    let fields: Vec<String> = (0..1_000).map(|n| format!("\"key{n}\":1,\"key{n}\":2")).collect();
    let body = format!("{{{}}}", fields.join(","));
    let warned = decode(body.as_bytes(), Media::Json, CONFIG_MAP, FieldValidation::Warn).unwrap();
    assert_eq!(warned.warnings.len(), MAX_STRICT_ERRORS);
    let patch = parse_patch(body.as_bytes(), PatchMedia::Merge).unwrap();
    assert_eq!(patch.strict_errors.len(), MAX_STRICT_ERRORS);
}

#[test]
fn the_deepest_object_fits_the_stack() {
    let definitions = built_in("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let levels = json::MAX_DEPTH - 6;
    let schema = format!("{}{{}}{}", "{\"not\":".repeat(levels), "}".repeat(levels));
    let body =
        format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#);
    decode(body.as_bytes(), Media::Json, definitions, FieldValidation::Strict).unwrap();
}

proptest! {
    #[test]
    fn any_bytes_get_an_answer(body: Vec<u8>) {
        for media in [Media::Json, Media::Yaml] {
            match decode(&body, media, CONFIG_MAP, FieldValidation::Strict) {
                Ok(decoded) => prop_assert!(decoded.object.is_object()),
                Err(error) => prop_assert_eq!(error.code.as_u16(), 400),
            }
        }
    }

    #[test]
    fn what_serde_json_reads_we_read_alike(text in r#"[\[\]{}:,"a0-2.eE\\u\-tnulrs ]{0,40}"#) {
        let ours = json::parse(text.as_bytes());
        match serde_json::from_str::<Value>(&text) {
            Ok(value) if !text.contains(['e', 'E', '.', '0']) => {
                prop_assert_eq!(ours.unwrap().into_value(), value);
            }
            Ok(_) => prop_assert!(ours.is_ok()),
            // Halves of surrogate pairs and numbers without end are taken by us.
            Err(error) => prop_assert!(
                ours.is_err() || text.contains(r"\u") || error.to_string().contains("range")
            ),
        }
    }

    #[test]
    fn any_time_gets_an_answer(text in "[0-9TZ:.,+ é-]{0,40}") {
        for precision in [time::Precision::Seconds, time::Precision::Microseconds] {
            if let Ok(once) = time::normalized(&text, precision) {
                prop_assert_eq!(time::normalized(&once, precision), Ok(once));
            }
        }
    }

    #[test]
    fn storing_twice_is_storing_once(text in "[a-z]{0,3}", number: i32, flag: bool) {
        let body = json!({"metadata": {"name": text}, "spec": {
            "replicas": number, "paused": flag, "minReadySeconds": number,
            "template": {"spec": {"containers": [{"name": text, "tty": flag}]}},
        }});
        let deployment = built_in("apps", "v1", "Deployment");
        let once = normalize(body, deployment).unwrap().object;
        prop_assert_eq!(&normalize(once.clone(), deployment).unwrap().object, &once);
    }
}

#[test]
fn strategic_merge_patches_have_other_words_for_wrong_types() {
    let said = |found: &str, wanted: &str| {
        unrestorable(&format!(
            "json: cannot unmarshal {found} into Go struct field DeploymentSpec.spec.x of type {wanted}"
        ))
    };
    assert_eq!(said("string", "int32"), "unrecognized type: int32");
    assert_eq!(said("string", "map[string]string"), "cannot restore map from string");
    assert_eq!(said("object", "[]v1.Container"), "cannot restore slice from map");
    assert_eq!(said("number", "v1.PodSpec"), "cannot restore struct from: int64");
    assert_eq!(unrestorable("illegal base64 data"), "illegal base64 data");
}
