//! Requests explained as edges route them, and policies tried as they would compile.

use serde_json::json;

use super::super::{ObservedKind, Policy, compile, explain_request, under_policy};
use super::{leaf, member, members, root, service, serving, slice};
use crate::decide::Vantage;
use crate::global::{Backend, Global, PathRule, PathType, Rule, Target};

fn global(host: &str, path: Option<&str>, default: Option<&str>) -> Global {
    let rule = |path: &str| PathRule {
        path: path.to_owned(),
        path_type: PathType::Prefix,
        backend: "rule".to_owned(),
    };
    let backend = |name: &str| Backend { name: name.to_owned(), targets: vec![Target::default()] };
    Global {
        rules: vec![Rule { host: host.to_owned(), paths: path.map(rule).into_iter().collect() }],
        default_backend: default.map(str::to_owned),
        backends: vec![backend("rule"), backend("default")],
        ..Global::default()
    }
}

fn explained(globals: &[(&str, Global)], host: &str, path: &str) -> Option<(String, String)> {
    let globals = globals.iter().map(|(name, global)| (*name, global));
    let found = explain_request(globals, (host, path), &[], &Vantage::default(), |_, _| 0.0)?;
    Some((found.global, found.backend))
}

#[test]
fn a_default_backend_never_hides_a_rule_of_another_root_for_the_same_host() {
    let first = ("ns/a", global("shop.test", Some("/cart"), Some("default")));
    let second = ("ns/b", global("shop.test", Some("/"), None));
    let found = |path| explained(&[first.clone(), second.clone()], "shop.test", path).unwrap();
    assert_eq!(found("/cart"), ("ns/a".to_owned(), "rule".to_owned()));
    assert_eq!(found("/"), ("ns/b".to_owned(), "rule".to_owned()));
}

#[test]
fn of_equal_rules_the_first_by_namespace_and_name_is_explained() {
    // As text, "a-b/web" sorts before "a/web"; as namespace and name it does not.
    let text_first = ("a-b/web", global("shop.test", Some("/"), Some("default")));
    let key_first = ("a/web", global("shop.test", Some("/"), Some("default")));
    let globals = [text_first, key_first];
    assert_eq!(explained(&globals, "shop.test", "/").unwrap().0, "a/web");
    assert_eq!(explained(&globals, "other.test", "/").unwrap(), ("a/web".into(), "default".into()));
}

#[test]
fn a_policy_that_is_tried_gives_the_capacity_that_it_compiles_to() {
    let annotated = json!({"metadata": {"annotations": {"limen.dev/requests-per-endpoint": "40"}}});
    let declared = member(&[
        (ObservedKind::Service, service("web", &annotated)),
        (ObservedKind::Slice, slice("web-1", "web", "IPv4", &["10.0.0.1", "10.0.0.2"])),
        (ObservedKind::Ingress, leaf(Some("192.0.2.9"))),
    ]);
    let all = members([("c1", serving("192.0.2.1", 3)), ("c2", declared)]);
    let policies = [
        json!({}),
        json!({"capacity": {"requestsPerEndpoint": 10.0}}),
        json!({"capacity": {"clusters": {"c1": 7.0}}}),
        json!({"capacity": {"requestsPerEndpoint": 10.0, "clusters": {"c2": 5.0}}}),
    ];
    let policies = policies.map(|spec| serde_json::from_value::<Policy>(spec).unwrap());
    for from in &policies {
        let before = compile(&root(), from, None, &all, None, 0).global.unwrap();
        for to in &policies {
            let expected = compile(&root(), to, None, &all, None, 0).global.unwrap();
            let tried = under_policy(&before, to).unwrap();
            let capacities = |global: &Global| -> Vec<Option<f64>> {
                let targets = global.backends[0].targets.iter();
                targets.map(|target| target.capacity.requests_per_second).collect()
            };
            assert_eq!(capacities(&tried), capacities(&expected), "from {from:?} to {to:?}");
        }
    }
}
