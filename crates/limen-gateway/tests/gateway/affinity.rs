//! Clients that keep to their targets and versions.

use std::collections::{BTreeMap, BTreeSet};

use limen_core::global::{Affinity, Split, Target, TrafficRules};

use crate::bed::{Bed, Reply, Upstream, eventually, global, objects, target, with_traffic};

async fn get_with(bed: &Bed, header: &str) -> Reply {
    let request =
        format!("GET / HTTP/1.1\r\nHost: a.test\r\n{header}\r\nConnection: close\r\n\r\n");
    bed.send(&request).await
}

fn cookie(reply: &Reply) -> Option<String> {
    let set = reply.header("set-cookie")?;
    Some(format!("Cookie: {}", set.split(';').next()?))
}

#[tokio::test]
async fn a_cookie_keeps_a_client_with_its_cluster_and_address() {
    let upstreams = [
        Upstream::named("a").await,
        Upstream::named("b").await,
        Upstream::named("c").await,
        Upstream::named("d").await,
    ];
    let pair =
        |name, from: usize| target(name, &[upstreams[from].address, upstreams[from + 1].address]);
    let affinity = Affinity { cookie: Some("seat".into()), ..Affinity::default() };
    let rules = TrafficRules { affinity: Some(affinity), ..TrafficRules::default() };
    let root = with_traffic(global(vec![pair("one", 0), pair("two", 2)]), rules);
    let bed = Bed::new(root.clone()).await;
    let mut seen = BTreeSet::new();
    let mut clients = Vec::new();
    for _ in 0..30 {
        let first = bed.get("/").await;
        let cookie = cookie(&first).unwrap();
        for _ in 0..5 {
            let again = get_with(&bed, &cookie).await;
            assert_eq!(again.body, first.body);
            assert_eq!(again.header("set-cookie"), None, "it has what it needs");
        }
        seen.insert(first.body.clone());
        clients.push((cookie, first.body));
    }
    assert_eq!(seen.len(), 4, "clients are spread over all addresses");

    let mut less = root;
    less.backends[0].targets.remove(1);
    bed.objects.send_replace(objects([less]));
    let gone = async || !bed.admin("/targets").await.body.contains("\"two\"");
    eventually("the second cluster is gone", gone).await;
    for (cookie, was) in &clients {
        let now = get_with(&bed, cookie).await;
        assert_eq!(now.status, 200);
        if ["a", "b"].contains(&was.as_str()) {
            assert_eq!(now.body, *was, "only clients of the lost cluster move");
        }
    }
}

#[tokio::test]
async fn a_header_keeps_a_client_with_its_cluster() {
    let upstreams = [Upstream::named("a").await, Upstream::named("b").await];
    let targets = vec![target("a", &[upstreams[0].address]), target("b", &[upstreams[1].address])];
    let affinity = Affinity { header: Some("x-user".into()), ..Affinity::default() };
    let rules = TrafficRules { affinity: Some(affinity), ..TrafficRules::default() };
    let bed = Bed::new(with_traffic(global(targets), rules)).await;
    let mut seen = BTreeSet::new();
    for user in 0..20 {
        let user = format!("X-User: {user}");
        let first = get_with(&bed, &user).await.body;
        for _ in 0..3 {
            assert_eq!(get_with(&bed, &user).await.body, first);
        }
        seen.insert(first);
    }
    assert_eq!(seen.len(), 2);
}

#[tokio::test]
async fn a_sticky_split_keeps_a_client_with_its_version_until_that_has_no_weight() {
    let upstreams = [Upstream::named("v1").await, Upstream::named("v2").await];
    let root = |weights: [u32; 2]| {
        let version = |index: usize, group: &str| Target {
            group: Some(group.to_owned()),
            ..target(group, &[upstreams[index].address])
        };
        let groups: BTreeMap<String, u32> =
            ["v1", "v2"].map(str::to_owned).into_iter().zip(weights).collect();
        let split = Some(Split { groups, sticky: true, ..Split::default() });
        let rules = TrafficRules { split, ..TrafficRules::default() };
        with_traffic(global(vec![version(0, "v1"), version(1, "v2")]), rules)
    };
    let bed = Bed::new(root([50, 50])).await;
    let mut counts = [0; 2];
    let mut old = Vec::new();
    for _ in 0..10 {
        let first = bed.get("/").await;
        let cookie = cookie(&first).unwrap();
        for _ in 0..4 {
            assert_eq!(get_with(&bed, &cookie).await.body, first.body);
        }
        counts[usize::from(first.body == "v2")] += 1;
        old.push(cookie);
    }
    assert_eq!(counts, [5, 5], "new clients are divided by weight");
    bed.objects.send_replace(objects([root([0, 100])]));
    let shown = async || bed.admin("/explain?host=a.test").await.body.contains("\"v1\": 0");
    eventually("all weight is on the second version", shown).await;
    for cookie in old {
        assert_eq!(get_with(&bed, &cookie).await.body, "v2");
    }
}
