//! `DNSEndpoint` objects on an API server in this process, which has never heard of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Api;
use kube::api::{
    ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use limen_api::source::Objects;
use limen_cloud::{DnsEndpoints, Place, Round, Settings, publish_once};
use limen_core::global::{Address, Backend, Global, PathRule, PathType, Rule, Target};
use limen_core::publish::Limits;
use limen_core::publish::Publisher;
use limen_testbed::ApiServer;

fn objects(hosts: &[(&str, &[&str])]) -> Objects {
    let global = |(host, addresses): &(&str, &[&str])| {
        let path =
            PathRule { path: "/".into(), path_type: PathType::Prefix, backend: "web".into() };
        let target = |address: &&str| Target {
            cluster: format!("at-{address}"),
            addresses: vec![Address { host: (*address).to_owned(), port: 80 }],
            ready_endpoints: Some(1),
            ..Target::default()
        };
        Global {
            rules: vec![Rule { host: (*host).to_owned(), paths: vec![path] }],
            backends: vec![Backend {
                name: "web".to_owned(),
                targets: addresses.iter().map(target).collect(),
            }],
            ..Global::default()
        }
    };
    let keyed = hosts
        .iter()
        .map(|host| (("default".to_owned(), host.0.to_owned()), Arc::new(global(host))));
    Objects { ingresses: keyed.collect(), ..Objects::default() }
}

async fn publish(place: &Place, owner: &str, objects: &Objects) -> Round {
    publish_within(place, owner, objects, None).await
}

async fn publish_within(
    place: &Place,
    owner: &str,
    objects: &Objects,
    limits: Option<Limits>,
) -> Round {
    let publisher =
        Publisher { owner: owner.into(), zone: "example.com".into(), lease: 60, limits };
    let settings = Settings { publisher, ttl: 30, dry_run: false };
    let start = Instant::now();
    // A kind is served a moment after it is defined.
    loop {
        match publish_once(place, &settings, objects).await {
            Ok(round) if round.failed.is_empty() => return round,
            failed => assert!(start.elapsed() < Duration::from_secs(60), "{failed:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn endpoints(api: &Api<DynamicObject>) -> Vec<String> {
    let mut found = Vec::new();
    for object in api.list(&ListParams::default()).await.unwrap() {
        for endpoint in object.data["spec"]["endpoints"].as_array().unwrap() {
            let text = |field: &str| endpoint[field].as_str().unwrap_or_default().to_owned();
            let name = object.metadata.name.as_deref().unwrap_or_default();
            found.push(format!(
                "{name}: {} {} {} {}",
                text("dnsName"),
                endpoint["recordTTL"],
                text("recordType"),
                endpoint["targets"]
            ));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_are_written_changed_and_removed() {
    let mut server = ApiServer::start().await;
    let client = server.client.clone();
    let place =
        Place::DnsEndpoints(DnsEndpoints { client: client.clone(), namespace: "default".into() });
    let kind = GroupVersionKind::gvk("externaldns.k8s.io", "v1alpha1", "DNSEndpoint");
    let resource = ApiResource::from_gvk_with_plural(&kind, "dnsendpoints");
    let api: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);

    let first = objects(&[
        ("shop.example.com", &["192.0.2.1", "2001:db8::1"]),
        ("*.example.com", &["lb.cloud.test"]),
        ("shop.example.org", &["192.0.2.9"]),
    ]);
    publish(&place, "one", &first).await;
    assert_eq!(
        endpoints(&api).await,
        [
            "limen-wildcard.example.com: *.example.com 30 CNAME [\"lb.cloud.test\"]",
            "limen.shop.example.com: shop.example.com 30 A [\"192.0.2.1\"]",
            "limen.shop.example.com: shop.example.com 30 AAAA [\"2001:db8::1\"]",
        ]
    );
    assert!(publish(&place, "one", &first).await.changed.is_empty(), "nothing is written twice");

    // A host whose cluster has no address for a moment, as when its load balancer is replaced.
    let nowhere = objects(&[("shop.example.com", &[]), ("*.example.com", &["lb.cloud.test"])]);
    let round = publish(&place, "one", &nowhere).await;
    assert_eq!((round.changed.len(), endpoints(&api).await.len()), (0, 3), "{round:?}");
    assert!(round.remarks[0].starts_with("shop.example.com: no cluster has a way in"), "{round:?}");

    // Another owner's objects are left alone, and its own host is its own.
    let second =
        objects(&[("shop.example.com", &["192.0.2.2"]), ("b.example.com", &["192.0.2.3"])]);
    let round = publish(&place, "two", &second).await;
    assert!(round.remarks[0].starts_with("shop.example.com is left alone"), "{round:?}");

    publish(&place, "one", &objects(&[("shop.example.com", &["192.0.2.2"])])).await;
    assert_eq!(
        endpoints(&api).await,
        [
            "limen.b.example.com: b.example.com 30 A [\"192.0.2.3\"]",
            "limen.shop.example.com: shop.example.com 30 A [\"192.0.2.2\"]",
        ]
    );

    // A hub that looks empty takes nothing away unless it may.
    let guarded = publish_within(&place, "one", &objects(&[]), Some(Limits::default())).await;
    assert!(guarded.changed.is_empty(), "{guarded:?}");
    let held = guarded.held.unwrap().to_string();
    assert_eq!(held, "nothing is to be published any more, and 1 names would be retracted");
    assert_eq!(endpoints(&api).await.len(), 2);

    // Whoever wrote an object by hand keeps it.
    let by_hand = serde_json::from_value(serde_json::json!({
        "apiVersion": "externaldns.k8s.io/v1alpha1", "kind": "DNSEndpoint",
        "metadata": {"name": "by-hand"}, "spec": {"endpoints": []}}))
    .unwrap();
    api.create(&PostParams::default(), &by_hand).await.unwrap();
    publish(&place, "one", &objects(&[])).await;
    publish(&place, "two", &objects(&[])).await;
    let left = api.list(&ListParams::default()).await.unwrap();
    let left: Vec<_> = left.iter().filter_map(|object| object.metadata.name.clone()).collect();
    assert_eq!(left, ["by-hand"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_is_refused_keeps_no_other_from_being_written() {
    let mut server = ApiServer::start().await;
    let client = server.client.clone();
    let place =
        Place::DnsEndpoints(DnsEndpoints { client: client.clone(), namespace: "default".into() });
    let kind = GroupVersionKind::gvk("externaldns.k8s.io", "v1alpha1", "DNSEndpoint");
    let resource = ApiResource::from_gvk_with_plural(&kind, "dnsendpoints");
    let api: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);
    publish(&place, "one", &objects(&[("old.example.com", &["192.0.2.1"])])).await;

    // A name that DNS allows and Kubernetes does not.
    let wanted = objects(&[("a_b.example.com", &["192.0.2.1"]), ("b.example.com", &["192.0.2.1"])]);
    let publisher = Publisher {
        owner: "one".into(),
        zone: "example.com".into(),
        lease: 60,
        limits: Some(Limits::default()),
    };
    let settings = Settings { publisher, ttl: 30, dry_run: false };
    let round = publish_once(&place, &settings, &wanted).await.unwrap();
    assert_eq!(round.failed.len(), 1, "{round:?}");
    assert!(round.failed[0].contains("limen.a_b.example.com"), "{round:?}");
    let written = ["limen.b.example.com: b.example.com 30 A [\"192.0.2.1\"]"];
    assert_eq!(endpoints(&api).await, written, "one is written, and the old one is gone");

    // Whoever else changes an object of ours is overruled.
    let other = serde_json::json!({
        "apiVersion": "externaldns.k8s.io/v1alpha1", "kind": "DNSEndpoint",
        "metadata": {"name": "limen.b.example.com"}, "spec": {"endpoints": []}});
    let how = PatchParams::apply("somebody").force();
    api.patch("limen.b.example.com", &how, &Patch::Apply(&other)).await.unwrap();
    let ours = objects(&[("b.example.com", &["192.0.2.1"])]);
    let round = publish_once(&place, &settings, &ours).await.unwrap();
    assert!(round.failed.is_empty(), "{round:?}");
    assert_eq!(endpoints(&api).await, written);
    server.stop().await;
}
