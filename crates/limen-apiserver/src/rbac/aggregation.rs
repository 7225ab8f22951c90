//! Roles that are made of other roles, found by their labels.

use serde_json::Value;

/// The rules that an aggregated role should have, given all cluster roles; `None` if it is not
/// aggregated.
pub(crate) fn aggregated_rules(role: &Value, cluster_roles: &[Value]) -> Option<Vec<Value>> {
    let aggregation = role.get("aggregationRule").filter(|rule| !rule.is_null())?;
    let selectors = aggregation.get("clusterRoleSelectors").and_then(Value::as_array);
    let mut sources: Vec<&Value> = cluster_roles.iter().collect();
    sources.sort_by_key(|source| name(source));
    let mut rules: Vec<Value> = Vec::new();
    for selector in selectors.into_iter().flatten() {
        for source in &sources {
            if name(source) == name(role) || !selects(selector, source) {
                continue;
            }
            for rule in source.get("rules").and_then(Value::as_array).into_iter().flatten() {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    Some(rules)
}

/// Gives all aggregated roles their rules, also those that are made of aggregated roles, and says
/// which changed.
pub(crate) fn settle_aggregation(cluster_roles: &mut [Value]) -> Vec<String> {
    let mut changed = Vec::new();
    // Each round settles at least one more role of a chain.
    for _ in 0..=cluster_roles.len() {
        let mut quiet = true;
        for place in 0..cluster_roles.len() {
            let Some(rules) = aggregated_rules(&cluster_roles[place], cluster_roles) else {
                continue;
            };
            let role = &mut cluster_roles[place];
            let current = role.get("rules").and_then(Value::as_array);
            if current.map_or(rules.is_empty(), |current| *current == rules) {
                continue;
            }
            role["rules"] = rules.into();
            quiet = false;
            let name = name(role).to_owned();
            if !changed.contains(&name) {
                changed.push(name);
            }
        }
        if quiet {
            break;
        }
    }
    changed.sort_unstable();
    changed
}

fn name(role: &Value) -> &str {
    role.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// Whether a label selector selects the object. One that makes no sense selects nothing.
fn selects(selector: &Value, object: &Value) -> bool {
    let label =
        |key: &str| object.pointer("/metadata/labels").and_then(|labels| labels.get(key)?.as_str());
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let mut labels = labels.into_iter().flatten();
    let mut expressions = expressions.into_iter().flatten();
    labels.all(|(key, value)| label(key).is_some() && label(key) == value.as_str())
        && expressions.all(|expression| {
            let text = |field| expression.get(field).and_then(Value::as_str).unwrap_or_default();
            let values = expression.get("values").and_then(Value::as_array);
            let found = label(text("key"));
            let among = || {
                let mut values = values.into_iter().flatten();
                found.is_some_and(|found| values.any(|value| value == found))
            };
            match text("operator") {
                "In" => among(),
                "NotIn" => !among(),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(name: &str, labels: &Value, selector: &Value, verbs: &[&str]) -> Value {
        let rules: Vec<Value> = verbs.iter().map(|verb| json!({"verbs": [verb]})).collect();
        let mut role = json!({"metadata": {"name": name, "labels": labels}, "rules": rules});
        if !selector.is_null() {
            role["aggregationRule"] = json!({"clusterRoleSelectors": [selector]});
        }
        role
    }

    #[test]
    fn rules_flow_through_a_chain_of_roles() {
        let to = |label: &str| json!({"matchLabels": {label: "true"}});
        let mut roles = [
            role("admin", &json!({}), &to("admin"), &[]),
            role("edit", &json!({"admin": "true"}), &to("edit"), &[]),
            role("view", &json!({"edit": "true"}), &to("view"), &["stale"]),
            role("base", &json!({"view": "true"}), &Value::Null, &["get"]),
            role("more", &json!({"edit": "true"}), &Value::Null, &["update", "get"]),
        ];
        assert_eq!(settle_aggregation(&mut roles), ["admin", "edit", "view"]);
        assert_eq!(roles[2]["rules"], json!([{"verbs": ["get"]}]));
        assert_eq!(roles[1]["rules"], json!([{"verbs": ["update"]}, {"verbs": ["get"]}]));
        assert_eq!(roles[0]["rules"], roles[1]["rules"]);
        assert!(settle_aggregation(&mut roles).is_empty());
    }

    #[test]
    fn selectors_select_by_labels() {
        let labelled = role("a", &json!({"tier": "x"}), &Value::Null, &[]);
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let cases = [
            (json!({}), true),
            (json!({"matchLabels": {"tier": "x"}}), true),
            (json!({"matchLabels": {"tier": "y"}}), false),
            (json!({"matchLabels": {"other": "x"}}), false),
            (expression("tier", "In", &["x", "y"]), true),
            (expression("tier", "NotIn", &["x"]), false),
            (expression("other", "NotIn", &["x"]), true),
            (expression("tier", "Exists", &[]), true),
            (expression("tier", "DoesNotExist", &[]), false),
            (expression("tier", "Odd", &[]), false),
        ];
        for (selector, expected) in cases {
            assert_eq!(selects(&selector, &labelled), expected, "{selector}");
        }
    }
}
