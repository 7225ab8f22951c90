//! All roles and bindings at one moment, laid out for quick decisions.
//!
//! A decision must not look at bindings of others. So bindings are found by the user's name and
//! groups, first those of the whole cluster, then those of the namespace, each in the order of
//! their names; roles are shared by the bindings that refer to them.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::Value;

use super::{Attributes, Rule};
use crate::auth::{Identity, MASTERS, service_account_username};

/// Whether something is allowed, and why; without a reason, nothing is known that allows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Whether it is.
    pub allowed: bool,
    /// The binding that allows it, or what was wrong with bindings that did not.
    pub reason: String,
}

/// All roles and bindings at one moment.
#[derive(Debug, Default)]
pub(crate) struct Rbac {
    roles: HashMap<(String, String), Arc<[Rule]>>,
    cluster: Bindings,
    namespaces: HashMap<String, Bindings>,
}

/// The bindings of one namespace, or of the cluster.
#[derive(Debug, Default)]
struct Bindings {
    all: Vec<Binding>,
    /// The places of bindings in `all` and of subjects in them, by the name of the user.
    of_users: HashMap<String, Vec<(usize, usize)>>,
    of_groups: HashMap<String, Vec<(usize, usize)>>,
}

#[derive(Debug)]
struct Binding {
    name: String,
    /// Empty for the whole cluster.
    namespace: String,
    role_kind: String,
    role_name: String,
    subjects: Vec<Subject>,
    /// The role's rules, or why there are none.
    rules: Result<Arc<[Rule]>, NoRole>,
}

#[derive(Debug)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

impl Rbac {
    /// A snapshot of these objects, which may be of all four kinds in any order.
    pub(crate) fn new<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut rbac = Self::default();
        let mut bindings = Vec::new();
        for object in objects {
            match text(object, "/kind") {
                "Role" | "ClusterRole" => {
                    let key = (
                        text(object, "/metadata/namespace").to_owned(),
                        text(object, "/metadata/name").to_owned(),
                    );
                    rbac.roles.insert(key, Rule::all_of(object).into());
                }
                "RoleBinding" | "ClusterRoleBinding" => bindings.push(object),
                _ => {}
            }
        }
        bindings.sort_by_key(|binding| text(binding, "/metadata/name"));
        for binding in bindings {
            let namespace = text(binding, "/metadata/namespace");
            let binding = rbac.binding(binding, namespace);
            if namespace.is_empty() {
                rbac.cluster.add(binding);
            } else {
                rbac.namespaces.entry(namespace.to_owned()).or_default().add(binding);
            }
        }
        rbac
    }

    fn binding(&self, binding: &Value, namespace: &str) -> Binding {
        let subjects = binding.get("subjects").and_then(Value::as_array);
        let subjects = subjects.into_iter().flatten().map(|subject| Subject {
            kind: text(subject, "/kind").to_owned(),
            name: text(subject, "/name").to_owned(),
            namespace: text(subject, "/namespace").to_owned(),
        });
        let (kind, name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
        Binding {
            name: text(binding, "/metadata/name").to_owned(),
            namespace: namespace.to_owned(),
            role_kind: kind.to_owned(),
            role_name: name.to_owned(),
            subjects: subjects.collect(),
            rules: self.role_rules(kind, name, namespace),
        }
    }

    /// The rules of the role that a binding in `namespace` refers to.
    pub(super) fn role_rules(
        &self,
        kind: &str,
        name: &str,
        namespace: &str,
    ) -> Result<Arc<[Rule]>, NoRole> {
        let namespace = match kind {
            "Role" => namespace,
            "ClusterRole" => "",
            kind => return Err(NoRole::UnknownKind(kind.to_owned())),
        };
        if kind == "Role" && namespace.is_empty() {
            return Err(NoRole::NotFound("role", name.to_owned()));
        }
        let found = self.roles.get(&(namespace.to_owned(), name.to_owned()));
        let resource = if kind == "Role" { "role" } else { "clusterrole" };
        found.cloned().ok_or_else(|| NoRole::NotFound(resource, name.to_owned()))
    }

    /// Whether it is allowed.
    pub(crate) fn decide(&self, wanted: &Attributes<'_>) -> Decision {
        if wanted.user.is_in(MASTERS) {
            return Decision { allowed: true, reason: String::new() };
        }
        let mut missing = Vec::new();
        let allowed = self.visit(wanted.user, wanted.namespace, |binding, subject| {
            match &binding.rules {
                Ok(rules) if rules.iter().any(|rule| rule.allows(wanted)) => {
                    return ControlFlow::Break(binding.describe(subject));
                }
                Ok(_) => {}
                Err(error) if missing.contains(&error) => {}
                Err(error) => missing.push(error),
            }
            ControlFlow::Continue(())
        });
        match (allowed, &missing[..]) {
            (Some(by), _) => Decision { allowed: true, reason: format!("RBAC: allowed by {by}") },
            (None, []) => Decision { allowed: false, reason: String::new() },
            (None, missing) => {
                let reason =
                    format!("RBAC: {}", aggregate(missing.iter().map(ToString::to_string)));
                Decision { allowed: false, reason }
            }
        }
    }

    /// All rules that hold for the user in the namespace, and what was wrong with bindings.
    pub(crate) fn rules_for(
        &self,
        user: &Identity,
        namespace: &str,
    ) -> (Vec<Rule>, Option<String>) {
        let (rules, missing) = self.resolve(user, namespace);
        let problem = aggregate(missing.iter().map(ToString::to_string));
        (rules, Some(problem).filter(|problem| !problem.is_empty()))
    }

    /// As [`rules_for`](Self::rules_for), with each role that is missing.
    pub(super) fn resolve(&self, user: &Identity, namespace: &str) -> (Vec<Rule>, Vec<&NoRole>) {
        let mut rules = Vec::new();
        let mut missing = Vec::new();
        self.visit(user, namespace, |binding, _| {
            match &binding.rules {
                Ok(bound) => rules.extend(bound.iter().cloned()),
                Err(error) if missing.contains(&error) => {}
                Err(error) => missing.push(error),
            }
            ControlFlow::Continue(())
        });
        (rules, missing)
    }

    /// Shows each binding that holds for the user, with the first subject that the user is, until
    /// the visitor has what it wants.
    fn visit<'a>(
        &'a self,
        user: &Identity,
        namespace: &str,
        mut visitor: impl FnMut(&'a Binding, &'a Subject) -> ControlFlow<String>,
    ) -> Option<String> {
        let local = (!namespace.is_empty()).then(|| self.namespaces.get(namespace)).flatten();
        for bindings in [Some(&self.cluster), local].into_iter().flatten() {
            for (binding, subject) in bindings.of(user) {
                let binding = &bindings.all[binding];
                if let ControlFlow::Break(found) = visitor(binding, &binding.subjects[subject]) {
                    return Some(found);
                }
            }
        }
        None
    }
}

impl Bindings {
    fn add(&mut self, binding: Binding) {
        let place = self.all.len();
        for (index, subject) in binding.subjects.iter().enumerate() {
            let (map, name) = match subject.kind.as_str() {
                "User" => (&mut self.of_users, subject.name.clone()),
                "Group" => (&mut self.of_groups, subject.name.clone()),
                "ServiceAccount" => {
                    let namespace = binding.namespace_of(subject);
                    if namespace.is_empty() {
                        continue;
                    }
                    (&mut self.of_users, service_account_username(namespace, &subject.name))
                }
                _ => continue,
            };
            map.entry(name).or_default().push((place, index));
        }
        self.all.push(binding);
    }

    /// The user's bindings in order, each with its first subject that the user is.
    fn of(&self, user: &Identity) -> Vec<(usize, usize)> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        found.extend(self.of_users.get(&user.name).into_iter().flatten());
        for group in &user.groups {
            found.extend(self.of_groups.get(group).into_iter().flatten());
        }
        found.sort_unstable();
        found.dedup_by_key(|(binding, _)| *binding);
        found
    }
}

impl Binding {
    fn namespace_of<'a>(&'a self, subject: &'a Subject) -> &'a str {
        if subject.namespace.is_empty() { &self.namespace } else { &subject.namespace }
    }

    fn describe(&self, subject: &Subject) -> String {
        let Self { name, namespace, role_kind, role_name, .. } = self;
        let binding = if namespace.is_empty() {
            format!("ClusterRoleBinding {name:?}")
        } else {
            format!("RoleBinding {:?}", format!("{name}/{namespace}"))
        };
        let subject_name = match subject.kind.as_str() {
            "ServiceAccount" => format!("{}/{}", subject.name, self.namespace_of(subject)),
            _ => subject.name.clone(),
        };
        format!("{binding} of {role_kind} {role_name:?} to {} {subject_name:?}", subject.kind)
    }
}

/// Why a binding gives no rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoRole {
    #[error("{0}.rbac.authorization.k8s.io {1:?} not found")]
    NotFound(&'static str, String),
    #[error("unsupported role reference kind: {0:?}")]
    UnknownKind(String),
}

/// Several errors as one; empty if there are none.
pub(super) fn aggregate(errors: impl Iterator<Item = String>) -> String {
    let errors: Vec<String> = errors.collect();
    match &errors[..] {
        [] => String::new(),
        [only] => only.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
