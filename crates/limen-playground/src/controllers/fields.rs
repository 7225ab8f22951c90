//! Reading objects, and telling whether a status has to be written.

use jiff::Timestamp;
use serde_json::{Value, json};

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
    if says(said, &wanted) {
        return None;
    }
    let (mut wanted, moment) = (wanted, json!(time(now)));
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
    Some(wanted)
}

/// Whether something says all that is wanted; it may say more, as what a server has filled in.
pub(super) fn says(found: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Object(fields) => fields.iter().all(|(key, value)| says(&found[key], value)),
        Value::Array(items) => {
            let found = found.as_array().map_or(&[][..], Vec::as_slice);
            found.len() == items.len()
                && found.iter().zip(items).all(|(found, item)| says(found, item))
        }
        Value::Null => found.is_null(),
        // What is nothing is left out at times.
        Value::Number(number) if number.as_i64() == Some(0) => {
            found.is_null() || found.as_i64() == Some(0)
        }
        Value::String(text) if text.is_empty() => found.is_null() || found == wanted,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_only_when_it_says_something_else() {
        let now = Timestamp::UNIX_EPOCH;
        let object = json!({"status": {"ready": 1, "list": [{"name": "a", "filledIn": {}}],
            "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": "then"}]}});
        let same = json!({"ready": 1, "failed": 0, "list": [{"name": "a"}],
            "conditions": [condition("Ready", true, "", "")]});
        assert_eq!(news(&object, same, now), None);
        let other = json!({"ready": 2, "conditions": [condition("Ready", true, "", "")]});
        let written = news(&object, other, now).unwrap();
        assert_eq!(written["conditions"][0]["lastTransitionTime"], "then", "it has not changed");
        let other = json!({"conditions": [condition("Ready", false, "", "")]});
        let written = news(&object, other, now).unwrap();
        assert_eq!(written["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
    }

    #[test]
    fn the_same_template_has_the_same_name() {
        let one: Value = serde_json::from_str(r#"{"a": 1, "b": [1, {"c": null}]}"#).unwrap();
        let two: Value = serde_json::from_str(r#"{"b": [1, {"c": null}], "a": 1}"#).unwrap();
        assert_eq!(hash(&one), hash(&two));
        assert_ne!(hash(&one), hash(&json!({"a": 1, "b": [1, {"c": 0}]})));
        assert_eq!(hash(&one).len(), 10);
    }
}
