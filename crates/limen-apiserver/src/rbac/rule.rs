//! One rule of a role, and what it allows.

use serde_json::{Map, Value, json};

use super::Attributes;

/// A rule: any of these verbs on any of these resources, or on any of these paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    /// What may be done; `*` is everything.
    pub verbs: Vec<String>,
    /// The API groups; `*` is every one.
    pub groups: Vec<String>,
    /// The resources: `pods`, `pods/log`, `*/scale` or `*`.
    pub resources: Vec<String>,
    /// The only names that the rule is for, if there are any.
    pub names: Vec<String>,
    /// Paths that are no resources; a `*` at the end stands for anything.
    pub urls: Vec<String>,
}

impl Rule {
    /// Reads a `PolicyRule`.
    pub(crate) fn from_json(rule: &Value) -> Self {
        let list = |field| {
            let items = rule.get(field).and_then(Value::as_array);
            items.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            verbs: list("verbs"),
            groups: list("apiGroups"),
            resources: list("resources"),
            names: list("resourceNames"),
            urls: list("nonResourceURLs"),
        }
    }

    /// The rules of a role.
    pub(crate) fn all_of(role: &Value) -> Vec<Self> {
        let rules = role.get("rules").and_then(Value::as_array);
        rules.into_iter().flatten().map(Self::from_json).collect()
    }

    /// The `PolicyRule`; what is empty is left out, except for verbs.
    pub(crate) fn to_json(&self) -> Value {
        let mut rule = Map::new();
        rule.insert("verbs".to_owned(), json!(self.verbs));
        let optional = [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.urls),
        ];
        for (field, values) in optional {
            if !values.is_empty() {
                rule.insert(field.to_owned(), json!(values));
            }
        }
        Value::Object(rule)
    }

    /// Whether the rule allows it.
    pub(crate) fn allows(&self, wanted: &Attributes<'_>) -> bool {
        if !has(&self.verbs, wanted.verb) {
            return false;
        }
        match wanted.path {
            Some(path) => self.urls.iter().any(|url| url_covers(url, path)),
            None => {
                has(&self.groups, wanted.group)
                    && self.resources.iter().any(|resource| names_resource(resource, wanted))
                    && (self.names.is_empty() || self.names.iter().any(|name| name == wanted.name))
            }
        }
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == "*" || item == wanted)
}

fn names_resource(resource: &str, wanted: &Attributes<'_>) -> bool {
    if resource == "*" {
        return true;
    }
    if wanted.subresource.is_empty() {
        return resource == wanted.resource;
    }
    let of =
        resource.strip_suffix(wanted.subresource).and_then(|resource| resource.strip_suffix('/'));
    of.is_some_and(|of| of == "*" || of == wanted.resource)
}

/// Whether a rule's path stands for that path.
pub(super) fn url_covers(url: &str, path: &str) -> bool {
    url == path || url.ends_with('*') && path.starts_with(url.trim_end_matches('*'))
}
