//! The roles and bindings that every server has from its start.
//!
//! They are those of Kubernetes, rule by rule, so that what people know of `view` or
//! `cluster-admin` holds here too; what Kubernetes has for its own controllers and nodes is left
//! out. Anonymous users get health and version, and nothing else.

use serde_json::{Map, Value, json};

use super::cover::uncovered;
use super::{Rule, settle_aggregation};

const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// The default objects. Aggregated roles have their rules already.
pub(crate) fn default_objects() -> Vec<Value> {
    let mut objects = written_down();
    settle_aggregation(&mut objects);
    objects
}

fn written_down() -> Vec<Value> {
    // The file is part of the program: that it is well made is for the tests to see.
    let objects: Vec<Map<String, Value>> =
        serde_json::from_str(include_str!("defaults.json")).unwrap_or_default();
    objects.into_iter().map(complete).collect()
}

/// Adds what is the same for all default objects.
fn complete(mut short: Map<String, Value>) -> Value {
    let mut labels = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
    if let Some(Value::Object(more)) = short.remove("labels") {
        for (label, value) in more {
            labels[label] = value;
        }
    }
    let metadata = json!({
        "name": short.remove("name"), "labels": labels, "annotations": {AUTOUPDATE: "true"},
    });
    short.insert("apiVersion".to_owned(), "rbac.authorization.k8s.io/v1".into());
    short.insert("metadata".to_owned(), metadata);
    Value::Object(short)
}

/// What an object that is there should become so that it has all that the default has; `None` if
/// nothing is missing, or if its annotation says to leave it alone. What people added stays.
///
/// A binding to another role cannot be changed: it comes back as the default, to be deleted and
/// made anew.
pub(crate) fn reconciled(existing: &Value, default: &Value) -> Option<Value> {
    let annotation = existing.pointer("/metadata/annotations").and_then(|all| all.get(AUTOUPDATE));
    if annotation.is_some_and(|value| value == "false") {
        return None;
    }
    if default.get("roleRef") != existing.get("roleRef") {
        return Some(default.clone());
    }
    let mut wanted = existing.clone();
    for field in ["labels", "annotations"] {
        let defaults = default["metadata"][field].as_object();
        for (key, value) in defaults.into_iter().flatten() {
            if wanted["metadata"][field].get(key).is_none() {
                wanted["metadata"][field][key] = value.clone();
            }
        }
    }
    let missing = if default.get("aggregationRule").is_some() {
        Vec::new()
    } else {
        uncovered(&Rule::all_of(existing), &Rule::all_of(default))
    };
    append(&mut wanted["rules"], missing.iter().map(Rule::to_json));
    match default.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array) {
        Some(selectors) => {
            append_new(&mut wanted["aggregationRule"]["clusterRoleSelectors"], selectors);
        }
        None => {
            wanted.as_object_mut().map(|role| role.remove("aggregationRule"));
        }
    }
    append_new(&mut wanted["subjects"], default["subjects"].as_array().map_or(&[], Vec::as_slice));
    for field in ["rules", "subjects"] {
        if wanted[field].is_null() && existing.get(field).is_none() {
            wanted.as_object_mut().map(|object| object.remove(field));
        }
    }
    (wanted != *existing).then_some(wanted)
}

fn append(list: &mut Value, items: impl IntoIterator<Item = Value>) {
    let mut items = items.into_iter().peekable();
    if items.peek().is_none() {
        return;
    }
    if list.is_null() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut() {
        list.extend(items);
    }
}

fn append_new(list: &mut Value, items: &[Value]) {
    let there = list.as_array().cloned().unwrap_or_default();
    append(list, items.iter().filter(|item| !there.contains(item)).cloned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Identity;
    use crate::rbac::{Attributes, Rbac};

    fn named<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
        let found = objects
            .iter()
            .find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("{kind} {name} is missing"))
    }

    #[test]
    fn aggregated_roles_have_the_rules_of_the_real_server() {
        let recorded: Map<String, Value> =
            serde_json::from_str(include_str!("recorded/aggregated_roles.json")).unwrap();
        let objects = default_objects();
        for (role, rules) in &recorded {
            assert_eq!(&named(&objects, "ClusterRole", role)["rules"], rules, "{role}");
        }
        assert_eq!(recorded.len(), 3);
    }

    #[test]
    fn anonymous_users_see_health_and_version_only() {
        let rbac = Rbac::new(&default_objects());
        let anonymous = Identity::anonymous();
        let allowed = |path| rbac.decide(&Attributes::path(&anonymous, "get", path)).allowed;
        for path in ["/healthz", "/livez", "/readyz", "/version", "/version/"] {
            assert!(allowed(path), "{path}");
        }
        for path in ["/", "/api", "/apis", "/metrics", "/livez/ping", "/openapi/v2", "/versions"] {
            assert!(!allowed(path), "{path}");
        }
    }

    #[test]
    fn what_is_missing_comes_back_and_what_was_added_stays() {
        let objects = default_objects();
        let role = named(&objects, "ClusterRole", "system:basic-user");
        assert_eq!(reconciled(role, role), None);
        let mut changed = role.clone();
        changed["rules"] = json!([
            {"apiGroups": ["x"], "resources": ["y"], "verbs": ["get"]},
            {"apiGroups": ["authentication.k8s.io"], "resources": ["*"], "verbs": ["create"]},
        ]);
        changed["metadata"]["labels"] = json!({"mine": "1"});
        let repaired = reconciled(&changed, role).unwrap();
        assert_eq!(
            repaired["metadata"]["labels"],
            json!({"mine": "1", "kubernetes.io/bootstrapping": "rbac-defaults"})
        );
        let review = |resource| {
            json!({
                "apiGroups": ["authorization.k8s.io"], "resources": [resource],
                "verbs": ["create"],
            })
        };
        assert_eq!(
            repaired["rules"],
            json!([
                changed["rules"][0],
                changed["rules"][1],
                review("selfsubjectaccessreviews"),
                review("selfsubjectrulesreviews"),
            ])
        );
        assert_eq!(reconciled(&repaired, role), None);
        changed["metadata"]["annotations"][AUTOUPDATE] = "false".into();
        assert_eq!(reconciled(&changed, role), None);
    }

    #[test]
    fn bindings_get_their_subjects_back() {
        let objects = default_objects();
        let binding = named(&objects, "ClusterRoleBinding", "cluster-admin");
        let mut changed = binding.clone();
        changed["subjects"] = json!([{"kind": "User", "name": "ann"}]);
        let repaired = reconciled(&changed, binding).unwrap();
        assert_eq!(repaired["subjects"], json!([changed["subjects"][0], binding["subjects"][0]]));
        changed["roleRef"]["name"] = "view".into();
        assert_eq!(reconciled(&changed, binding).as_ref(), Some(binding));
    }
}
