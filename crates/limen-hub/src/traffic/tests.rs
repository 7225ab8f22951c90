//! Which root has which host.

use limen_api::dialect::identity;
use limen_core::compile::Claim;
use limen_core::leaf::ROOT_LABEL;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::effects::host_verification::Looked;
use crate::hub_kind::HubKind;

const HOST: &str = "shop.test";

fn traffic() -> Traffic {
    Traffic::new(None, None)
}

/// An Ingress `web` of a namespace; "shop" has the older one.
fn ingress(namespace: &str, hosts: &[&str]) -> Value {
    let year = if namespace == "shop" { 2025 } else { 2026 };
    let rule = |host: &&str| {
        json!({"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}})
    };
    json!({"metadata": {"name": "web", "namespace": namespace, "uid": namespace,
            "creationTimestamp": format!("{year}-01-01T00:00:00Z")},
        "spec": {"rules": hosts.iter().map(rule).collect::<Vec<_>>()}})
}

/// What the Ingress of a namespace compiled to.
fn global(namespace: &str) -> Value {
    json!({"metadata": {"name": "web", "namespace": namespace, "uid": "g",
            "labels": {ROOT_LABEL: namespace}},
        "spec": {"rules": [{"host": HOST, "paths": []}]}})
}

/// An object of a kind comes, changes or goes.
enum Event {
    Changed(Value),
    Gone(Value),
}

fn apply(traffic: &mut Traffic, kind: &str, event: Event) {
    let (group, plural) = match kind {
        "Ingress" => ("networking.k8s.io/v1", "ingresses"),
        _ => ("limen.dev/v1alpha1", "globalingresses"),
    };
    let kind = limen_api::kind((group, kind, plural, true));
    let meaning = HubKind::of(&kind);
    match event {
        Event::Changed(object) => {
            let id = identity(&object, &kind);
            traffic.changed(meaning, &id, &Arc::new(object));
        }
        Event::Gone(object) => traffic.gone(meaning, &identity(&object, &kind)),
    }
}

/// The hosts that the Ingress of a namespace gets.
fn gets(traffic: &Traffic, namespace: &str) -> Vec<String> {
    let id = RootKind::Ingress.object(namespace, "web");
    let Some(root) = traffic.roots[&id].claimed() else { return Vec::new() };
    let standing = |claim: &Claim, host: &str| traffic.standing(claim, host);
    let (granted, _) = traffic.claims.granted(root, standing);
    granted.into_iter().map(|rule| rule.host).collect()
}

#[tokio::test]
async fn what_is_not_understood_any_more_keeps_what_it_serves() {
    let good = || ingress("shop", &[HOST]);
    let bad = || ingress("shop", &[HOST, "a..b"]);
    let other = || ingress("other", &[HOST]);
    let mut changed = traffic();
    apply(&mut changed, "GlobalIngress", Event::Changed(global("shop")));
    apply(&mut changed, "Ingress", Event::Changed(good()));
    apply(&mut changed, "Ingress", Event::Changed(other()));
    apply(&mut changed, "Ingress", Event::Changed(bad()));
    // Of hubs that start anew, whatever they read first.
    let mut early = traffic();
    apply(&mut early, "GlobalIngress", Event::Changed(global("shop")));
    apply(&mut early, "Ingress", Event::Changed(bad()));
    apply(&mut early, "Ingress", Event::Changed(other()));
    let mut late = traffic();
    apply(&mut late, "Ingress", Event::Changed(bad()));
    apply(&mut late, "Ingress", Event::Changed(other()));
    apply(&mut late, "GlobalIngress", Event::Changed(global("shop")));
    for mut traffic in [changed, early, late] {
        assert_eq!(gets(&traffic, "shop"), [HOST]);
        assert_eq!(gets(&traffic, "other"), [""; 0]);
        apply(&mut traffic, "GlobalIngress", Event::Gone(global("shop")));
        assert_eq!(gets(&traffic, "other"), [HOST], "nobody serves it");
        apply(&mut traffic, "Ingress", Event::Changed(good()));
        assert_eq!(gets(&traffic, "other"), [""; 0], "it is understood again");
        apply(&mut traffic, "Ingress", Event::Gone(good()));
        assert_eq!(gets(&traffic, "other"), [HOST]);
    }
}

#[tokio::test]
async fn what_is_served_is_nobody_elses_before_its_proof_has_been_looked_for() {
    let mut traffic = traffic();
    let resolver = ([127, 0, 0, 1], 1).into();
    let verification = HostVerification::new("hub".to_owned(), resolver, None, mpsc::channel(1).0);
    let proof = |namespace: &str| verification.proofs.proof(namespace, HOST).unwrap();
    let (of_shop, of_other) = (proof("shop"), proof("other"));
    traffic.verification = Some(verification);
    for namespace in ["shop", "other"] {
        apply(&mut traffic, "Ingress", Event::Changed(ingress(namespace, &[HOST])));
    }
    apply(&mut traffic, "GlobalIngress", Event::Changed(global("shop")));

    traffic.looked(Looked { proof: of_other, found: true });
    assert_eq!((gets(&traffic, "shop").len(), gets(&traffic, "other").len()), (1, 0));
    traffic.looked(Looked { proof: of_shop.clone(), found: false });
    assert_eq!((gets(&traffic, "shop").len(), gets(&traffic, "other").len()), (0, 1));
    traffic.looked(Looked { proof: of_shop, found: true });
    assert_eq!((gets(&traffic, "shop").len(), gets(&traffic, "other").len()), (1, 0));
}
