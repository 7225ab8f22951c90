//! Ways into members, and what stays of them when members go.

use serde_json::json;

use super::super::{Compiled, ObservedKind, Policy, compile};
use super::{digest, leaf, member, members, node, root, service, serving, slice};
use crate::compile::{Member, Touched, generated_host};
use crate::decide::{OwnKnowledge, Readiness, readiness};
use crate::global::{Global, Protocol, Verdict};

fn compiled(all: &super::super::Members, before: Option<&Global>) -> Compiled {
    compile(&root(), &Policy::default(), None, all, before, 100)
}

fn addresses(global: &Global) -> Vec<(String, Vec<String>)> {
    let targets = &global.backends[0].targets;
    let text = |target: &crate::global::Target| {
        target.addresses.iter().map(|to| format!("{}:{}", to.host, to.port)).collect()
    };
    targets.iter().map(|target| (target.cluster.clone(), text(target))).collect()
}

#[test]
fn the_best_way_into_a_member_is_taken() {
    let slices = [slice("web-1", "web", "IPv4", &["10.0.0.1", "10.0.0.2"])];
    let balanced = json!({"spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": [{"hostname": "lb.example"}]}}});
    let ported = json!({"spec": {"type": "NodePort"}});
    let elsewhere = json!({"spec": {"type": "ExternalName", "externalName": "x.example"}});
    let nodes = [node("n1", "192.0.2.1", "True"), node("n2", "192.0.2.2", "False")];
    let ported_leaf = json!({"status": {"loadBalancer": {"ingress": [
        {"ip": "192.0.2.9", "ports": [{"port": 443}, {"port": 8081}]}]}}});
    let mut custom = leaf(None);
    json_patch::merge(&mut custom, &ported_leaf);
    for (what, reachable, service_extra, leaf, expected) in [
        ("pods", true, json!({}), leaf(Some("192.0.2.9")), vec!["10.0.0.1:8080", "10.0.0.2:8080"]),
        ("ingress", false, balanced.clone(), leaf(Some("192.0.2.9")), vec!["192.0.2.9:80"]),
        ("ingress with ports", false, json!({}), custom, vec!["192.0.2.9:8081"]),
        ("load balancer", false, balanced, leaf(None), vec!["lb.example:80"]),
        ("node port", false, ported, leaf(None), vec!["192.0.2.1:30080"]),
        ("external name", false, elsewhere, leaf(None), vec!["x.example:80"]),
    ] {
        let mut objects = vec![
            (ObservedKind::Service, service("web", &service_extra)),
            (ObservedKind::Ingress, leaf),
        ];
        objects.extend(slices.iter().map(|slice| (ObservedKind::Slice, slice.clone())));
        objects.extend(nodes.iter().map(|node| (ObservedKind::Node, node.clone())));
        let mut one = member(&objects);
        one.pods_reachable = reachable;
        let global = compiled(&members([("c1", one)]), None).global.expect(what);
        let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(addresses(&global), [("c1".to_owned(), expected)], "{what}");
    }
}

#[test]
fn a_member_without_a_way_in_is_remarked_upon() {
    let one = member(&[
        (
            ObservedKind::Service,
            service(
                "web",
                &json!({"spec": {"ports": [{"name": "http", "port": 80, "nodePort": null}]}}),
            ),
        ),
        (ObservedKind::Slice, slice("web-1", "web", "IPv4", &["10.0.0.1"])),
        (ObservedKind::Ingress, leaf(None)),
    ]);
    let compiled = compiled(&members([("c1", one)]), None);
    assert_eq!(compiled.global, None);
    assert!(
        compiled.findings[0].contains("cluster c1 has ready endpoints of shop/web and no way in")
    );
}

#[test]
fn a_backend_that_nobody_can_serve_is_remarked_upon_with_what_is_lacking() {
    let without_service = member(&[(ObservedKind::Ingress, leaf(Some("192.0.2.2")))]);
    let ports = json!({"spec": {"ports": [{"name": "other", "port": 8080}]}});
    let without_port = member(&[
        (ObservedKind::Service, service("web", &ports)),
        (ObservedKind::Ingress, leaf(Some("192.0.2.3"))),
    ]);
    let all = [
        ("c1", serving("192.0.2.1", 0)),
        ("c2", without_service),
        ("c3", without_port),
        ("c4", serving("192.0.2.4", 0)),
    ];
    let findings = compiled(&members(all.clone()), None).findings;
    assert_eq!(
        findings,
        ["nobody can serve web:80: no pod of the Service shop/web is ready in c1, c4; \
          the Service shop/web has no such port in c3; there is no Service shop/web in c2"]
    );
    let mut all = members(all);
    all.insert("c5".into(), serving("192.0.2.5", 1));
    assert_eq!(compiled(&all, None).findings, [""; 0], "one that can is enough");
}

#[test]
fn only_members_that_hold_a_leaf_of_this_root_are_targets() {
    let mut other = leaf(Some("192.0.2.2"));
    other["metadata"]["labels"]["limen.dev/root-uid"] = json!("u-2");
    let stranger = member(&[
        (ObservedKind::Service, service("web", &json!({}))),
        (ObservedKind::Slice, slice("web-1", "web", "IPv4", &["10.0.0.1"])),
        (ObservedKind::Ingress, other),
    ]);
    let all = members([("c1", serving("192.0.2.1", 1)), ("c2", stranger)]);
    let global = compiled(&all, None).global.unwrap();
    assert_eq!(addresses(&global).len(), 1);
}

#[test]
fn nothing_is_compiled_before_a_target_is_ready_and_nothing_is_taken_away_after() {
    let empty = members([("c1", serving("192.0.2.1", 0))]);
    assert_eq!(compiled(&empty, None).global, None);
    let ready = members([("c1", serving("192.0.2.1", 2))]);
    let global = compiled(&ready, None).global.unwrap();
    let target = &global.backends[0].targets[0];
    assert_eq!((target.ready_endpoints, target.verdicts.endpoints), (Some(2), Verdict::Healthy));

    let later = compiled(&empty, Some(&global)).global.unwrap();
    assert_eq!(later.backends[0].targets[0].ready_endpoints, Some(0));
    let gone = compiled(&members([]), Some(&global)).global.unwrap();
    assert_eq!(addresses(&gone), addresses(&global), "the last way in stays");
    assert_eq!(gone.backends[0].targets[0].drained_percent, 100);
}

#[test]
fn a_member_that_is_away_keeps_its_targets() {
    let mut all = members([("c1", serving("192.0.2.1", 2)), ("c2", serving("192.0.2.2", 1))]);
    let global = compiled(&all, None).global.unwrap();
    all.get_mut("c1").unwrap().api = Verdict::Unhealthy;
    let away = compile(&root(), &Policy::default(), None, &all, Some(&global), 500).global.unwrap();
    assert_eq!(addresses(&away), addresses(&global));
    let verdicts = &away.backends[0].targets[0].verdicts;
    assert_eq!((verdicts.api, verdicts.observed_at), (Verdict::Unhealthy, Some(100)));
    // A hub that starts while the member is away has not seen anything of it yet.
    let mut unseen = Member::default();
    unseen.api = Verdict::Unhealthy;
    all.insert("c1".into(), unseen);
    let again = compile(&root(), &Policy::default(), None, &all, Some(&away), 900).global.unwrap();
    assert_eq!(again, away);
}

#[test]
fn a_pod_with_two_addresses_counts_once() {
    let mut one = member(&[
        (
            ObservedKind::Service,
            service(
                "web",
                &json!({"metadata": {"annotations": {"limen.dev/requests-per-endpoint": "50"}}}),
            ),
        ),
        (ObservedKind::Slice, slice("web-1", "web", "IPv4", &["10.0.0.1", "10.0.0.2"])),
        (ObservedKind::Slice, slice("web-2", "web", "IPv6", &["fd00::1", "fd00::2"])),
        (ObservedKind::Ingress, leaf(Some("2001:db8::9"))),
    ]);
    one.drained_percent = 20;
    let global = compiled(&members([("c1", one)]), None).global.unwrap();
    let target = &global.backends[0].targets[0];
    assert_eq!((target.ready_endpoints, target.drained_percent), (Some(2), 20));
    assert_eq!(target.capacity.requests_per_second, Some(100.0));
    assert_eq!(target.protocol, Protocol::Http);
    assert_eq!(target.addresses[0].host, "2001:db8::9");
}

#[test]
fn a_root_without_a_host_gets_one_that_is_a_valid_name() {
    let host = generated_host("shop", "web", "u-1", "apps.example");
    assert_eq!(host, generated_host("shop", "web", "u-1", "apps.example"));
    assert_ne!(host, generated_host("shop", "web", "u-2", "apps.example"));
    assert!(host.starts_with("web-shop-") && host.ends_with(".apps.example"), "{host}");
    let long = generated_host(&"n".repeat(63), &"x.".repeat(100), "u", "apps.example");
    assert!(long.split('.').all(|label| label.len() <= 63 && !label.is_empty()), "{long}");
    let mut root = root();
    root.rules[0].host = String::new();
    assert!(root.lacks_host());
    root.under(&host).unwrap();
    assert!(!root.lacks_host() && root.rules[0].host == host);
}

#[test]
fn endpoints_of_a_kind_whose_watch_is_lost_are_stale_and_not_current() {
    let mut lost = serving("192.0.2.1", 2);
    let compiled = |member: &Member, before: Option<&Global>, now: i64| {
        let all = members([("c1", member.clone()), ("c2", serving("192.0.2.2", 2))]);
        compile(&root(), &Policy::default(), None, &all, before, now)
    };
    let first = compiled(&lost, None, 0).global.unwrap();
    for now in [100, 120, 140] {
        lost.lose(ObservedKind::Slice, now);
    }
    let later = compiled(&lost, Some(&first), 140);
    let global = later.global.unwrap();
    let target = &global.backends[0].targets[0];
    assert_eq!(target.verdicts.lost_kind.as_deref(), Some("EndpointSlice"));
    assert_eq!(target.verdicts.endpoints, Verdict::Unknown);
    assert_eq!(target.verdicts.observed_at, Some(0), "the observation is as old as it was");
    assert_eq!(readiness(target, OwnKnowledge::None), Readiness::Stale);
    assert_eq!(readiness(target, OwnKnowledge::Answers), Readiness::Ready);
    assert!(later.findings[0].contains("cluster c1: the watch of EndpointSlice objects fails"));
    assert_eq!(readiness(&global.backends[0].targets[1], OwnKnowledge::None), Readiness::Ready);

    lost.api = Verdict::Unhealthy;
    assert_eq!(lost.stale_kind(), None, "an API that does not answer says more");
    lost.api = Verdict::Healthy;
    let all = [("web-1", vec!["10.0.0.1"])]
        .map(|(name, to)| digest(ObservedKind::Slice, &slice(name, "web", "IPv4", &to)));
    assert_eq!(lost.state(ObservedKind::Slice, all.into()), [Touched::Everything]);
    let again = compiled(&lost, Some(&global), 150).global.unwrap();
    assert_eq!(again.backends[0].targets[0].verdicts.lost_kind, None);
    assert_eq!(again.backends[0].targets[0].ready_endpoints, Some(1));
}

#[test]
fn endpoints_of_an_unreachable_cluster_are_unknown() {
    let mut away = serving("192.0.2.1", 2);
    away.api = Verdict::Unhealthy;
    let all = members([("c1", away)]);
    let global = compile(&root(), &Policy::default(), None, &all, None, 0).global.unwrap();
    assert_eq!(global.backends[0].targets[0].verdicts.endpoints, Verdict::Unknown);
}
