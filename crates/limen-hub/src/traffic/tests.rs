//! What the task does by itself: when it wakes, and who has which host.

use limen_core::compile::Claim;
use limen_core::leaf::ROOT_LABEL;
use serde_json::{Value, json};

use super::proving::Looked;
use super::*;

const HOST: &str = "shop.test";

fn world() -> World {
    let config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
    let api = ObjectApi::new(kube::Client::try_from(config).unwrap());
    World::new(TrafficOptions::new(api), watch::channel(Arc::default()).0)
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

fn see(world: &mut World, kind: &str, seen: Seen) {
    let kind = news::kinds().iter().find(|known| known.kind == kind).unwrap();
    world.see(kind, seen);
}

/// The hosts that the Ingress of a namespace gets.
fn gets(world: &World, namespace: &str) -> Vec<String> {
    let (namespace, name) = (namespace.to_owned(), "web".to_owned());
    let id = RootId { kind: RootKind::Ingress, namespace, name };
    let Some(root) = world.roots[&id].claimed() else { return Vec::new() };
    let standing = |claim: &Claim, host: &str| world.standing(claim, host);
    let (granted, _) = world.claims.granted(root, standing);
    granted.into_iter().map(|rule| rule.host).collect()
}

#[tokio::test]
async fn what_cannot_be_begun_is_not_looked_at_again_and_again() {
    let mut world = world();
    let waits = |world: &World, complete, room| {
        let before = Instant::now();
        world.next_look(complete, room) >= before + TICK
    };
    let record = Record::Policy(("shop".to_owned(), "web".to_owned()));
    world.records.push_later(record, Instant::now());
    assert!(!waits(&world, true, true), "a record is due");
    assert!(waits(&world, true, false), "and no write can begin");
    assert!(waits(&world, false, true), "or nothing is known yet");
    let (kind, name) = (RootKind::Ingress, "web".to_owned());
    world.dirty.insert(RootId { kind, namespace: "shop".to_owned(), name });
    assert!(!waits(&world, true, false), "a root can always be compiled");
    assert!(waits(&world, false, true), "if everything is known");
}

#[tokio::test]
async fn what_is_not_understood_any_more_keeps_what_it_serves() {
    let good = || ingress("shop", &[HOST]);
    let bad = || ingress("shop", &[HOST, "a..b"]);
    let other = || ingress("other", &[HOST]);
    let mut changed = world();
    see(&mut changed, "GlobalIngress", Seen::State(vec![global("shop")], String::new()));
    see(&mut changed, "Ingress", Seen::State(vec![good(), other()], String::new()));
    see(&mut changed, "Ingress", Seen::Changed(bad()));
    // Of hubs that start anew, whatever they read first.
    let mut early = world();
    see(&mut early, "GlobalIngress", Seen::State(vec![global("shop")], String::new()));
    see(&mut early, "Ingress", Seen::State(vec![bad(), other()], String::new()));
    let mut late = world();
    see(&mut late, "Ingress", Seen::State(vec![bad(), other()], String::new()));
    see(&mut late, "GlobalIngress", Seen::State(vec![global("shop")], String::new()));
    for mut world in [changed, early, late] {
        assert_eq!(gets(&world, "shop"), [HOST]);
        assert_eq!(gets(&world, "other"), [""; 0]);
        see(&mut world, "GlobalIngress", Seen::Gone(global("shop")));
        assert_eq!(gets(&world, "other"), [HOST], "nobody serves it");
        see(&mut world, "Ingress", Seen::Changed(good()));
        assert_eq!(gets(&world, "other"), [""; 0], "it is understood again");
        see(&mut world, "Ingress", Seen::Gone(good()));
        assert_eq!(gets(&world, "other"), [HOST]);
    }
}

#[tokio::test]
async fn what_is_served_is_nobody_elses_before_its_proof_has_been_looked_for() {
    let mut world = world();
    let how = VerifyHosts { hub: "hub".to_owned(), resolver: ([127, 0, 0, 1], 1).into() };
    let proving = Proving::new(&how, None, mpsc::channel(1).0);
    let proof = |namespace: &str| proving.proofs.proof(namespace, HOST).unwrap();
    let (of_shop, of_other) = (proof("shop"), proof("other"));
    world.proving = Some(proving);
    let both = vec![ingress("shop", &[HOST]), ingress("other", &[HOST])];
    see(&mut world, "Ingress", Seen::State(both, String::new()));
    see(&mut world, "GlobalIngress", Seen::State(vec![global("shop")], String::new()));

    world.looked(Looked { proof: of_other, found: true });
    assert_eq!((gets(&world, "shop").len(), gets(&world, "other").len()), (1, 0));
    world.looked(Looked { proof: of_shop.clone(), found: false });
    assert_eq!((gets(&world, "shop").len(), gets(&world, "other").len()), (0, 1));
    world.looked(Looked { proof: of_shop, found: true });
    assert_eq!((gets(&world, "shop").len(), gets(&world, "other").len()), (1, 0));
}
