//! Nobody gives away more than they have.
//!
//! Who writes a role must hold all that it gives, or be allowed to `escalate` it; who writes a
//! binding must hold all that its role gives, or be allowed to `bind` it.

use http::StatusCode;
use serde_json::Value;

use super::cover::{compact, uncovered};
use super::snapshot::{NoRole, aggregate};
use super::{Attributes, Rbac, Rule};
use crate::auth::{Identity, MASTERS};
use crate::error::{ApiError, ApiResult, Subject};

const GROUP: &str = "rbac.authorization.k8s.io";

/// A write of a role or a binding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoleWrite<'a> {
    /// Who writes.
    pub user: &'a Identity,
    /// The plural: `roles`, `clusterroles`, `rolebindings` or `clusterrolebindings`.
    pub resource: &'a str,
    /// The namespace of the request; empty for cluster kinds.
    pub namespace: &'a str,
    /// The name in the request's path; empty for a create.
    pub name: &'a str,
    /// The object to write, with defaults.
    pub new: &'a Value,
    /// The object that is there, for an update.
    pub old: Option<&'a Value>,
}

impl RoleWrite<'_> {
    fn is_free(&self) -> bool {
        self.user.is_in(MASTERS)
            || self.old.is_some_and(|old| only_garbage_collection(self.new, old))
    }

    fn refuse(&self, detail: &str) -> ApiError {
        let name = self.new.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        ApiError::forbidden(Subject { group: GROUP, resource: self.resource }, name, detail)
    }

    /// A role is not there. The real server takes it for one of the kind that is written.
    fn missing(&self, role: &NoRole) -> ApiError {
        match role {
            NoRole::NotFound(_, name) => {
                ApiError::not_found(Subject { group: GROUP, resource: self.resource }, name)
            }
            NoRole::UnknownKind(_) => {
                ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", role.to_string())
            }
        }
    }

    fn asks<'b>(&'b self, verb: &'b str, resource: &'b str, name: &'b str) -> Attributes<'b> {
        Attributes {
            user: self.user,
            verb,
            group: GROUP,
            version: "*",
            resource,
            subresource: "",
            name,
            namespace: self.namespace,
            path: None,
        }
    }
}

/// Whether a role may be written.
pub(crate) fn check_role_write(rbac: &Rbac, write: &RoleWrite<'_>) -> ApiResult<()> {
    let escalate = write.asks("escalate", write.resource, write.name);
    if write.is_free() || rbac.decide(&escalate).allowed {
        return Ok(());
    }
    confirm_holds(rbac, write, &Rule::all_of(write.new))?;
    // An aggregated role takes in whatever is labelled for it, so it takes all to make one.
    if has_aggregation(write.new) || write.old.is_some_and(has_aggregation) {
        let everything = || vec!["*".to_owned()];
        let full = [
            Rule {
                verbs: everything(),
                groups: everything(),
                resources: everything(),
                ..Rule::default()
            },
            Rule { verbs: everything(), urls: everything(), ..Rule::default() },
        ];
        confirm_holds(rbac, write, &full).map_err(|_| {
            write.refuse("must have cluster-admin privileges to use the aggregationRule")
        })?;
    }
    Ok(())
}

/// Whether a binding may be written.
pub(crate) fn check_binding_write(rbac: &Rbac, write: &RoleWrite<'_>) -> ApiResult<()> {
    if write.is_free() {
        return Ok(());
    }
    let text = |pointer| write.new.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, role) = (text("/roleRef/kind"), text("/roleRef/name"));
    let resource = match kind {
        "ClusterRole" => Some("clusterroles"),
        "Role" => Some("roles"),
        _ => None,
    };
    if let Some(resource) = resource {
        let mut bind = write.asks("bind", resource, role);
        bind.group = text("/roleRef/apiGroup");
        if rbac.decide(&bind).allowed {
            return Ok(());
        }
    }
    let rules =
        rbac.role_rules(kind, role, write.namespace).map_err(|missing| write.missing(&missing))?;
    confirm_holds(rbac, write, &rules)
}

fn confirm_holds(rbac: &Rbac, write: &RoleWrite<'_>, rules: &[Rule]) -> ApiResult<()> {
    let (held, problems) = rbac.resolve(write.user, write.namespace);
    let missing = compact(uncovered(&held, rules));
    if missing.is_empty() {
        return Ok(());
    }
    let mut missing: Vec<String> = missing.iter().map(described).collect();
    missing.sort_unstable();
    missing.dedup();
    let Identity { name, groups, .. } = write.user;
    let mut detail = format!(
        "user {name:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quoted(groups),
        missing.join("\n")
    );
    if !problems.is_empty() {
        let problems =
            aggregate(problems.into_iter().map(|problem| write.missing(problem).message));
        detail = format!("{detail}; resolution errors: [{problems}]");
    }
    Err(write.refuse(&detail))
}

fn described(rule: &Rule) -> String {
    let parts = [
        ("APIGroups", &rule.groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.urls),
        ("ResourceNames", &rule.names),
        ("Verbs", &rule.verbs),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(_, values)| !values.is_empty())
        .map(|(name, values)| format!("{name}:{}", quoted(values)))
        .collect();
    format!("{{{}}}", parts.join(", "))
}

fn quoted(list: &[String]) -> String {
    let items: Vec<String> = list.iter().map(|item| format!("{item:?}")).collect();
    format!("[{}]", items.join(" "))
}

fn has_aggregation(role: &Value) -> bool {
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors");
    selectors.and_then(Value::as_array).is_some_and(|selectors| !selectors.is_empty())
}

/// Whether a write changes only what garbage collection works with.
fn only_garbage_collection(new: &Value, old: &Value) -> bool {
    let without = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["ownerReferences", "finalizers", "selfLink", "managedFields"] {
                metadata.remove(field);
            }
        }
        object
    };
    without(new) == without(old)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The objects that the messages were recorded with.
    fn rbac(extra: &[Value]) -> Rbac {
        let mut objects = vec![
            json!({
                "kind": "Role", "metadata": {"name": "granter", "namespace": "auth"},
                "rules": [
                    {
                        "apiGroups": ["rbac.authorization.k8s.io"],
                        "resources": ["roles", "rolebindings"],
                        "verbs": ["create", "get", "update", "patch"],
                    },
                    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
                ],
            }),
            json!({
                "kind": "RoleBinding", "metadata": {"name": "granter", "namespace": "auth"},
                "roleRef": {"kind": "Role", "name": "granter"},
                "subjects": [{"kind": "User", "name": "auth-ann"}],
            }),
            json!({
                "kind": "ClusterRole", "metadata": {"name": "cluster-admin"},
                "rules": [
                    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                    {"nonResourceURLs": ["*"], "verbs": ["*"]},
                ],
            }),
        ];
        objects.extend_from_slice(extra);
        Rbac::new(&objects)
    }

    fn ann() -> Identity {
        Identity::new("auth-ann", &["system:authenticated"])
    }

    fn write<'a>(user: &'a Identity, resource: &'a str, new: &'a Value) -> RoleWrite<'a> {
        RoleWrite { user, resource, namespace: "auth", name: "", new, old: None }
    }

    fn allowed_to(verb: &str, resource: &str) -> [Value; 2] {
        [
            json!({
                "kind": "Role", "metadata": {"name": "extra", "namespace": "auth"},
                "rules": [{
                    "apiGroups": ["rbac.authorization.k8s.io"],
                    "resources": [resource], "verbs": [verb],
                }],
            }),
            json!({
                "kind": "RoleBinding", "metadata": {"name": "extra", "namespace": "auth"},
                "roleRef": {"kind": "Role", "name": "extra"},
                "subjects": [{"kind": "User", "name": "auth-ann"}],
            }),
        ]
    }

    #[test]
    fn a_role_may_not_give_what_its_writer_lacks() {
        let role = json!({
            "kind": "Role", "metadata": {"name": "r1"},
            "rules": [
                {
                    "apiGroups": ["", "apps"], "resources": ["pods", "deployments"],
                    "verbs": ["get", "list"],
                },
                {
                    "apiGroups": [""], "resources": ["secrets"],
                    "resourceNames": ["a", "b"], "verbs": ["get", "list"],
                },
            ],
        });
        let ann = ann();
        let error = check_role_write(&rbac(&[]), &write(&ann, "roles", &role)).unwrap_err();
        assert_eq!(
            error.message,
            "roles.rbac.authorization.k8s.io \"r1\" is forbidden: user \"auth-ann\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
            {APIGroups:[\"\"], Resources:[\"deployments\"], Verbs:[\"get\" \"list\"]}\n\
            {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\"]}\n\
            {APIGroups:[\"\"], Resources:[\"secrets\"], ResourceNames:[\"a\"], Verbs:[\"get\" \"list\"]}\n\
            {APIGroups:[\"\"], Resources:[\"secrets\"], ResourceNames:[\"b\"], Verbs:[\"get\" \"list\"]}\n\
            {APIGroups:[\"apps\"], Resources:[\"deployments\"], Verbs:[\"get\" \"list\"]}\n\
            {APIGroups:[\"apps\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}"
        );
        let free = rbac(&allowed_to("escalate", "roles"));
        assert_eq!(check_role_write(&free, &write(&ann, "roles", &role)), Ok(()));
        let master = Identity::new("root", &[MASTERS]);
        assert_eq!(check_role_write(&rbac(&[]), &write(&master, "roles", &role)), Ok(()));
        let held = json!({
            "metadata": {"name": "r1"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
        });
        assert_eq!(check_role_write(&rbac(&[]), &write(&ann, "roles", &held)), Ok(()));
    }

    #[test]
    fn roles_that_are_missing_are_told_of() {
        let dangling = json!({
            "kind": "RoleBinding", "metadata": {"name": "dangling", "namespace": "auth"},
            "roleRef": {"kind": "Role", "name": "nope"},
            "subjects": [{"kind": "User", "name": "auth-ann"}],
        });
        let role = json!({
            "metadata": {"name": "r1"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
        });
        let ann = ann();
        let error = check_role_write(&rbac(&[dangling]), &write(&ann, "roles", &role)).unwrap_err();
        assert_eq!(
            error.message,
            "roles.rbac.authorization.k8s.io \"r1\" is forbidden: user \"auth-ann\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\"]}; resolution errors: [roles.rbac.authorization.k8s.io \"nope\" not found]"
        );
    }

    #[test]
    fn a_binding_may_not_give_what_its_writer_lacks() {
        let binding = |kind: &str, name: &str| {
            json!({
                "metadata": {"name": "r1"},
                "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
            })
        };
        let ann = ann();
        let cases = [
            (
                binding("ClusterRole", "cluster-admin"),
                403,
                "rolebindings.rbac.authorization.k8s.io \"r1\" is forbidden: user \"auth-ann\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}",
            ),
            (
                binding("ClusterRole", "nope"),
                404,
                "rolebindings.rbac.authorization.k8s.io \"nope\" not found",
            ),
            (
                binding("Role", "nope"),
                404,
                "rolebindings.rbac.authorization.k8s.io \"nope\" not found",
            ),
            (binding("Foo", "nope"), 500, "unsupported role reference kind: \"Foo\""),
        ];
        for (binding, code, message) in cases {
            let write = write(&ann, "rolebindings", &binding);
            let error = check_binding_write(&rbac(&[]), &write).unwrap_err();
            assert_eq!((error.code.as_u16(), error.message.as_str()), (code, message));
        }
        let admin = binding("ClusterRole", "cluster-admin");
        let free = rbac(&allowed_to("bind", "clusterroles"));
        assert_eq!(check_binding_write(&free, &write(&ann, "rolebindings", &admin)), Ok(()));
    }

    #[test]
    fn an_aggregated_role_takes_all_there_is() {
        let role = json!({
            "metadata": {"name": "r1"},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
        });
        let ann = ann();
        let error = check_role_write(&rbac(&[]), &write(&ann, "clusterroles", &role)).unwrap_err();
        assert_eq!(
            error.message,
            "clusterroles.rbac.authorization.k8s.io \"r1\" is forbidden: must have cluster-admin privileges to use the aggregationRule"
        );
    }

    #[test]
    fn a_finalizer_may_be_taken_off_a_role_that_gives_too_much() {
        let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        let old = json!({"metadata": {"name": "r1", "finalizers": ["a/b"]}, "rules": rules});
        let new = json!({"metadata": {"name": "r1"}, "rules": rules});
        let ann = ann();
        let write = RoleWrite { old: Some(&old), ..write(&ann, "roles", &new) };
        assert_eq!(check_role_write(&rbac(&[]), &write), Ok(()));
    }
}
