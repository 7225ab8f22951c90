//! Field ownership of server-side apply: leaf paths by manager, lists atomic.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// Where a leaf value is in an object.
pub(super) type Path = Vec<String>;

/// A field manager: its name, and whether it applies or updates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    /// The name.
    pub name: String,
    /// Whether it applies.
    pub applies: bool,
}

/// Which manager owns which fields of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership(BTreeMap<Manager, BTreeSet<Path>>);

/// Fields that have no owner.
fn is_unowned(path: &[String]) -> bool {
    match path {
        [first] => ["apiVersion", "kind", "metadata"].contains(&first.as_str()),
        [first, second, ..] if first == "metadata" => {
            !["labels", "annotations", "finalizers", "ownerReferences"].contains(&second.as_str())
        }
        _ => false,
    }
}

/// Every leaf value of an object.
pub fn leaves(object: &Value) -> BTreeMap<Path, Value> {
    fn walk(value: &Value, path: &mut Path, found: &mut BTreeMap<Path, Value>) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                for (name, value) in fields {
                    path.push(name.clone());
                    walk(value, path, found);
                    path.pop();
                }
            }
            Value::Null => {}
            _ if is_unowned(path) => {}
            _ => drop(found.insert(path.clone(), value.clone())),
        }
    }
    let mut found = BTreeMap::new();
    walk(object, &mut Path::new(), &mut found);
    found
}

/// Sets a leaf value; maps on the way are made.
fn set(object: &mut Value, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else {
        *object = value;
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    set(&mut object[first.as_str()], rest, value);
}

/// Removes a leaf value, and maps that become empty.
fn unset(object: &mut Value, path: &[String]) {
    let Some(fields) = object.as_object_mut() else { return };
    match path {
        [] => {}
        [last] => drop(fields.remove(last)),
        [first, rest @ ..] => {
            if let Some(inner) = fields.get_mut(first) {
                unset(inner, rest);
                if inner.as_object().is_some_and(Map::is_empty) {
                    fields.remove(first);
                }
            }
        }
    }
}

/// Whether one of two paths leads through the other.
fn overlap(one: &[String], other: &[String]) -> bool {
    one.iter().zip(other).all(|(a, b)| a == b)
}

impl Ownership {
    /// Applies a configuration: the new object, or the managers that it conflicts with.
    ///
    /// # Errors
    ///
    /// Names of managers that own what would change, unless `force`.
    pub fn apply(
        &mut self,
        live: &Value,
        config: &Value,
        manager: &str,
        force: bool,
    ) -> Result<Value, BTreeSet<String>> {
        let me = Manager { name: manager.to_owned(), applies: true };
        let wanted = leaves(config);
        let held = leaves(live);
        let differs = |path: &Path| wanted.get(path) != held.get(path);
        let rivals: BTreeSet<String> = self
            .0
            .iter()
            .filter(|(other, _)| **other != me)
            .filter(|(_, owned)| {
                owned
                    .iter()
                    .any(|owned| wanted.keys().any(|path| overlap(path, owned) && differs(path)))
            })
            .map(|(other, _)| other.name.clone())
            .collect();
        if !rivals.is_empty() && !force {
            return Err(rivals);
        }
        let mut object = live.clone();
        let before = self.0.remove(&me).unwrap_or_default();
        for path in before.iter().filter(|path| !wanted.contains_key(*path)) {
            let shared = self.0.values().flatten().any(|owned| overlap(owned, path));
            let replaced = wanted.keys().any(|new| overlap(new, path));
            if !shared && !replaced {
                unset(&mut object, path);
            }
        }
        for (path, value) in &wanted {
            if differs(path) {
                self.0.values_mut().for_each(|owned| owned.retain(|owned| !overlap(owned, path)));
                set(&mut object, path, value.clone());
            }
        }
        self.0.retain(|_, owned| !owned.is_empty());
        self.0.insert(me, wanted.into_keys().collect());
        Ok(object)
    }

    /// Notes that a manager changed an object by other means than apply.
    pub fn update(&mut self, before: &Value, after: &Value, manager: &str) {
        let (before, after) = (leaves(before), leaves(after));
        let gone = |path: &Path| !after.contains_key(path);
        let changed: BTreeSet<Path> = after
            .iter()
            .filter(|(path, value)| before.get(*path) != Some(value))
            .map(|(path, _)| path.clone())
            .collect();
        for owned in self.0.values_mut() {
            owned.retain(|path| !gone(path) && !changed.contains(path));
        }
        let me = Manager { name: manager.to_owned(), applies: false };
        self.0.entry(me).or_default().extend(changed);
        self.0.retain(|_, owned| !owned.is_empty());
    }

    /// Managers that own a field.
    pub fn owners<'a>(&'a self, path: &'a [&'a str]) -> impl Iterator<Item = &'a Manager> {
        let path: Path = path.iter().map(|&part| part.to_owned()).collect();
        self.0.iter().filter(move |(_, owned)| owned.contains(&path)).map(|(manager, _)| manager)
    }

    /// As `metadata.managedFields` shows it.
    pub fn shown(&self, api_version: &str) -> Value {
        let entry = |(manager, owned): (&Manager, &BTreeSet<Path>)| {
            let mut fields = json!({});
            for path in owned {
                let path: Path = path.iter().map(|part| format!("f:{part}")).collect();
                set(&mut fields, &path, json!({}));
            }
            let operation = if manager.applies { "Apply" } else { "Update" };
            json!({"manager": manager.name, "operation": operation, "apiVersion": api_version,
                "fieldsType": "FieldsV1", "fieldsV1": fields})
        };
        self.0.iter().map(entry).collect()
    }
}

/// Changes an object by a JSON merge patch.
pub fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (name, value) in fields {
        match value {
            Value::Null => {
                if let Some(object) = object.as_object_mut() {
                    object.remove(name);
                }
            }
            _ => merge(&mut object[name.as_str()], value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_is_no_longer_applied_goes_unless_another_manager_owns_it() {
        let mut owners = Ownership::default();
        let first = json!({"spec": {"replicas": 4, "paused": true}});
        let live = owners.apply(&json!({}), &first, "limen", true).unwrap();
        let mut scaled = live.clone();
        scaled["spec"]["replicas"] = json!(7);
        owners.update(&live, &scaled, "hpa");
        let second = json!({"spec": {"selector": {}}});
        let live = owners.apply(&scaled, &second, "limen", true).unwrap();
        assert_eq!(live, json!({"spec": {"replicas": 7, "selector": {}}}));
    }

    #[test]
    fn a_field_of_another_manager_is_taken_only_by_force() {
        let mut owners = Ownership::default();
        let theirs = json!({"data": {"key": "theirs"}});
        owners.update(&json!({}), &theirs, "kubectl");
        let ours = json!({"data": {"key": "ours"}});
        let rivals = owners.apply(&theirs, &ours, "limen", false).unwrap_err();
        assert_eq!(rivals, BTreeSet::from(["kubectl".to_owned()]));
        assert_eq!(owners.apply(&theirs, &ours, "limen", true).unwrap(), ours);
        assert_eq!(owners.owners(&["data", "key"]).count(), 1);
    }

    #[test]
    fn a_merge_patch_removes_nulls_and_keeps_the_rest() {
        let mut object = json!({"a": {"b": 1, "c": 2}, "d": 3});
        merge(&mut object, &json!({"a": {"b": null}, "e": [1]}));
        assert_eq!(object, json!({"a": {"c": 2}, "d": 3, "e": [1]}));
    }
}
