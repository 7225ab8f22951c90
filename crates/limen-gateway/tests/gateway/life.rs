//! Starting, changing, stopping.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use limen_gateway::Gateway;
use limen_gateway::source::ConfigFiles;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::bed::{
    Bed, Reply, Upstream, answer, eventually, exchange, global, objects, options, target,
};

/// One request over a connection that stays open. The body of the answer.
async fn ask(stream: &mut TcpStream) -> std::io::Result<String> {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await?;
    let mut read = Vec::new();
    loop {
        let mut part = [0; 4096];
        let length = stream.read(&mut part).await?;
        if length == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        read.extend_from_slice(&part[..length]);
        let reply = Reply::parse(&read);
        let wanted = reply.header("content-length").and_then(|text| text.parse().ok());
        if wanted == Some(reply.body.len()) {
            return Ok(reply.body);
        }
    }
}

#[tokio::test]
async fn no_request_fails_while_routes_change_under_load() {
    let (one, two) = (Upstream::named("one").await, Upstream::named("two").await);
    let routes = [one.address, two.address].map(|address| global(vec![target("c", &[address])]));
    let bed = Bed::new(routes[0].clone()).await;
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (address, stop, asked) = (bed.http(), stop.clone(), asked.clone());
            tokio::spawn(async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                while !stop.load(Ordering::Relaxed) {
                    let body = ask(&mut stream).await.unwrap();
                    assert!(body == "one" || body == "two", "{body}");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for round in 0..40 {
        let before = asked.load(Ordering::Relaxed);
        bed.objects.send_replace(objects([routes[round % 2].clone()]));
        while asked.load(Ordering::Relaxed) < before + 20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    assert!(one.hits() > 0 && two.hits() > 0);
}

#[tokio::test]
async fn requests_under_way_finish_when_the_gateway_stops() {
    let slow = Upstream::http(|_| async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        answer("slow")
    })
    .await;
    let bed = Bed::new(global(vec![target("c", &[slow.address])])).await;
    let address = bed.http();
    let mut idle = TcpStream::connect(address).await.unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await.unwrap();
    eventually("the request is under way", async || slow.hits() == 1).await;
    let stopping = tokio::spawn(bed.gateway.stop());
    let mut read = Vec::new();
    stream.read_to_end(&mut read).await.unwrap();
    let reply = Reply::parse(&read);
    assert_eq!((reply.status, reply.body.as_str()), (200, "slow"));
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0, "idle connections are closed");
    stopping.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_new_gateway_takes_over_the_port_of_an_old_one() {
    let upstream = Upstream::named("up").await;
    let routes = || objects([global(vec![target("c", &[upstream.address])])]);
    let old = Bed::with(options(), routes()).await;
    let mut next = options();
    (next.http, next.https, next.take_over) = (vec![old.http()], Vec::new(), true);
    let address = old.http();
    let new = Bed::with(next, routes()).await;
    let stopping = tokio::spawn(old.gateway.stop());
    let request = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
    stopping.await.unwrap();
    for _ in 0..20 {
        assert_eq!(Reply::parse(&exchange(address, request).await).body, "up");
    }
    drop(new);
}

#[tokio::test]
async fn a_gateway_does_not_share_a_port_unless_it_is_told_to() {
    let upstream = Upstream::named("up").await;
    let routes = || objects([global(vec![target("c", &[upstream.address])])]);
    let old = Bed::with(options(), routes()).await;
    let (http, https) = (old.http(), old.gateway.https()[0]);
    let everywhere = std::net::SocketAddr::new([0, 0, 0, 0].into(), http.port());
    for (http, https) in [(vec![http], vec![]), (vec![], vec![https]), (vec![everywhere], vec![])] {
        let next = limen_gateway::Options { http, https, ..options() };
        let (_objects, receiver) = tokio::sync::watch::channel(routes());
        match Gateway::start(next, limen_gateway::source::Within(receiver)) {
            Ok(_) => panic!("it gets half of the other's clients"),
            Err(error) => assert!(error.to_string().contains("--take-over"), "{error}"),
        }
    }
    // Connections that the old one closed linger for a minute, and are in nobody's way.
    let closed = old.get("/").await;
    assert_eq!(closed.body, "up");
    old.gateway.stop().await;
    let next = limen_gateway::Options { http: vec![http], https: vec![], ..options() };
    let new = Bed::with(next, routes()).await;
    assert_eq!(new.get("/").await.body, "up");
}

fn manifest(port: u16) -> String {
    format!(
        "kind: GlobalIngress\nmetadata: {{ name: web }}\nspec:\n  rules:\n    - host: a.test\n      \
         paths: [{{ path: /, backend: web }}]\n  backends:\n    - name: web\n      targets:\n        \
         - cluster: c\n          addresses: [{{ host: 127.0.0.1, port: {port} }}]\n"
    )
}

#[tokio::test]
async fn files_are_read_again_and_a_bad_one_changes_nothing() {
    let (one, two) = (Upstream::named("one").await, Upstream::named("two").await);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.yaml");
    std::fs::write(&file, manifest(one.address.port())).unwrap();
    let gateway = Gateway::start(options(), ConfigFiles(folder.path().to_owned())).unwrap();
    gateway.ready().await;
    let address = gateway.http()[0];
    let body = async || {
        let request = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
        match TcpStream::connect(address).await {
            Ok(_) => Reply::parse(&exchange(address, request).await).body,
            Err(_) => String::new(),
        }
    };
    eventually("the first file is in force", async || body().await == "one").await;
    std::fs::write(&file, "kind: GlobalIngress\nmetadata: { name: web }\nspec: { rules: 5 }\n")
        .unwrap();
    let admin = gateway.admin().unwrap();
    let metrics = async || {
        let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        String::from_utf8_lossy(&exchange(admin, request).await).into_owned()
    };
    eventually("the bad file is noticed", async || {
        metrics().await.contains("limen_gateway_failed_reloads_total 1")
    })
    .await;
    assert_eq!(body().await, "one");
    std::fs::write(&file, manifest(two.address.port())).unwrap();
    eventually("the next file is in force", async || body().await == "two").await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_and_others_served() {
    let upstream = Upstream::named("c").await;
    let mut options = options();
    options.limits.connections = 4;
    let bed = Bed::with(options, objects([global(vec![target("c", &[upstream.address])])])).await;
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(bed.http()).await.unwrap();
        ask(&mut stream).await.unwrap();
        held.push(stream);
    }
    let mut extra = TcpStream::connect(bed.http()).await.unwrap();
    assert!(ask(&mut extra).await.is_err());
    assert_eq!(ask(&mut held[0]).await.unwrap(), "c");
    held.pop();
    eventually("there is room again", async || bed.get("/").await.status == 200).await;
}

#[tokio::test]
async fn heads_that_do_not_end_are_given_up() {
    let upstream = Upstream::named("c").await;
    let mut options = options();
    options.limits.head = Duration::from_millis(100);
    let bed = Bed::with(options, objects([global(vec![target("c", &[upstream.address])])])).await;
    let mut stream = TcpStream::connect(bed.http()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a.te").await.unwrap();
    let mut read = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut read)).await;
    assert!(closed.is_ok(), "a head that does not end is waited for forever");
}

#[tokio::test]
async fn heads_that_come_byte_by_byte_for_ever_are_given_up_too() {
    let upstream = Upstream::named("c").await;
    let mut options = options();
    options.limits.head = Duration::from_millis(500);
    let bed = Bed::with(options, objects([global(vec![target("c", &[upstream.address])])])).await;
    // The second has a head that is not ordinary.
    for start in ["GET / HTTP/1.1\r\nHost: a.test\r\nX: ", "\r\nGET / HTTP/1.1\r\nX: "] {
        let mut stream = TcpStream::connect(bed.http()).await.unwrap();
        stream.write_all(start.as_bytes()).await.unwrap();
        let mut closed = false;
        for _ in 0..400 {
            let read = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut [0])).await;
            closed = read.is_ok() || stream.write_all(b"x").await.is_err();
            if closed {
                break;
            }
        }
        assert!(closed, "a head that never ends is waited for: {start:?}");
    }
}

#[tokio::test]
async fn half_a_preface_has_no_more_time_than_a_head() {
    let upstream = Upstream::named("c").await;
    let mut options = options();
    options.limits.head = Duration::from_millis(100);
    options.limits.idle = Duration::from_secs(600);
    let bed = Bed::with(options, objects([global(vec![target("c", &[upstream.address])])])).await;
    for closes in [false, true] {
        let mut stream = TcpStream::connect(bed.http()).await.unwrap();
        stream.write_all(b"P").await.unwrap();
        if closes {
            stream.shutdown().await.unwrap();
        }
        let ended = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut [0])).await;
        assert!(ended.is_ok(), "it is waited for, for as long as a connection may be idle");
    }
}
