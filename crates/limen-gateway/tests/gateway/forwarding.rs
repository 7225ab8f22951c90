//! What targets and clients get to see.

use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use limen_core::global::{HeaderMatch, PathRule, PathType, Split, TrafficRules};

use crate::bed::{Answer, Bed, Upstream, answer, global, objects, options, target, with_traffic};

/// Answers with the head it got, one header per line.
async fn mirror(request: Request<Incoming>) -> Answer {
    let mut lines = vec![format!("{} {} {:?}", request.method(), request.uri(), request.version())];
    for (name, value) in request.headers() {
        lines.push(format!("{name}: {}", value.to_str().unwrap()));
    }
    let mut answer = answer(lines.join("\n"));
    answer.headers_mut().insert("connection", "x-private".parse().unwrap());
    answer.headers_mut().insert("x-private", "1".parse().unwrap());
    answer.headers_mut().insert("x-public", "1".parse().unwrap());
    answer
}

#[tokio::test]
async fn targets_learn_who_asked_and_nothing_that_is_for_one_hop() {
    let upstream = Upstream::http(mirror).await;
    let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
    let reply = bed
        .send(
            "GET /x?y=z HTTP/1.1\r\nHost: A.test:80\r\nConnection: close, X-Secret\r\nX-Secret: 1\r\n\
             Keep-Alive: 1\r\nProxy-Connection: x\r\nTE: gzip\r\nX-Forwarded-For: 6.6.6.6\r\n\
             Forwarded: for=6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Request-Id: id-1\r\n\
             traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n",
        )
        .await;
    assert_eq!(reply.status, 200);
    let seen = reply.body.clone();
    for line in [
        "GET /x?y=z HTTP/1.1",
        "host: A.test:80",
        "x-forwarded-for: 127.0.0.1",
        "x-forwarded-proto: http",
        "x-forwarded-host: A.test:80",
        "forwarded: for=127.0.0.1;proto=http;host=\"a.test\"",
        "via: 1.1 edge-1",
        "cdn-loop: edge-1",
        "x-request-id: id-1",
        "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ] {
        assert!(seen.lines().any(|seen| seen == line), "no {line:?} in\n{seen}");
    }
    for name in ["x-secret", "keep-alive", "proxy-connection", "te", "connection", "6.6.6.6"] {
        assert!(!seen.contains(&format!("\n{name}:")), "{name} in\n{seen}");
    }
    assert_eq!(reply.header("x-private"), None);
    assert_eq!(reply.header("x-public"), Some("1"));
    assert_eq!(reply.header("via"), Some("1.1 edge-1"));
}

#[tokio::test]
async fn ids_and_traces_are_started_where_there_are_none() {
    let upstream = Upstream::http(mirror).await;
    let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
    let seen = bed.get("/").await.body;
    let value = |name: &str| {
        let line = seen.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_once(": ").unwrap().1.to_owned()
    };
    assert_eq!(value("x-request-id").len(), 32);
    let trace = value("traceparent");
    assert!(trace.starts_with("00-") && trace.ends_with("-00") && trace.len() == 55, "{trace}");
}

#[tokio::test]
async fn trusted_proxies_are_believed_and_added_to() {
    let upstream = Upstream::http(mirror).await;
    let mut options = options();
    options.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let bed = Bed::with(options, objects([global(vec![target("c", &[upstream.address])])])).await;
    let reply = bed
        .send(
            "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nX-Forwarded-For: 192.0.2.7\r\n\
             X-Forwarded-Proto: https\r\nForwarded: for=192.0.2.7\r\n\r\n",
        )
        .await;
    assert!(reply.body.contains("x-forwarded-for: 192.0.2.7, 127.0.0.1"), "{}", reply.body);
    assert!(reply.body.contains("x-forwarded-proto: https"));
    assert!(reply.body.contains("forwarded: for=192.0.2.7, for=127.0.0.1;"));
}

#[tokio::test]
async fn a_request_that_has_been_here_is_stopped() {
    let upstream = Upstream::named("c").await;
    let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
    let request = |names: &str| {
        format!("GET / HTTP/1.1\r\nHost: a.test\r\nCDN-Loop: {names}\r\nConnection: close\r\n\r\n")
    };
    assert_eq!(bed.send(&request("other, Edge-1; v=1")).await.status, 508);
    assert_eq!(bed.send(&request("other")).await.status, 200);
}

#[tokio::test]
async fn hosts_and_paths_lead_where_the_rules_say() {
    let (one, two) = (Upstream::named("one").await, Upstream::named("two").await);
    let mut first = global(vec![target("c", &[one.address])]);
    first.rules[0].paths.push(PathRule {
        path: "/gone".into(),
        path_type: PathType::Exact,
        backend: "nothing".into(),
    });
    let mut second = global(vec![target("c", &[two.address])]);
    second.rules[0].host = "*.test".into();
    let bed = Bed::with(options(), objects([first, second])).await;
    let ask = async |host: &str, path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        bed.send(&request).await
    };
    assert_eq!(ask("a.test", "/").await.body, "one");
    assert_eq!(ask("b.test", "/").await.body, "two");
    assert_eq!(ask("a.test", "/gone").await.status, 503);
    assert_eq!(ask("a.test", "/gone/x").await.body, "one");
    assert_eq!(ask("test", "/").await.status, 404);
}

#[tokio::test]
async fn one_request_in_ten_goes_to_the_canary_exactly() {
    let (old, new) = (Upstream::named("old").await, Upstream::named("new").await);
    let mut targets = vec![target("c", &[old.address]), target("d", &[new.address])];
    targets[0].group = Some("v1".into());
    targets[1].group = Some("v2".into());
    let split = Split {
        groups: [("v1".to_owned(), 9), ("v2".to_owned(), 1)].into(),
        matches: vec![HeaderMatch {
            cookie: Some("beta".into()),
            group: "v2".into(),
            ..HeaderMatch::default()
        }],
        ..Split::default()
    };
    let traffic = TrafficRules { split: Some(split), ..TrafficRules::default() };
    let bed = Bed::new(with_traffic(global(targets), traffic)).await;
    for _ in 0..40 {
        bed.get("/").await;
    }
    assert_eq!((old.hits(), new.hits()), (36, 4));
    for _ in 0..5 {
        let asked = bed
            .send("GET / HTTP/1.1\r\nHost: a.test\r\nCookie: a=b; beta=1\r\nConnection: close\r\n\r\n")
            .await;
        assert_eq!(asked.body, "new");
    }
}

#[tokio::test]
async fn bodies_and_trailers_pass_both_ways() {
    let upstream = Upstream::http(|request: Request<Incoming>| async move {
        let body = request.into_body().collect().await.unwrap();
        let trailer = body.trailers().and_then(|trailers| trailers.get("x-sum")).cloned();
        let trailer = trailer.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
        answer(format!("{} {trailer}", body.to_bytes().len()))
    })
    .await;
    let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
    let reply = bed
        .send(
            "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\
             Connection: close\r\n\r\n5\r\nhello\r\nA\r\n0123456789\r\n0\r\nx-sum: 15\r\n\r\n",
        )
        .await;
    assert_eq!(reply.body, "15 15");
    let reply = bed
        .send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        .await;
    assert_eq!(reply.body, "5 ");
}
