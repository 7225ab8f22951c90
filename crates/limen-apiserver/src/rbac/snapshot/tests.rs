use std::time::Instant;

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Decides by walking all objects, as the rules are written down.
fn slow_decide(objects: &[Value], wanted: &Attributes<'_>) -> bool {
    if wanted.user.groups.iter().any(|group| group == "system:masters") {
        return true;
    }
    objects.iter().filter(|object| text(object, "/kind").ends_with("Binding")).any(|binding| {
        let namespace = text(binding, "/metadata/namespace");
        let in_scope = namespace.is_empty() || namespace == wanted.namespace;
        let subjects = binding["subjects"].as_array().unwrap();
        let is_subject = subjects.iter().any(|subject| {
            let name = text(subject, "/name");
            match text(subject, "/kind") {
                "User" => wanted.user.name == name,
                "Group" => wanted.user.groups.iter().any(|group| group == name),
                _ => {
                    let own = text(subject, "/namespace");
                    let of = if own.is_empty() { namespace } else { own };
                    !of.is_empty()
                        && wanted.user.name == format!("system:serviceaccount:{of}:{name}")
                }
            }
        });
        let role = objects.iter().find(|role| {
            let kind = text(binding, "/roleRef/kind");
            text(role, "/kind") == kind
                && text(role, "/metadata/name") == text(binding, "/roleRef/name")
                && (kind == "ClusterRole" || text(role, "/metadata/namespace") == namespace)
        });
        in_scope
            && is_subject
            && role.is_some_and(|role| Rule::all_of(role).iter().any(|rule| rule.allows(wanted)))
    })
}

fn pick(values: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(values)
}

const NAMES: &[&str] = &["a", "b", "c"];
const NAMESPACES: &[&str] = &["x", "y"];
const VERBS: &[&str] = &["get", "list", "*"];
const RESOURCES: &[&str] = &["pods", "pods/log", "*/log", "*", "nodes"];

fn rule() -> impl Strategy<Value = Value> {
    let some = |values| prop::collection::vec(pick(values), 0..3);
    let resource = (some(VERBS), some(&["", "apps", "*"]), some(RESOURCES), some(NAMES)).prop_map(
        |(verbs, groups, resources, names)| {
            json!({
                "verbs": verbs, "apiGroups": groups, "resources": resources,
                "resourceNames": names,
            })
        },
    );
    let path = (some(VERBS), some(&["/a", "/a/*", "*"]))
        .prop_map(|(verbs, urls)| json!({"verbs": verbs, "nonResourceURLs": urls}));
    prop_oneof![3 => resource, 1 => path]
}

fn role() -> impl Strategy<Value = Value> {
    let rules = prop::collection::vec(rule(), 0..3);
    (pick(NAMES), prop::option::of(pick(NAMESPACES)), rules).prop_map(|(name, namespace, rules)| {
        match namespace {
            Some(namespace) => json!({
                "kind": "Role", "metadata": {"name": name, "namespace": namespace}, "rules": rules,
            }),
            None => json!({"kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}),
        }
    })
}

fn subject() -> impl Strategy<Value = Value> {
    (pick(&["User", "Group", "ServiceAccount"]), pick(NAMES), pick(&["", "x", "y"])).prop_map(
        |(kind, name, namespace)| json!({"kind": kind, "name": name, "namespace": namespace}),
    )
}

fn binding() -> impl Strategy<Value = Value> {
    let subjects = prop::collection::vec(subject(), 0..3);
    let namespace = prop::option::of(pick(NAMESPACES));
    (pick(NAMES), namespace, pick(&["Role", "ClusterRole"]), pick(NAMES), subjects).prop_map(
        |(name, namespace, kind, role, subjects)| {
            let mut binding = json!({
                "kind": "ClusterRoleBinding", "metadata": {"name": name},
                "roleRef": {"kind": kind, "name": role}, "subjects": subjects,
            });
            match namespace {
                Some(namespace) => {
                    binding["kind"] = "RoleBinding".into();
                    binding["metadata"]["namespace"] = namespace.into();
                }
                None => binding["roleRef"]["kind"] = "ClusterRole".into(),
            }
            binding
        },
    )
}

fn key(object: &Value) -> String {
    format!("{} {}", object["kind"], object["metadata"])
}

proptest! {
    #[test]
    fn the_index_decides_as_walking_all_objects_does(
        roles in prop::collection::vec(role(), 0..8),
        bindings in prop::collection::vec(binding(), 0..8),
        user in pick(&["a", "b", "system:serviceaccount:x:a", "system:serviceaccount:y:b"]),
        groups in prop::collection::vec(pick(&["a", "b", "system:masters"]), 0..2),
        verb in pick(&["get", "list", "delete"]),
        group in pick(&["", "apps"]),
        resource in pick(&["pods", "nodes"]),
        subresource in pick(&["", "log"]),
        name in pick(&["", "a", "b"]),
        namespace in pick(&["", "x", "y"]),
        path in prop::option::of(pick(&["/a", "/a/b", "/b"])),
    ) {
        let mut objects: Vec<Value> = roles.into_iter().chain(bindings).collect();
        objects.sort_by_key(key);
        objects.dedup_by_key(|object| key(object));
        let user = Identity::new(user, &groups);
        let namespace = if path.is_some() { "" } else { namespace };
        let wanted = Attributes {
            user: &user, verb, group, version: "v1", resource, subresource, name, namespace, path,
        };
        let decision = Rbac::new(&objects).decide(&wanted);
        prop_assert_eq!(decision.allowed, slow_decide(&objects, &wanted), "{:?}", decision);
    }
}

#[test]
fn missing_roles_are_named_in_the_refusal() {
    let binding = |name: &str, kind: &str, role: &str| {
        json!({
            "kind": "RoleBinding", "metadata": {"name": name, "namespace": "auth"},
            "roleRef": {"kind": kind, "name": role},
            "subjects": [{"kind": "User", "name": "dan"}],
        })
    };
    let objects =
        [binding("dangling", "Role", "nope"), binding("dangling2", "ClusterRole", "nope2")];
    let dan = Identity::new("dan", &[]);
    let wanted = Attributes {
        verb: "list",
        resource: "pods",
        namespace: "auth",
        path: None,
        ..Attributes::path(&dan, "", "")
    };
    assert_eq!(
        Rbac::new(&objects).decide(&wanted).reason,
        "RBAC: [role.rbac.authorization.k8s.io \"nope\" not found, clusterrole.rbac.authorization.k8s.io \"nope2\" not found]"
    );
}

#[test]
fn thousands_of_bindings_of_others_cost_nothing() {
    let mut objects = crate::rbac::default_objects();
    for n in 0..5000 {
        objects.push(json!({
            "kind": "RoleBinding",
            "metadata": {"name": format!("b{n}"), "namespace": "team"},
            "roleRef": {"kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "User", "name": format!("user{n}")}],
        }));
    }
    let rbac = Rbac::new(&objects);
    let user = Identity::new("user4000", &["system:authenticated"]);
    let wanted = Attributes {
        verb: "delete",
        resource: "pods",
        namespace: "team",
        path: None,
        ..Attributes::path(&user, "", "")
    };
    let start = Instant::now();
    let rounds = 1000;
    for _ in 0..rounds {
        assert!(!rbac.decide(&wanted).allowed);
    }
    let each = start.elapsed() / rounds;
    // Without the index this is milliseconds; unoptimised and on a busy machine, it is still far
    // below one.
    assert!(each.as_micros() < 500, "a decision took {each:?}");
}
