//! Bodies by Kubernetes' own encoder, and bodies that nobody would send in good faith.
//!
//! `pairs.jsonl` has every kind with each field set, some with each field present but zero, and
//! every kind with nothing set, in protobuf and in JSON.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Expected, FieldValidation, Media, decode, decode_options};
use crate::error::ApiResult;
use crate::schema::Schema;

struct Pair {
    body: Vec<u8>,
    json: Value,
}

static PAIRS: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    let pair = |line: &str| {
        let mut pair: Value = serde_json::from_str(line).unwrap();
        let body = STANDARD.decode(pair["protobuf"].as_str().unwrap()).unwrap();
        Pair { body, json: pair["json"].take() }
    };
    include_str!("testdata/pairs.jsonl").lines().map(pair).collect()
});

const CONFIG_MAP: Expected<'static> =
    Expected { group: "", version: "v1", kind: "ConfigMap", custom: None };

/// Decodes a body as what the JSON says it is.
fn decoded(body: &[u8], json: &Value) -> ApiResult<Value> {
    let (api_version, kind) =
        (json["apiVersion"].as_str().unwrap(), json["kind"].as_str().unwrap());
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if group == "meta.k8s.io" {
        let mut options = decode_options(body, Media::Protobuf, kind)?;
        options["apiVersion"] = api_version.into();
        options["kind"] = kind.into();
        return Ok(options);
    }
    let expected = Expected { group, version, kind, custom: None };
    decode(body, Media::Protobuf, expected, FieldValidation::Strict).map(|decoded| decoded.object)
}

fn config_map(body: &[u8]) -> ApiResult<Value> {
    decode(body, Media::Protobuf, CONFIG_MAP, FieldValidation::Strict).map(|decoded| decoded.object)
}

/// An item of bytes, shorter than 2^14, of a field below 16.
fn item(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    let mut item = vec![number << 3 | 2, (length & 0x7f) as u8 | 0x80, (length >> 7) as u8];
    item.extend_from_slice(bytes);
    item
}

fn envelope(message: &[u8]) -> Vec<u8> {
    [super::MAGIC, &item(2, message)].concat()
}

#[test]
fn protobuf_says_what_json_says() {
    assert!(PAIRS.len() > 80);
    for Pair { body, json } in PAIRS.iter() {
        assert_eq!(decoded(body, json).as_ref(), Ok(json));
    }
}

#[test]
fn what_cannot_be_read_is_told_as_in_kubernetes() {
    let unrecognized = |error: &str| {
        format!("the object provided is unrecognized (must be of type ConfigMap): {error}")
    };
    let cannot = |named: &str, error: &str| {
        format!("{named} in version \"v1\" cannot be handled as a ConfigMap: {error}")
    };
    let cases: [(&[u8], String); 14] = [
        (b"", unrecognized("empty data (<empty>)")),
        (
            b"{}",
            unrecognized(
                "provided data does not appear to be a protobuf message, \
                 expected prefix [107 56 115 0] ({})",
            ),
        ),
        (b"k8s\0", unrecognized("empty body (6b387300)")),
        (b"k8s\0\x0a", unrecognized("unexpected EOF (6b3873000a)")),
        (
            b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Foo",
            cannot(
                "Foo",
                r#"no kind "Foo" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111""#,
            ),
        ),
        (
            b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod",
            cannot("Pod", "converting (v1.Pod) to (core.ConfigMap): unknown conversion"),
        ),
        (b"k8s\0\x12\x03\x0a\x05a", cannot("ConfigMap", "unexpected EOF")),
        (
            b"k8s\0\x12\x02\x08\x05",
            cannot("ConfigMap", "proto: wrong wireType = 0 for field ObjectMeta"),
        ),
        (
            b"k8s\0\x12\x04\x0a\x02\x08\x01",
            cannot("ConfigMap", "proto: wrong wireType = 0 for field Name"),
        ),
        (
            b"k8s\0\x12\x0b\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
            cannot("ConfigMap", "proto: integer overflow"),
        ),
        (
            b"k8s\0\x12\x01\x04",
            cannot("ConfigMap", "proto: ConfigMap: wiretype end group for non-group"),
        ),
        (
            b"k8s\0\x12\x01\x00",
            cannot("ConfigMap", "proto: ConfigMap: illegal tag 0 (wire type 0)"),
        ),
        (b"k8s\0\x12\x04\x0a\x02\x0a\x05", cannot("ConfigMap", "unexpected EOF")),
        (b"k8s\0\x12\x02\xfa\x01", cannot("ConfigMap", "unexpected EOF")),
    ];
    for (body, message) in cases {
        let error = config_map(body).unwrap_err();
        assert_eq!((error.reason, error.message), ("BadRequest", message), "{body:x?}");
    }
}

#[test]
fn options_are_refused_as_in_kubernetes() {
    let registered = |kind: &str, version: &str| {
        let scheme = "pkg/runtime/scheme.go:111";
        format!("no kind {kind:?} is registered for version {version:?} in scheme {scheme:?}")
    };
    let cases: [(&[u8], String); 3] = [
        (b"k8s\0\x0a\x06\x12\x04Nope", registered("Nope", "meta.k8s.io/v1")),
        (b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod", registered("Pod", "v1")),
        (
            b"k8s\0\x12\x02\x0a\x00",
            "proto: wrong wireType = 2 for field GracePeriodSeconds".to_owned(),
        ),
    ];
    for (body, message) in cases {
        let error = decode_options(body, Media::Protobuf, "DeleteOptions").unwrap_err();
        assert_eq!((error.reason, error.message), ("BadRequest", message), "{body:x?}");
    }
    let json = br#"{"kind":"Nope"}"#;
    let error = decode_options(json, Media::Json, "DeleteOptions").unwrap_err();
    assert_eq!(error.message, registered("Nope", "meta.k8s.io/v1"));
}

#[test]
fn what_nobody_knows_is_skipped() {
    let object = config_map(b"k8s\0\x12\x0a\x0a\x03\x0a\x01a\x3b\x08\x01\x3c\x7a").unwrap_err();
    assert!(object.message.ends_with("unexpected EOF"), "{}", object.message);
    let object = config_map(b"k8s\0\x12\x0c\x0a\x03\x0a\x01a\x3b\x08\x01\x3c\x7a\x01x").unwrap();
    assert_eq!(object["metadata"]["name"], "a");
    assert_eq!(object.as_object().unwrap().len(), 3, "{object}");
    let object = config_map(b"k8s\0\x0a\x09\x0a\x07a/b/c/d").unwrap();
    assert_eq!(object["apiVersion"], "v1");
}

#[test]
fn text_that_is_none_is_replaced() {
    let object = config_map(&envelope(b"\x12\x08\x0a\x01k\x12\x03a\xffb")).unwrap();
    assert_eq!(object["data"], json!({"k": "a\u{fffd}b"}));
}

#[test]
fn a_message_in_pieces_is_one() {
    let pieces =
        [item(1, &item(1, b"first")), item(1, &item(3, b"ns")), item(1, &item(1, b"last"))];
    let object = config_map(&envelope(&pieces.concat())).unwrap();
    assert_eq!(object["metadata"], json!({"name": "last", "namespace": "ns"}));
}

#[test]
fn numbers_may_be_packed() {
    let pod = Expected { kind: "Pod", ..CONFIG_MAP };
    for groups in [&b"\x22\x03\x01\xac\x02"[..], b"\x20\x01\x20\xac\x02"] {
        let body = envelope(&item(2, &item(14, groups)));
        let decoded = decode(&body, Media::Protobuf, pod, FieldValidation::Strict).unwrap();
        let groups = &decoded.object["spec"]["securityContext"]["supplementalGroups"];
        assert_eq!(*groups, json!([1, 300]));
    }
}

#[test]
fn a_bomb_is_refused() {
    // A schema that is not one that is not one that is not ...
    let mut schema = Vec::new();
    for _ in 0..2_000 {
        let length = u16::try_from(schema.len()).unwrap();
        let key = [0xe2, 0x01, (length & 0x7f) as u8 | 0x80, (length >> 7) as u8];
        schema.splice(0..0, key);
    }
    let version = item(4, &item(1, &schema));
    let body = envelope(&item(2, &item(7, &version)));
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"
    });
    let error = decoded(&body, &definition).unwrap_err();
    assert!(error.message.ends_with("exceeded max depth"), "{}", error.message);
}

#[test]
fn custom_resources_are_not_read_from_protobuf() {
    let schema = Schema::anything();
    let widget = Expected { group: "x.test", version: "v1", kind: "Widget", custom: Some(&schema) };
    let error = decode(b"k8s\0\x12\0", Media::Protobuf, widget, FieldValidation::Warn).unwrap_err();
    assert_eq!(error.reason, "UnsupportedMediaType");
    assert!(error.message.ends_with(": application/json, application/yaml"), "{}", error.message);
}

/// What is read is an object of the kind that was asked for, and what is not is a bad request.
fn is_answered(body: &[u8], json: &Value) -> bool {
    match decoded(body, json) {
        Ok(object) => object["kind"] == json["kind"] && object["apiVersion"] == json["apiVersion"],
        Err(error) => error.code.as_u16() == 400,
    }
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes: Vec<u8>, pair in 0_usize..80) {
        prop_assert!(is_answered(&envelope(&bytes), &PAIRS[pair].json));
        prop_assert!(is_answered(&[super::MAGIC, &bytes].concat(), &PAIRS[pair].json));
    }

    #[test]
    fn damaged_bodies_are_answered(
        pair in 0_usize..80,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        length: prop::sample::Index,
    ) {
        let Pair { body, json } = &PAIRS[pair];
        let mut damaged = body.clone();
        for (at, byte) in damage {
            let at = at.index(damaged.len());
            damaged[at] = byte;
        }
        prop_assert!(is_answered(&damaged, json));
        prop_assert!(is_answered(&body[..length.index(body.len())], json));
    }
}
