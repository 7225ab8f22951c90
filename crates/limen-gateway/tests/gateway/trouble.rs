//! Targets that are killed, hang, reset, answer garbage: no request that may be retried fails, and
//! none reaches two targets unless it may.

use std::time::Duration;

use futures::StreamExt;
use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use limen_core::global::{HealthCheck, HealthCheckKind, Outliers, Retries, Timeouts, TrafficRules};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::bed::{Bed, Upstream, answer, eventually, global, target, with_traffic};

const POST: &str =
    "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

/// Reads a head and closes.
async fn resets() -> Upstream {
    Upstream::raw(|mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
    })
    .await
}

#[tokio::test]
async fn no_request_fails_when_a_target_is_killed() {
    let mut upstreams =
        [Upstream::named("a").await, Upstream::named("b").await, Upstream::named("c").await];
    let targets = [("a", 0), ("b", 1), ("c", 2)];
    let targets = targets.map(|(name, index)| target(name, &[upstreams[index].address]));
    let bed = Bed::new(global(targets.to_vec())).await;
    for _ in 0..12 {
        assert_eq!(bed.get("/").await.status, 200);
    }
    upstreams[1].kill().await;
    for index in 0..60 {
        let reply = if index % 3 == 0 { bed.send(POST).await } else { bed.get("/").await };
        assert_eq!(reply.status, 200, "{reply:?}");
    }
}

#[tokio::test]
async fn what_may_be_repeated_is_repeated_elsewhere_and_nothing_else_is() {
    let (bad, good) = (resets().await, Upstream::named("good").await);
    let targets = vec![target("bad", &[bad.address]), target("good", &[good.address])];
    let failover = vec!["bad".to_owned(), "good".to_owned()];
    let outliers = Some(Outliers { consecutive_failures: 1000, ..Outliers::default() });
    let traffic = TrafficRules { failover, outliers, ..TrafficRules::default() };
    let bed = Bed::new(with_traffic(global(targets), traffic)).await;
    assert_eq!(bed.get("/").await.body, "good");
    assert_eq!(good.hits(), 1);
    // The target may have acted on it: it must not reach another one.
    assert_eq!(bed.send(POST).await.status, 502);
    assert_eq!(good.hits(), 1);
    // Idempotent, but the body is gone.
    assert_eq!(bed.send(&POST.replace("POST", "PUT")).await.status, 502);
    assert_eq!(good.hits(), 1);
    let delete = "DELETE / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
    assert_eq!(bed.send(delete).await.body, "good");
}

#[tokio::test]
async fn answers_that_say_come_back_are_retried_for_safe_requests() {
    let busy = Upstream::http(|_| async {
        let mut busy = answer("busy");
        *busy.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
        busy
    })
    .await;
    let good = Upstream::named("good").await;
    let targets = vec![target("busy", &[busy.address]), target("good", &[good.address])];
    let failover = vec!["busy".to_owned(), "good".to_owned()];
    let outliers = Some(Outliers { consecutive_failures: 1000, ..Outliers::default() });
    let rules = TrafficRules { failover, outliers, ..TrafficRules::default() };
    let bed = Bed::new(with_traffic(global(targets.clone()), rules.clone())).await;
    assert_eq!(bed.get("/").await.body, "good");
    assert_eq!(bed.send(POST).await.body, "busy");

    let retries = Some(Retries { attempts: 0, ..Retries::default() });
    let rules = TrafficRules { retries, ..rules };
    let bed = Bed::new(with_traffic(global(targets), rules)).await;
    assert_eq!(bed.get("/").await.status, 503);
}

#[tokio::test]
async fn a_target_that_hangs_is_given_up_and_another_asked() {
    let hangs = Upstream::raw(|mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        std::future::pending::<()>().await;
    })
    .await;
    let good = Upstream::named("good").await;
    let targets = vec![target("hangs", &[hangs.address]), target("good", &[good.address])];
    let rules = TrafficRules {
        failover: vec!["hangs".to_owned(), "good".to_owned()],
        timeouts: Some(Timeouts { response_milliseconds: 100, ..Timeouts::default() }),
        ..TrafficRules::default()
    };
    let bed = Bed::new(with_traffic(global(targets), rules)).await;
    assert_eq!(bed.get("/").await.body, "good");
    assert_eq!(bed.send(POST).await.status, 504);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_seen_to_break_off() {
    let breaks = Upstream::raw(|mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").await;
    })
    .await;
    let bed = Bed::new(global(vec![target("c", &[breaks.address])])).await;
    let reply = bed.get("/").await;
    assert_eq!((reply.status, reply.body.as_str()), (200, "half"));
    assert_eq!(reply.header("content-length"), Some("100"));

    let breaks = Upstream::raw(|mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n";
        let _ = stream.write_all(head.as_bytes()).await;
    })
    .await;
    let bed = Bed::new(global(vec![target("c", &[breaks.address])])).await;
    let reply = bed.get("/").await;
    assert!(!reply.body.ends_with("0\r\n\r\n"), "{reply:?}");
}

#[tokio::test]
async fn garbage_is_no_answer() {
    for garbage in [
        &b"\x16\x03\x01garbage\r\n\r\n"[..],
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"",
    ] {
        let upstream = Upstream::raw(move |mut stream| async move {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(garbage).await;
        })
        .await;
        let bed = Bed::new(global(vec![target("c", &[upstream.address])])).await;
        assert_eq!(bed.get("/").await.status, 502, "{garbage:?}");
    }
}

#[tokio::test]
async fn probes_find_out_that_a_target_is_gone_and_back() {
    let well = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let state = well.clone();
    let first = Upstream::http(move |_| {
        let well = state.load(std::sync::atomic::Ordering::Relaxed);
        async move {
            let mut reply = answer("first");
            if !well {
                *reply.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
            }
            reply
        }
    })
    .await;
    let second = Upstream::named("second").await;
    let check = HealthCheck {
        kind: HealthCheckKind::Http,
        interval_milliseconds: 20,
        ..HealthCheck::default()
    };
    let rules = TrafficRules {
        failover: vec!["first".to_owned(), "second".to_owned()],
        health_check: Some(check),
        ..TrafficRules::default()
    };
    let targets = vec![target("first", &[first.address]), target("second", &[second.address])];
    let bed = Bed::new(with_traffic(global(targets), rules)).await;
    eventually("the first is asked", async || bed.get("/").await.body == "first").await;
    well.store(false, std::sync::atomic::Ordering::Relaxed);
    eventually("the second is asked", async || bed.get("/").await.body == "second").await;
    let targets = bed.admin("/targets").await.body;
    assert!(targets.contains("Unhealthy") && targets.contains("answered 500"), "{targets}");
    well.store(true, std::sync::atomic::Ordering::Relaxed);
    eventually("the first is asked again", async || bed.get("/").await.body == "first").await;
}

#[tokio::test]
async fn an_address_that_keeps_failing_is_left_alone_and_nothing_is_never_the_answer() {
    let (bad, good) = (resets().await, Upstream::named("good").await);
    let rules = TrafficRules {
        outliers: Some(Outliers {
            consecutive_failures: 2,
            eject_seconds: 60,
            ..Outliers::default()
        }),
        ..TrafficRules::default()
    };
    let targets = vec![target("c", &[bad.address, good.address])];
    let bed = Bed::new(with_traffic(global(targets), rules)).await;
    for _ in 0..40 {
        assert_eq!(bed.get("/").await.body, "good");
    }
    assert_eq!(bad.hits(), 2, "it is left alone after two failures");

    let mut drained = target("c", &[good.address]);
    drained.drained_percent = 100;
    let bed = Bed::new(global(vec![drained])).await;
    assert_eq!(bed.get("/").await.body, "good");
    let metrics = bed.admin("/metrics").await.body;
    assert!(metrics.contains("limen_gateway_fallbacks_total"), "{metrics}");
    assert!(metrics.contains("readiness=\"draining\"} 1"), "{metrics}");
}

#[tokio::test]
async fn an_ejected_address_is_back_when_it_is_seen_to_be_well() {
    let check = HealthCheck { interval_milliseconds: 20, ..HealthCheck::default() };
    for health_check in [None, Some(check)] {
        let second = Upstream::named("second").await;
        // A socket that has its address and does not listen yet.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        let rules = TrafficRules {
            failover: vec!["first".to_owned()],
            outliers: Some(Outliers {
                consecutive_failures: 1,
                eject_seconds: 3600,
                max_ejected_percent: 100,
            }),
            health_check,
            ..TrafficRules::default()
        };
        let targets = vec![target("first", &[address]), target("second", &[second.address])];
        let bed = Bed::new(with_traffic(global(targets), rules)).await;
        assert_eq!(bed.get("/").await.body, "second");
        let _first = Upstream::named_on("first", socket.listen(64).unwrap());
        eventually("it is back", async || bed.get("/").await.body == "first").await;
    }
}

#[tokio::test]
async fn a_client_that_breaks_off_does_not_harm_others() {
    let upstream = Upstream::http(|request: Request<Incoming>| async move {
        match request.into_body().collect().await {
            Ok(body) => answer(format!("{}", body.to_bytes().len())),
            Err(_) => answer("broken"),
        }
    })
    .await;
    let rules = TrafficRules {
        outliers: Some(Outliers { consecutive_failures: 1, ..Outliers::default() }),
        ..TrafficRules::default()
    };
    let targets = vec![target("c", &[upstream.address]), target("d", &[upstream.address])];
    let bed = Bed::new(with_traffic(global(targets), rules)).await;
    for _ in 0..5 {
        let mut stream = tokio::net::TcpStream::connect(bed.http()).await.unwrap();
        let head = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100\r\n\r\nhalf";
        stream.write_all(head.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(bed.send(POST).await.body, "5");
    assert!(!bed.admin("/targets").await.body.contains("\"ejected\": true"));
}

#[tokio::test]
async fn connections_to_an_address_are_limited_and_others_take_over() {
    let (release, released) = tokio::sync::watch::channel(false);
    let held = || {
        let released = released.clone();
        Upstream::http(move |_| {
            let mut released = released.clone();
            async move {
                released.wait_for(|released| *released).await.unwrap();
                answer("held")
            }
        })
    };
    let (first, second) = (held().await, held().await);
    let rules = TrafficRules {
        max_connections: Some(1),
        failover: vec!["first".to_owned(), "second".to_owned()],
        ..TrafficRules::default()
    };
    let targets = vec![target("first", &[first.address]), target("second", &[second.address])];
    let bed = Bed::new(with_traffic(global(targets), rules)).await;
    let mut asked: futures::stream::FuturesUnordered<_> = (0..4).map(|_| bed.get("/")).collect();
    let mut statuses = Vec::new();
    while let Some(reply) = asked.next().await {
        statuses.push(reply.status);
        // The first two have both connections, and are held until the others have been refused.
        release.send_replace(statuses.len() >= 2);
    }
    assert_eq!(statuses, [503, 503, 200, 200]);
    assert_eq!((first.hits(), second.hits()), (1, 1));
}

#[tokio::test]
async fn probes_ask_grpc_servers_whether_they_serve() {
    let serving = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let state = serving.clone();
    let first = Upstream::http(move |request: Request<Incoming>| {
        let serving = state.load(std::sync::atomic::Ordering::Relaxed);
        async move {
            if request.uri().path() != "/grpc.health.v1.Health/Check" {
                return answer("first");
            }
            assert_eq!(request.version(), http::Version::HTTP_2);
            answer(vec![0, 0, 0, 0, 2, 8, if serving { 1 } else { 2 }])
        }
    })
    .await;
    let second = Upstream::named("second").await;
    let check = HealthCheck {
        kind: HealthCheckKind::Grpc,
        interval_milliseconds: 20,
        ..HealthCheck::default()
    };
    let rules = TrafficRules {
        failover: vec!["first".to_owned()],
        health_check: Some(check),
        ..TrafficRules::default()
    };
    let targets = vec![target("first", &[first.address]), target("second", &[second.address])];
    let bed = Bed::new(with_traffic(global(targets), rules)).await;
    eventually("it is found not to serve", async || {
        bed.admin("/targets").await.body.contains("does not say SERVING")
    })
    .await;
    serving.store(true, std::sync::atomic::Ordering::Relaxed);
    eventually("it is found to serve", async || bed.get("/").await.body == "first").await;
}

#[tokio::test]
async fn streams_that_are_opened_and_reset_cost_little_and_harm_nobody() {
    let upstream = Upstream::http(|_| async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        answer("late")
    })
    .await;
    let good = Upstream::named("good").await;
    let mut other = global(vec![target("c", &[good.address])]);
    other.rules[0].host = "b.test".into();
    let slow = global(vec![target("c", &[upstream.address])]);
    let bed = Bed::with(crate::bed::options(), crate::bed::objects([slow, other])).await;
    let stream = tokio::net::TcpStream::connect(bed.http()).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http2::handshake(
        hyper_util::rt::TokioExecutor::new(),
        hyper_util::rt::TokioIo::new(stream),
    )
    .await
    .unwrap();
    tokio::spawn(connection);
    for _ in 0..2000 {
        let request = Request::get("http://a.test/")
            .body(http_body_util::Empty::<bytes::Bytes>::new())
            .unwrap();
        if sender.ready().await.is_err() {
            break;
        }
        let asked = sender.send_request(request);
        let _ = tokio::time::timeout(Duration::from_micros(50), asked).await;
    }
    let fine = "GET / HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n";
    assert_eq!(bed.send(fine).await.body, "good");
    eventually("nothing of it is left", async || {
        let metrics = bed.admin("/metrics").await.body;
        let outstanding =
            metrics.lines().filter(|line| line.starts_with("limen_gateway_outstanding"));
        outstanding.clone().count() == 2 && outstanding.into_iter().all(|line| line.ends_with(" 0"))
    })
    .await;
}
