//! Two gateways that share the capacity of clusters without asking each other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use limen_core::edge::{EdgeKind, Peer};
use limen_core::global::{Capacity, Target, TrafficRules};
use limen_gateway::source::{News, Running, Source};
use limen_gateway::{Gateway, Objects, OwnEdge};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use crate::bed::{
    Bed, Upstream, answer, eventually, global, objects, options, target, with_traffic,
};

type Edges = Arc<watch::Sender<BTreeMap<String, Peer>>>;

/// Objects from within the process, and a place to meet other gateways.
struct Meeting(Objects, Edges);

impl Source for Meeting {
    fn run(
        self: Box<Self>,
        publish: mpsc::Sender<News>,
        mut own: watch::Receiver<OwnEdge>,
    ) -> Running {
        Box::pin(async move {
            let _ = publish.send(News::Objects(self.0)).await;
            let mut edges = self.1.subscribe();
            loop {
                tokio::select! {
                    Ok(()) = own.changed() => {
                        let own = own.borrow_and_update().clone();
                        let report = own.report.as_deref().cloned().unwrap_or_default();
                        let stopping = report.stopping;
                        let kind = EdgeKind::Gateway;
                        let peer = Peer { kind, locality: own.locality, report };
                        self.1.send_modify(|edges| drop(edges.insert(own.name, peer)));
                        if stopping {
                            return;
                        }
                    }
                    Ok(()) = edges.changed() => {
                        let now = edges.borrow_and_update().clone();
                        if publish.send(News::Edges(now)).await.is_err() {
                            return;
                        }
                    }
                    else => return,
                }
            }
        })
    }
}

/// Sends requests at a pace over one connection until told to stop, and says how many.
async fn load(bed: Arc<Bed>, pace: Duration, mut stop: watch::Receiver<bool>) -> usize {
    let mut stream = TcpStream::connect(bed.http()).await.unwrap();
    let mut tick = tokio::time::interval(pace);
    let mut sent = 0;
    let mut buffer = [0; 4096];
    while !*stop.borrow_and_update() {
        tick.tick().await;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await.unwrap();
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(buffer[..read].starts_with(b"HTTP/1.1 200"));
        sent += 1;
    }
    sent
}

const CAPACITY: f64 = 60.0;

fn root(near: &Upstream, far: &Upstream) -> limen_core::global::Global {
    let near = Target {
        capacity: Capacity { requests_per_second: Some(CAPACITY) },
        ..target("near", &[near.address])
    };
    let failover = vec!["near".into(), "far".into()];
    let rules = TrafficRules { failover, ..TrafficRules::default() };
    with_traffic(global(vec![near, target("far", &[far.address])]), rules)
}

/// How many requests in a second arrive somewhere, over a few seconds.
async fn rate(upstream: &Upstream) -> f64 {
    let (start, before) = (Instant::now(), upstream.hits());
    tokio::time::sleep(Duration::from_secs(3)).await;
    (upstream.hits() - before) as f64 / start.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_together_send_a_cluster_no_more_than_its_capacity() {
    let (near, far) = (Upstream::named("near").await, Upstream::named("far").await);
    let edges: Edges = Arc::default();
    let mut beds = Vec::new();
    for name in ["edge-1", "edge-2"] {
        let mut options = options();
        options.name = name.to_owned();
        let all = objects([root(&near, &far)]);
        let gateway = Gateway::start(options, Meeting(all, edges.clone())).unwrap();
        gateway.ready().await;
        let bed = Arc::new(Bed { gateway, objects: watch::Sender::default() });
        eventually("it listens", async || TcpStream::connect(bed.http()).await.is_ok()).await;
        beds.push(bed);
    }
    let (stop, stopped) = watch::channel(false);
    let clients = beds.iter().flat_map(|bed| [bed.clone(), bed.clone()]);
    // Each gateway alone wants about as much as the near cluster can take.
    let pace = Duration::from_millis(33);
    let clients: Vec<_> =
        clients.map(|bed| tokio::spawn(load(bed, pace, stopped.clone()))).collect();
    eventually("both have said what they want", async || {
        let edges = edges.borrow();
        let wanted = |peer: &Peer| {
            let demand = peer.report.wanted("test/g0", "web");
            demand.is_some_and(|demand| demand.requests_per_second > CAPACITY / 3.0)
        };
        edges.len() == 2 && edges.values().all(wanted)
    })
    .await;
    // It may take five seconds from there.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let (rate_near, rate_far) = tokio::join!(rate(&near), rate(&far));
    let total = rate_near + rate_far;
    assert!(
        rate_near <= CAPACITY * 1.1,
        "{rate_near:.1} of {CAPACITY} requests/s, {total:.1} in all"
    );
    let possible = CAPACITY.min(total);
    assert!(rate_near >= possible * 0.75, "{rate_near:.1} of {possible:.1} requests/s");
    stop.send_replace(true);
    for client in clients {
        assert!(client.await.unwrap() > 0);
    }
    let overflowed = beds[0].admin("/metrics").await.body;
    let line =
        "limen_gateway_overflows_total{ingress=\"test/g0\",backend=\"web\",cluster=\"far\"} ";
    let count = overflowed.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    assert!(count.parse::<u32>().unwrap() > 0);
    let explained = beds[0].admin("/targets").await.body;
    assert!(explained.contains("\"allowed\""), "{explained}");
}

#[tokio::test]
async fn a_cluster_that_says_it_is_idle_gets_no_more_than_was_declared() {
    let idle = Upstream::http(|_| async {
        let mut answer = answer("near");
        let load = http::HeaderValue::from_static("TEXT application_utilization=0.2");
        answer.headers_mut().insert("endpoint-load-metrics", load);
        answer
    })
    .await;
    let far = Upstream::named("far").await;
    let failover = vec!["near".into(), "far".into()];
    let rules = TrafficRules { failover, ..TrafficRules::default() };
    let mut near = target("near", &[idle.address]);
    near.capacity.requests_per_second = Some(5.0);
    let targets = vec![near, target("far", &[far.address])];
    let bed = Arc::new(Bed::new(with_traffic(global(targets), rules)).await);
    let (stop, stopped) = watch::channel(false);
    let client = tokio::spawn(load(bed.clone(), Duration::from_millis(10), stopped));
    eventually("what it says is heard", async || {
        let targets = bed.admin("/targets").await.body.replace(' ', "");
        targets.contains("\"utilisation\":0.")
    })
    .await;
    // By its own word it could take five times what it gets, and soon everything.
    eventually("the rest goes elsewhere for good", async || far.hits() > 600).await;
    stop.send_replace(true);
    client.await.unwrap();
    assert!(idle.hits() > 0);
}

#[tokio::test]
async fn a_cluster_that_says_it_is_busy_gets_no_more_than_it_can_take() {
    // It says that it is twice as busy as it can be with whatever comes: its capacity is half.
    let busy = Upstream::http(|_| async {
        let mut answer = answer("near");
        let load = http::HeaderValue::from_static("TEXT application_utilization=2.0");
        answer.headers_mut().insert("endpoint-load-metrics", load);
        answer
    })
    .await;
    let far = Upstream::named("far").await;
    let failover = vec!["near".into(), "far".into()];
    let rules = TrafficRules { failover, ..TrafficRules::default() };
    let targets = vec![target("near", &[busy.address]), target("far", &[far.address])];
    let bed = Arc::new(Bed::new(with_traffic(global(targets), rules)).await);
    let (stop, stopped) = watch::channel(false);
    let client = tokio::spawn(load(bed.clone(), Duration::from_millis(10), stopped));
    eventually("some requests overflow", async || far.hits() > 20).await;
    stop.send_replace(true);
    client.await.unwrap();
    assert!(busy.hits() > 0);
}
