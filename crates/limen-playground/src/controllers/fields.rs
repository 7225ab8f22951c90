//! Reading objects, and telling whether a status has to be written.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The text at a JSON pointer, or nothing.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a JSON pointer.
pub(super) fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

/// The items of the list at a JSON pointer.
pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Who an object is, whatever its name.
pub(super) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// Whether the condition of that type is True.
pub(super) fn holds(object: &Value, condition: &str) -> bool {
    let conditions = list(object, "/status/conditions").iter();
    conditions.filter(|it| it["type"] == condition).any(|it| it["status"] == "True")
}

/// Whether an object is on its way out.
pub(super) fn is_leaving(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// Whether labels match a selector of `matchLabels` and `matchExpressions`.
pub(super) fn matches(selector: &Value, labels: &Value) -> bool {
    let exact = selector["matchLabels"].as_object().into_iter().flatten();
    let has = |key: &str| labels.get(key).and_then(Value::as_str);
    exact.clone().all(|(key, value)| has(key) == value.as_str())
        && list(selector, "/matchExpressions").iter().all(|rule| {
            let value = has(text(rule, "/key"));
            let named = || value.is_some_and(|v| list(rule, "/values").iter().any(|it| it == v));
            match text(rule, "/operator") {
                "In" => named(),
                "NotIn" => !named(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

/// How objects name their owner.
pub(super) fn owned_by(api_version: &str, kind: &str, owner: &Value) -> Value {
    json!([{
        "apiVersion": api_version, "kind": kind, "name": text(owner, "/metadata/name"),
        "uid": uid(owner), "controller": true, "blockOwnerDeletion": true,
    }])
}

/// A moment, as objects have it.
pub(super) fn time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A condition without its times.
pub(super) fn condition(of: &str, holds: bool, reason: &str, message: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    json!({"type": of, "status": status, "reason": reason, "message": message})
}

/// The status to write if what is there says something else; times are those of the change.
pub(super) fn news(object: &Value, wanted: Value, now: Timestamp) -> Option<Value> {
    let said = &object["status"];
    let Value::Object(mut wanted) = wanted else { return None };
    if wanted.iter().all(|(key, value)| says(said, key, value)) {
        return None;
    }
    let moment = json!(time(now));
    if let Some(Value::Array(conditions)) = wanted.get_mut("conditions") {
        for condition in conditions {
            let before = list(said, "/conditions");
            let before = before.iter().find(|it| it["type"] == condition["type"]);
            let since = before.filter(|it| it["status"] == condition["status"]);
            let since = since.map(|it| it["lastTransitionTime"].clone());
            condition["lastTransitionTime"] =
                since.filter(Value::is_string).unwrap_or_else(|| moment.clone());
        }
    }
    Some(Value::Object(wanted))
}

fn says(said: &Value, key: &str, wanted: &Value) -> bool {
    let found = &said[key];
    match wanted {
        Value::Number(number) if number.as_i64() == Some(0) => {
            found.is_null() || found.as_i64() == Some(0)
        }
        Value::Array(conditions) if key == "conditions" => {
            let bare = |conditions: &[Value]| -> Vec<Map<String, Value>> {
                let of = conditions.iter().filter_map(Value::as_object);
                let kept = |it: &Map<String, Value>| {
                    let timeless = it.iter().filter(|(key, value)| {
                        !key.ends_with("Time") && value.as_str() != Some("") && !value.is_null()
                    });
                    timeless.map(|(key, value)| (key.clone(), value.clone())).collect()
                };
                of.map(kept).collect()
            };
            bare(found.as_array().map_or(&[], Vec::as_slice)) == bare(conditions)
        }
        _ => found == wanted,
    }
}

/// A short name for any value, the same for the same value whatever the order of its keys.
pub(super) fn hash(value: &Value) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut state = 0xcbf2_9ce4_8422_2325;
    mix(value, &mut state);
    let mut name = String::new();
    for _ in 0..10 {
        name.push(char::from(LETTERS[(state % LETTERS.len() as u64) as usize]));
        state /= LETTERS.len() as u64;
    }
    name
}

fn mix(value: &Value, state: &mut u64) {
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            *state = (*state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<_> = fields.keys().collect();
            keys.sort();
            add(b"{");
            for key in keys {
                mix(&Value::String(key.clone()), state);
                mix(&fields[key], state);
            }
        }
        Value::Array(items) => {
            add(b"[");
            items.iter().for_each(|item| mix(item, state));
        }
        other => add(other.to_string().as_bytes()),
    }
}

/// A few letters that nobody has used before, most likely.
pub(super) fn suffix() -> String {
    hash(&json!(rand::random::<u64>()))[..5].to_owned()
}
