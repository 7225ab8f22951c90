//! Fields of a leaf that another controller in the member is to own.
//!
//! A field that only Limen owns disappears when Limen stops applying it, and the member falls back
//! to a default: a Deployment to one replica. So a field is applied with its current value until
//! another manager owns it, and left out from then on.

use serde_json::Value;

/// The object to apply over `current`, which has its `managedFields`: the leaf, with each of the
/// `pointers` that no manager but `manager` owns set to its current value.
pub fn applied_over(leaf: &Value, pointers: &[String], current: &Value, manager: &str) -> Value {
    let mut object = leaf.clone();
    for pointer in pointers {
        if let Some(value) = current.pointer(pointer)
            && other_owner(current, pointer, manager).is_none()
        {
            insert(&mut object, pointer, value.clone());
        }
    }
    object
}

/// A manager other than `manager` that owns the field at a JSON pointer.
pub fn other_owner<'a>(object: &'a Value, pointer: &str, manager: &str) -> Option<&'a str> {
    let managers = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    managers
        .filter(|entry| entry["manager"] != manager)
        .find(|entry| owns(&entry["fieldsV1"], pointer))
        .and_then(|entry| entry["manager"].as_str())
}

/// Whether a set of fields has the field, or owns a parent as a whole.
fn owns(fields: &Value, pointer: &str) -> bool {
    let mut fields = fields;
    for segment in pointer.split('/').skip(1) {
        let name = format!("f:{}", segment.replace("~1", "/").replace("~0", "~"));
        match fields.get(&name) {
            Some(inner) => fields = inner,
            None => return false,
        }
        // An empty set below a field means that the field is owned with everything in it.
        if fields.as_object().is_some_and(serde_json::Map::is_empty) {
            return true;
        }
    }
    true
}

fn insert(object: &mut Value, pointer: &str, value: Value) {
    let mut at = object;
    for segment in pointer.split('/').skip(1) {
        let name = segment.replace("~1", "/").replace("~0", "~");
        if !at.is_object() {
            *at = Value::Object(serde_json::Map::new());
        }
        at = &mut at[name];
    }
    *at = value;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn current(managers: &Value) -> Value {
        json!({"metadata": {"managedFields": managers}, "spec": {"replicas": 7, "paused": false}})
    }

    #[test]
    fn a_field_is_applied_with_its_current_value_until_another_manager_owns_it() {
        let leaf = json!({"spec": {"paused": true}});
        let replicas = json!({"f:spec": {"f:replicas": {}}});
        let pointers = ["/spec/replicas".to_owned()];
        let kept = json!({"spec": {"paused": true, "replicas": 7}});
        for (managers, applied) in [
            (json!(null), &kept),
            (json!([{"manager": "limen", "fieldsV1": replicas}]), &kept),
            (json!([{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:paused": {}}}}]), &kept),
            (
                json!([{"manager": "limen", "fieldsV1": replicas},
                    {"manager": "kube-controller-manager", "subresource": "scale",
                        "fieldsV1": replicas}]),
                &leaf,
            ),
        ] {
            let object = applied_over(&leaf, &pointers, &current(&managers), "limen");
            assert_eq!(object, *applied, "{managers}");
        }
    }

    #[test]
    fn a_field_that_the_member_lacks_is_not_invented() {
        let leaf = json!({"spec": {}});
        let object = applied_over(&leaf, &["/spec/missing".to_owned()], &json!({}), "limen");
        assert_eq!(object, leaf);
    }

    #[test]
    fn parents_that_the_leaf_lacks_are_added() {
        let pointers = ["/spec/template/metadata/annotations/a~1b".to_owned()];
        let current = json!({"spec": {"template": {"metadata": {"annotations": {"a/b": "1"}}}}});
        assert_eq!(applied_over(&json!({}), &pointers, &current, "limen"), current);
    }

    #[test]
    fn the_owner_of_a_field_is_named() {
        let object = current(&json!([
            {"manager": "limen", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            {"manager": "keda", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]));
        assert_eq!(other_owner(&object, "/spec/replicas", "limen"), Some("keda"));
        assert_eq!(other_owner(&object, "/spec/paused", "limen"), None);
    }
}
