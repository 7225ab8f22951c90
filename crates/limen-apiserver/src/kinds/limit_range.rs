//! LimitRange: how much one pod, container or claim of a namespace may ask for, and what it gets if
//! it does not ask. The hub runs nothing, so it keeps the limits and enforces none.

use serde_json::{Value, json};

use super::fields::{at, fill_object, items_mut, set, text};
use super::quantity;
use crate::resource::{NameRule, Rules};

pub(super) const RULES: Rules = Rules { name: NameRule::Subdomain, default, ..Rules::NONE };

fn default(object: &mut Value) {
    fill_object(object, "spec");
    for limit in items_mut(object, "spec.limits") {
        for amounts in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            if let Some(amounts) = limit.get_mut(amounts) {
                quantity::normalize_list(amounts);
            }
        }
        if text(limit, "type") == "Container" {
            // Who says less than everything means: as much as is allowed, as little as there must
            // be.
            fill_amounts(limit, "default", "max");
            fill_amounts(limit, "defaultRequest", "default");
            fill_amounts(limit, "defaultRequest", "min");
        }
    }
}

/// Adds to one list of amounts what only another one has.
fn fill_amounts(limit: &mut Value, list: &str, from: &str) {
    let Some(given) = at(limit, from).as_object().cloned() else { return };
    let mut amounts = at(limit, list).as_object().cloned().unwrap_or_default();
    for (resource, amount) in given {
        amounts.entry(resource).or_insert(amount);
    }
    if !amounts.is_empty() {
        set(limit, list, json!(amounts));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_follows_from_the_rest() {
        let cases = [
            (
                json!({"type": "Container", "default": {"cpu": "0.1"}}),
                json!({"type": "Container", "default": {"cpu": "100m"}, "defaultRequest": {"cpu": "100m"}}),
            ),
            (
                json!({"type": "Container", "max": {"cpu": "1"}, "min": {"memory": "1Gi"}}),
                json!({
                    "type": "Container", "max": {"cpu": "1"}, "min": {"memory": "1Gi"},
                    "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1", "memory": "1Gi"},
                }),
            ),
            (
                json!({"type": "Pod", "max": {"cpu": "1"}}),
                json!({"type": "Pod", "max": {"cpu": "1"}}),
            ),
        ];
        for (given, expected) in cases {
            let mut object = json!({"spec": {"limits": [given]}});
            default(&mut object);
            assert_eq!(object["spec"]["limits"][0], expected);
        }
    }
}
