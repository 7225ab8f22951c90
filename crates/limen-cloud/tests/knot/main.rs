//! A real Knot DNS that takes signed updates. It needs the Debian packages `knot` and
//! `knot-dnsutils`.

mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use limen_api::source::{Objects, Within};
use limen_cloud::{Place, PublishError, Rfc2136, Settings, UpdateError, publish_once};
use limen_core::global::{Address, Backend, Global, PathRule, PathType, Rule, Target};
use limen_core::publish::Limits;
use limen_core::publish::Publisher;
use limen_dns_wire::tsig::TsigKey;
use server::{KEY, Knot};

const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

fn settings(owner: &str, lease: i64) -> Settings {
    let (owner, zone) = (owner.to_owned(), "example.com".to_owned());
    let publisher = Publisher { owner, zone, lease, limits: Some(Limits::default()) };
    Settings { publisher, ttl: 30, dry_run: false }
}

fn place(knot: &Knot) -> Place {
    let key = TsigKey::new(KEY, "hmac-sha256", SECRET).unwrap();
    Place::Rfc2136(Rfc2136 { server: knot.address(), key })
}

/// A root whose host leads to clusters of these addresses, ready or not.
fn objects(host: &str, targets: &[(&str, u32)]) -> Objects {
    let target = |(address, ready): &(&str, u32)| Target {
        cluster: format!("at-{address}"),
        addresses: vec![Address { host: (*address).to_owned(), port: 80 }],
        ready_endpoints: Some(*ready),
        ..Target::default()
    };
    let path = PathRule { path: "/".into(), path_type: PathType::Prefix, backend: "web".into() };
    let global = Global {
        rules: vec![Rule { host: host.to_owned(), paths: vec![path] }],
        backends: vec![Backend {
            name: "web".to_owned(),
            targets: targets.iter().map(target).collect(),
        }],
        ..Global::default()
    };
    let key = ("default".to_owned(), "web".to_owned());
    Objects { ingresses: [(key, Arc::new(global))].into(), ..Objects::default() }
}

#[tokio::test]
async fn records_come_change_and_go_and_those_of_others_stay() {
    let knot = Knot::start(SECRET);
    let (place, one) = (place(&knot), settings("one", 300));
    let both = objects("shop.example.com", &[("192.0.2.1", 1), ("192.0.2.2", 1)]);

    let dry = Settings { dry_run: true, ..one.clone() };
    let round = publish_once(&place, &dry, &both).await.unwrap();
    assert_eq!(
        round.changed,
        ["say that one is alive", "shop.example.com leads to 192.0.2.1, 192.0.2.2"]
    );
    assert_eq!(knot.ask("shop.example.com A"), "", "a dry run changes nothing");

    publish_once(&place, &one, &both).await.unwrap();
    assert_eq!(knot.ask("shop.example.com A"), "192.0.2.1\n192.0.2.2\n");
    let mark = "\"heritage=limen,owner=one\"\n";
    assert_eq!(knot.ask("_limen-owner.shop.example.com TXT"), mark);
    let again = publish_once(&place, &one, &both).await.unwrap();
    assert!(again.changed.is_empty(), "{again:?}");

    // A cluster fails; then an alias and an address swap places in one change.
    let failed = objects("shop.example.com", &[("192.0.2.1", 0), ("192.0.2.2", 1)]);
    publish_once(&place, &one, &failed).await.unwrap();
    assert_eq!(knot.ask("shop.example.com A"), "192.0.2.2\n");
    let named = objects("shop.example.com", &[("lb.cloud.test", 1)]);
    publish_once(&place, &one, &named).await.unwrap();
    assert_eq!(knot.ask("shop.example.com CNAME"), "lb.cloud.test.\n");

    // What is in the zone by hand is left alone, and said.
    let theirs = objects("byhand.example.com", &[("192.0.2.1", 1)]);
    let round = publish_once(&place, &one, &theirs).await.unwrap();
    assert!(round.remarks[0].starts_with("byhand.example.com is left alone"), "{round:?}");
    assert_eq!(knot.ask("byhand.example.com A"), "198.51.100.7\n");
    assert_eq!(knot.ask("shop.example.com ANY +noall +answer"), "", "it went with its root");
    assert_eq!(knot.ask("_limen-owner.shop.example.com TXT"), "");
}

#[tokio::test]
async fn what_is_beside_a_name_costs_it_nothing() {
    let knot = Knot::start(SECRET);
    let (place, one) = (place(&knot), settings("one", 300));
    let at = |host: &str| objects("mail.example.com", &[(host, 1)]);
    publish_once(&place, &one, &at("192.0.2.1")).await.unwrap();
    let round = publish_once(&place, &one, &at("lb.cloud.test")).await.unwrap();
    assert!(round.remarks[0].contains("cannot be beside"), "{round:?}");
    assert_eq!(knot.ask("mail.example.com A"), "192.0.2.1\n");
    // Nor does a name go that leads nowhere for a moment.
    let round = publish_once(&place, &one, &objects("mail.example.com", &[])).await.unwrap();
    assert!(round.changed.is_empty() && round.held.is_none(), "{round:?}");
    assert_eq!(knot.ask("mail.example.com A"), "192.0.2.1\n");
    publish_once(&place, &one, &at("192.0.2.2")).await.unwrap();
    assert_eq!(knot.ask("mail.example.com A"), "192.0.2.2\n");
}

#[tokio::test]
async fn a_second_owner_is_refused_until_the_first_is_lost() {
    let knot = Knot::start(SECRET);
    let place = place(&knot);
    let (one, two) = (settings("one", 2), settings("two", 300));
    publish_once(&place, &one, &objects("a.example.com", &[("192.0.2.1", 1)])).await.unwrap();
    let wanted = objects("a.example.com", &[("192.0.2.9", 1)]);
    // It holds for as long as the first owner says that it is alive.
    let lives = settings("one", 300);
    publish_once(&place, &lives, &objects("a.example.com", &[("192.0.2.1", 1)])).await.unwrap();
    let round = publish_once(&place, &two, &wanted).await.unwrap();
    assert!(round.remarks[0].contains("belongs to one"), "{round:?}");
    assert_eq!(knot.ask("a.example.com A"), "192.0.2.1\n");

    // A third owner vanishes: survivors take away what it left.
    let lost = settings("lost", 1);
    publish_once(&place, &lost, &objects("b.example.com", &[("192.0.2.3", 1)])).await.unwrap();
    assert_eq!(knot.ask("b.example.com A"), "192.0.2.3\n");
    let start = Instant::now();
    while !knot.ask("b.example.com A").is_empty() {
        assert!(start.elapsed() < Duration::from_secs(30), "it is never retracted");
        publish_once(&place, &two, &wanted).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(knot.ask("a.example.com A"), "192.0.2.1\n", "and nothing of those who live");
}

#[tokio::test]
async fn a_hub_that_looks_empty_empties_no_zone() {
    let knot = Knot::start(SECRET);
    let (place, one) = (place(&knot), settings("one", 300));
    publish_once(&place, &one, &objects("a.example.com", &[("192.0.2.1", 1)])).await.unwrap();
    let round = publish_once(&place, &one, &Objects::default()).await.unwrap();
    assert!(round.changed.is_empty() && round.held.is_some(), "{round:?}");
    assert_eq!(knot.ask("a.example.com A"), "192.0.2.1\n");
    let allowed = Settings { publisher: Publisher { limits: None, ..one.publisher }, ..one };
    publish_once(&place, &allowed, &Objects::default()).await.unwrap();
    assert_eq!(knot.ask("a.example.com A"), "");
}

#[tokio::test]
async fn a_wrong_secret_is_said() {
    let knot = Knot::start(SECRET);
    let key = TsigKey::new(KEY, "hmac-sha256", "ZmFsc2VmYWxzZWZhbHNlZmFsc2VmYWxzZQ==").unwrap();
    let place = Place::Rfc2136(Rfc2136 { server: knot.address(), key });
    let wanted = objects("a.example.com", &[("192.0.2.1", 1)]);
    let error = publish_once(&place, &settings("one", 60), &wanted).await.unwrap_err();
    let PublishError::Rfc2136(UpdateError::Signature { .. }) = &error else {
        panic!("{error}");
    };
    assert!(error.to_string().contains("BADSIG"), "{error}");
}

#[tokio::test]
async fn the_loop_follows_the_objects_and_outlives_the_server() {
    let mut knot = Knot::start(SECRET);
    let (tell, receive) =
        tokio::sync::watch::channel(objects("shop.example.com", &[("192.0.2.1", 1)]));
    let looping = tokio::spawn(limen_cloud::keep_publishing(
        place(&knot),
        settings("one", 60),
        Within(receive),
    ));
    knot.eventually("shop.example.com A", "192.0.2.1\n").await;
    tell.send_replace(objects("shop.example.com", &[("192.0.2.2", 1)]));
    knot.eventually("shop.example.com A", "192.0.2.2\n").await;
    knot.stop();
    tell.send_replace(objects("shop.example.com", &[("192.0.2.3", 1)]));
    knot.start_again();
    knot.eventually("shop.example.com A", "192.0.2.3\n").await;
    looping.abort();
}
