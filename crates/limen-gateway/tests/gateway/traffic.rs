//! Where requests go: weights, failures, drains, residency, limits, mirrors.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::Full;
use limen_core::global::{
    ClientLimit, Global, HealthCheck, Mirror, Protocol, Residency, Split, Target, TrafficRules,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use crate::bed::{
    Bed, Reply, Upstream, eventually, global, objects, options, target, with_traffic,
};
use crate::protocols::h2;

/// v1 in cluster 1 and v2 in cluster 2, with these weights.
fn canary(one: &Upstream, two: &Upstream, weights: [u32; 2]) -> Global {
    let version = |cluster: &str, upstream: &Upstream, group: &str| Target {
        group: Some(group.to_owned()),
        ..target(cluster, &[upstream.address])
    };
    let targets = vec![version("cluster-1", one, "v1"), version("cluster-2", two, "v2")];
    let groups = ["v1", "v2"].map(str::to_owned).into_iter().zip(weights).collect();
    let split = Some(Split { groups, ..Split::default() });
    with_traffic(global(targets), TrafficRules { split, ..TrafficRules::default() })
}

#[tokio::test]
async fn a_canary_across_two_clusters_gets_exactly_its_weight_of_one_domain() {
    let (one, two) = (Upstream::named("v1").await, Upstream::named("v2").await);
    let bed = Bed::new(canary(&one, &two, [90, 10])).await;
    for weights in [[90, 10], [50, 50], [0, 100]] {
        bed.objects.send_replace(objects([canary(&one, &two, weights)]));
        let split = format!("\"v1\": {}", weights[0]);
        let shown = async || bed.admin("/explain?host=a.test").await.body.contains(&split);
        eventually("the new weights are in force", shown).await;
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for _ in 0..200 {
            *counts.entry(bed.get("/").await.body).or_default() += 1;
        }
        let count = |version: &str| counts.get(version).copied().unwrap_or(0);
        assert_eq!([count("v1"), count("v2")], weights.map(|weight| 2 * weight));
    }
}

#[tokio::test]
async fn when_a_whole_cluster_fails_under_load_no_request_does() {
    let (mut near, far) = (Upstream::named("near").await, Upstream::named("far").await);
    let check = HealthCheck {
        interval_milliseconds: 50,
        timeout_milliseconds: 500,
        ..HealthCheck::default()
    };
    let rules = TrafficRules {
        failover: vec!["near".into(), "far".into()],
        health_check: Some(check),
        ..TrafficRules::default()
    };
    let targets = vec![target("near", &[near.address]), target("far", &[far.address])];
    let bed = Arc::new(Bed::new(with_traffic(global(targets), rules)).await);
    eventually("the near cluster serves", async || bed.get("/").await.body == "near").await;
    let stop = Arc::new(AtomicBool::new(false));
    let clients = (0..8).map(|_| {
        let (bed, stop) = (bed.clone(), stop.clone());
        tokio::spawn(async move {
            let mut answers = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                answers.push(bed.get("/").await.status);
            }
            answers
        })
    });
    let clients: Vec<_> = clients.collect();
    let served = far.hits();
    eventually("there is load", async || near.hits() > 200).await;
    near.kill().await;
    eventually("the far cluster has taken over", async || far.hits() > served + 200).await;
    let unhealthy = async || bed.admin("/targets").await.body.contains("\"unhealthy\"");
    eventually("the near cluster is known to be gone", unhealthy).await;
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        let answers = client.await.unwrap();
        assert!(answers.iter().all(|status| *status == 200), "{answers:?}");
    }
    let metrics = bed.admin("/metrics").await.body;
    let failed = |cluster: &str| {
        let line = format!(
            "limen_gateway_failures_total{{ingress=\"test/g0\",backend=\"web\",cluster=\"{cluster}\"}} "
        );
        let found = metrics.lines().find_map(|text| text.strip_prefix(&line));
        found.and_then(|count| count.parse::<u32>().ok()).unwrap_or(0)
    };
    let before = failed("near");
    for _ in 0..50 {
        assert_eq!(bed.get("/").await.body, "far");
    }
    assert_eq!(failed("near"), before, "nobody goes there once it is known to be gone");
}

#[tokio::test]
async fn a_drain_takes_traffic_away_gradually_and_cuts_nothing_off() {
    let (near, far) = (Upstream::named("near").await, Upstream::named("far").await);
    let drained = |percent: u8| {
        let leaving = Target { drained_percent: percent, ..target("near", &[near.address]) };
        let failover = vec!["near".into(), "far".into()];
        let rules = TrafficRules { failover, ..TrafficRules::default() };
        with_traffic(global(vec![leaving, target("far", &[far.address])]), rules)
    };
    let bed = Bed::new(drained(0)).await;
    for (percent, stay) in [(0, 100), (25, 75), (50, 50), (100, 0)] {
        bed.objects.send_replace(objects([drained(percent)]));
        let shown = format!("\"drainedPercent\": {percent},");
        let shown = async || bed.admin("/targets").await.body.contains(&shown);
        eventually("the drain is in force", shown).await;
        let mut near = 0;
        for _ in 0..100 {
            let reply = bed.get("/").await;
            assert_eq!(reply.status, 200);
            near += u32::from(reply.body == "near");
        }
        assert_eq!(near, stay, "with {percent} % drained");
    }
    let leaving = Target { drained_percent: 100, ..target("near", &[near.address]) };
    bed.objects.send_replace(objects([global(vec![leaving])]));
    let last = async || !bed.admin("/targets").await.body.contains("far");
    eventually("only the drained cluster is left", last).await;
    assert_eq!(bed.get("/").await.body, "near", "never empty");
}

/// A request from one of the addresses of loopback.
async fn get_from(bed: &Bed, client: &str) -> Reply {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{client}:0").parse().unwrap()).unwrap();
    let mut stream = socket.connect(bed.http()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut read = Vec::new();
    stream.read_to_end(&mut read).await.unwrap();
    Reply::parse(&read)
}

#[tokio::test]
async fn clients_are_served_only_where_residency_allows() {
    let (europe, america) = (Upstream::named("europe").await, Upstream::named("america").await);
    let place = |cluster: &str, upstream: &Upstream, region: &str| {
        let mut target = target(cluster, &[upstream.address]);
        target.locality.region = Some(region.to_owned());
        target
    };
    let rules = TrafficRules {
        residency: vec![Residency {
            clients: vec!["de".into()],
            allow: vec!["eu-*".into()],
            ..Residency::default()
        }],
        failover: vec!["america".into()],
        ..TrafficRules::default()
    };
    let both = vec![place("europe", &europe, "eu-west"), place("america", &america, "us-east")];
    let mut options = options();
    let table = "networks:\n\
        - { cidr: 127.0.1.0/24, region: eu-central, country: DE }\n\
        - { cidr: 127.0.2.0/24, region: us-east, country: US }\n";
    options.geography = Arc::new(limen_api::parse_networks(table).unwrap());
    let all = objects([with_traffic(global(both.clone()), rules.clone())]);
    let bed = Bed::with(options, all).await;
    for _ in 0..10 {
        assert_eq!(get_from(&bed, "127.0.1.7").await.body, "europe");
        assert_eq!(get_from(&bed, "127.0.2.7").await.body, "america");
        assert_eq!(get_from(&bed, "127.0.0.1").await.body, "america");
    }
    let explained = bed.admin("/explain?host=a.test&client=127.0.1.7").await.body;
    let explained: serde_json::Value = serde_json::from_str(&explained).unwrap();
    let first = &explained["explanation"]["steps"][0];
    assert_eq!((&first["rule"], &first["kept"][0]), (&"residency".into(), &"europe".into()));
    assert_eq!(first["dropped"][0]["cluster"], "america");
    assert_eq!(explained["explanation"]["odds"][0]["share"], 1.0);

    bed.objects.send_replace(objects([with_traffic(global(vec![both[1].clone()]), rules)]));
    let refused = async || get_from(&bed, "127.0.1.7").await.status == 503;
    eventually("nobody may serve clients in Germany", refused).await;
    assert_eq!(get_from(&bed, "127.0.2.7").await.body, "america");
    assert!(get_from(&bed, "127.0.1.7").await.body.contains("may serve this client"));
}

#[tokio::test]
async fn a_client_that_asks_too_often_is_told_when_to_come_back() {
    let upstream = Upstream::named("hello").await;
    let mut root = global(vec![target("berlin", &[upstream.address])]);
    root.client.limit = Some(ClientLimit { requests_per_second: 0.01, burst: Some(3) });
    let bed = Bed::new(root).await;
    for _ in 0..3 {
        assert_eq!(get_from(&bed, "127.0.3.1").await.status, 200);
    }
    let refused = get_from(&bed, "127.0.3.1").await;
    assert_eq!(refused.status, 429);
    let seconds: u32 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=100).contains(&seconds), "{seconds}");
    assert_eq!(get_from(&bed, "127.0.3.2").await.status, 200, "others are not affected");
    assert_eq!(upstream.hits(), 4);
    let metrics = bed.admin("/metrics").await.body;
    assert!(metrics.contains("limen_gateway_limited_requests_total 1\n"));
}

#[tokio::test]
async fn who_asks_is_in_the_last_line_that_a_trusted_proxy_adds() {
    let upstream = Upstream::named("hello").await;
    let mut root = global(vec![target("berlin", &[upstream.address])]);
    root.client.limit = Some(ClientLimit { requests_per_second: 0.001, burst: Some(1) });
    let mut options = options();
    options.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let bed = Bed::with(options, objects([root])).await;
    let ask = async |said: &str, added: &str| {
        let request = format!(
            "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: {said}\r\n\
             X-Forwarded-For: {added}\r\nConnection: close\r\n\r\n"
        );
        bed.send(&request).await.status
    };
    assert_eq!(ask("192.0.2.1", "198.51.100.1").await, 200);
    assert_eq!(ask("192.0.2.2", "198.51.100.1").await, 429, "whatever it says of others");
    assert_eq!(ask("192.0.2.1", "198.51.100.2").await, 200, "nor is anybody else to blame");
}

#[tokio::test]
async fn a_share_of_requests_is_mirrored_and_clients_do_not_notice() {
    let (one, shadow) = (Upstream::named("one").await, Upstream::named("shadow").await);
    let targets = vec![target("one", &[one.address]), target("shadow", &[shadow.address])];
    let rules = TrafficRules {
        split: Some(Split { clusters: BTreeMap::from([("one".into(), 1)]), ..Split::default() }),
        mirror: Some(Mirror { group: None, cluster: Some("shadow".into()), percent: 25 }),
        ..TrafficRules::default()
    };
    let bed = Bed::new(with_traffic(global(targets), rules)).await;
    for _ in 0..40 {
        assert_eq!(bed.get("/").await.body, "one");
    }
    eventually("the mirror has got its share", async || shadow.hits() == 10).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!((one.hits(), shadow.hits()), (40, 10));
}

#[tokio::test]
async fn mirrored_requests_share_connections() {
    let one = Upstream::named("one").await;
    let (seen, mut sees) = tokio::sync::mpsc::unbounded_channel();
    let shadow = Upstream::raw(move |mut stream| {
        let seen = seen.clone();
        async move {
            while stream.read(&mut [0; 4096]).await.is_ok_and(|length| length > 0) {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
                let _ = seen.send(());
            }
        }
    })
    .await;
    let targets = vec![target("one", &[one.address]), target("shadow", &[shadow.address])];
    let rules = TrafficRules {
        split: Some(Split { clusters: BTreeMap::from([("one".into(), 1)]), ..Split::default() }),
        mirror: Some(Mirror { group: None, cluster: Some("shadow".into()), percent: 100 }),
        ..TrafficRules::default()
    };
    let bed = Bed::new(with_traffic(global(targets), rules)).await;
    for _ in 0..20 {
        assert_eq!(bed.get("/").await.body, "one");
        sees.recv().await.unwrap();
    }
    // The next may come before the last has been read to its end.
    assert!(shadow.hits() < 20, "each has a connection of its own");
}

#[tokio::test]
async fn requests_to_targets_that_speak_http2_are_decided_and_counted_once() {
    let (one, two) = (Upstream::named("v1").await, Upstream::named("v2").await);
    let mut root = canary(&one, &two, [9, 1]);
    for target in &mut root.backends[0].targets {
        target.protocol = Protocol::H2c;
    }
    root.client.limit = Some(ClientLimit { requests_per_second: 0.001, burst: Some(20) });
    let bed = Bed::new(root).await;
    let mut client = h2(bed.http()).await;
    for asked in 0..20 {
        // Half of them over HTTP/2, half each over a connection of its own.
        if asked % 2 == 0 {
            assert_eq!(bed.get("/").await.status, 200, "{asked}");
        } else {
            let request = http::Request::get("http://a.test/").body(Full::default()).unwrap();
            let response = client.send_request(request).await.unwrap();
            assert_eq!(response.status(), 200, "{asked}");
        }
    }
    assert_eq!(bed.get("/").await.status, 429);
    assert_eq!((one.hits(), two.hits()), (18, 2));
}
