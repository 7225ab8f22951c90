//! Secret: settings that are nobody else's business.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::age::age;
use super::config_map::{SIZE_LIMIT, decoded_size, frozen_changes};
use super::fields::{annotation, at, entries, fill, fill_object, remove, text};
use super::metadata::IMMUTABLE;
use super::names::{self, check};
use super::table::{self, AGE, NAME, column};
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

const ACCOUNT_ANNOTATION: &str = "kubernetes.io/service-account.name";

pub(super) const RULES: Rules = Rules {
    name: NameRule::Subdomain,
    default,
    validate,
    validate_update,
    selectable: &[("type", |object| text(object, "type").to_owned())],
    ..Rules::NONE
};

/// `stringData` is for writing only: it goes into `data`, and over it.
fn default(object: &mut Value) {
    fill(object, "type", "Opaque");
    let texts: Map<String, Value> = entries(object, "stringData")
        .map(|(key, value)| (key.to_owned(), STANDARD.encode(value.as_str().unwrap_or("")).into()))
        .collect();
    if !texts.is_empty() {
        fill_object(object, "data");
        if let Some(data) = object["data"].as_object_mut() {
            data.extend(texts);
        }
    }
    remove(object, "stringData");
}

fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let data = FieldPath::new("data");
    let mut size = 0;
    for (key, value) in entries(object, "data") {
        check(errors, &data.key(key), key, names::config_key(key));
        size += decoded_size(value);
    }
    if size > SIZE_LIMIT {
        errors.push(FieldError::too_long(&data, SIZE_LIMIT));
    }
    let has = |key: &str| at(object, "data").get(key).is_some();
    let mut require = |key: &str| errors.push(FieldError::required(&data.key(key), ""));
    match text(object, "type") {
        "kubernetes.io/service-account-token"
            if annotation(object, ACCOUNT_ANNOTATION).unwrap_or_default().is_empty() =>
        {
            let field = FieldPath::new("metadata").child("annotations").key(ACCOUNT_ANNOTATION);
            errors.push(FieldError::required(&field, ""));
        }
        "kubernetes.io/dockercfg" => validate_registries(object, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => {
            validate_registries(object, ".dockerconfigjson", errors);
        }
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            require("username");
            require("password");
        }
        "kubernetes.io/ssh-auth"
            if at(object, "data").get("ssh-privatekey").is_none_or(|key| key == "") =>
        {
            require("ssh-privatekey");
        }
        "kubernetes.io/tls" => {
            ["tls.crt", "tls.key"].into_iter().filter(|key| !has(key)).for_each(require);
        }
        _ => {}
    }
}

/// Adds what is wrong with credentials for image registries.
fn validate_registries(object: &Value, key: &str, errors: &mut Vec<FieldError>) {
    let field = FieldPath::new("data").key(key);
    let Some(encoded) = at(object, "data").get(key).and_then(Value::as_str) else {
        errors.push(FieldError::required(&field, ""));
        return;
    };
    let decoded = STANDARD.decode(encoded).unwrap_or_default();
    if let Err(detail) = json_object(&decoded) {
        errors.push(FieldError::invalid(&field, &json!("<secret contents redacted>"), &detail));
    }
}

/// Why bytes are no JSON object, in the words that Go has for it.
fn json_object(bytes: &[u8]) -> Result<(), String> {
    let kind = match serde_json::from_slice(bytes) {
        Ok(Value::Object(_) | Value::Null) => return Ok(()),
        Ok(Value::Array(_)) => "array",
        Ok(Value::String(_)) => "string",
        Ok(Value::Number(_)) => "number",
        Ok(Value::Bool(_)) => "bool",
        Err(error) if error.is_eof() => return Err("unexpected end of JSON input".to_owned()),
        Err(error) => return Err(go_syntax_error(bytes, &error)),
    };
    Err(format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"))
}

fn go_syntax_error(bytes: &[u8], error: &serde_json::Error) -> String {
    let text = bytes.trim_ascii_start();
    let shown = |byte: u8| format!("invalid character '{}'", byte.escape_ascii());
    for literal in ["null", "true", "false"] {
        if text.first() == literal.as_bytes().first() {
            let mut pairs = text.iter().zip(literal.bytes());
            if let Some((got, wanted)) = pairs.find(|(got, wanted)| *got != wanted) {
                let wanted = wanted as char;
                return format!("{} in literal {literal} (expecting '{wanted}')", shown(*got));
            }
        }
    }
    let lines = bytes.split(|b| *b == b'\n').take(error.line().saturating_sub(1));
    let position = lines.map(|line| line.len() + 1).sum::<usize>() + error.column();
    let got = shown(bytes.get(position.saturating_sub(1)).copied().unwrap_or(b' '));
    if text.first() != Some(&b'{') {
        return format!("{got} looking for beginning of value");
    }
    format!("{got} looking for beginning of object key string")
}

fn validate_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let mut first = Vec::new();
    if at(new, "type") != at(old, "type") {
        first.push(FieldError::invalid(&FieldPath::new("type"), at(new, "type"), IMMUTABLE));
    }
    first.extend(frozen_changes(new, old, &["data"]));
    errors.splice(0..0, first);
}

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column("Type", "What the secret is for."),
    column("Data", "How many keys there are."),
    AGE,
];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let keys = entries(object, "data").count();
    vec![table::name(object), text(object, "type").into(), keys.into(), age(object, now)]
}
