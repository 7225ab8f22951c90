//! Health checks that nobody asks for: shared, few, and never the last word.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use limen_core::edge::EdgeReport;
use limen_core::global::{Global, HealthCheck, HealthCheckKind, Outliers, TrafficRules};
use limen_gateway::source::{News, Running, Source};
use limen_gateway::{Gateway, Objects, OwnEdge};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::bed::{Bed, Upstream, eventually, global, objects, options, target, with_traffic};

/// A socket that has its address and does not listen yet: connections are refused.
fn deaf() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket
}

/// Accepts connections, counts them, and closes them.
async fn closes(address: &str) -> (SocketAddr, Arc<AtomicUsize>, JoinHandle<()>) {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let accepting = tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    (address, count, accepting)
}

/// Clusters in the order in which they take over.
fn in_order(names: &[&str]) -> TrafficRules {
    let failover = names.iter().map(|name| (*name).to_owned()).collect();
    TrafficRules { failover, ..TrafficRules::default() }
}

async fn found_unhealthy(bed: &Bed) {
    eventually("it is found not to answer", async || {
        bed.admin("/targets").await.body.contains("Unhealthy")
    })
    .await;
}

#[tokio::test]
async fn a_dead_way_in_is_known_before_a_request_meets_it() {
    let second = Upstream::named("second").await;
    let socket = deaf();
    let targets =
        vec![target("first", &[socket.local_addr().unwrap()]), target("second", &[second.address])];
    let bed = Bed::new(with_traffic(global(targets), in_order(&["first", "second"]))).await;
    found_unhealthy(&bed).await;
    assert_eq!(bed.get("/").await.body, "second");
    let metrics = bed.admin("/metrics").await.body;
    let failed = metrics.lines().filter(|line| line.starts_with("limen_gateway_failures_total"));
    assert!(failed.clone().count() > 0, "{metrics}");
    assert!(failed.clone().all(|line| line.ends_with(" 0")), "no attempt was made in vain");
    let _first = Upstream::named_on("first", socket.listen(64).unwrap());
    eventually("it is back", async || bed.get("/").await.body == "first").await;
}

#[tokio::test]
async fn many_routes_to_one_address_share_one_prober() {
    let (address, count, accepting) = closes("127.0.0.1:0").await;
    let route = |index: usize| {
        let mut route = global(vec![target("c", &[address])]);
        route.rules[0].host = format!("h{index}.test");
        route
    };
    const ROUTES: usize = 300;
    let bed = Bed::with(options(), objects((0..ROUTES).map(route))).await;
    eventually("it is asked a second time", async || count.load(Ordering::Relaxed) >= 2).await;
    let asked = count.load(Ordering::Relaxed);
    assert!(asked < 10, "{asked} probes, of one prober that asks every few seconds");
    accepting.abort();
    eventually("all routes know that it is gone", async || {
        bed.admin("/targets").await.body.matches("Unhealthy").count() == ROUTES
    })
    .await;
}

#[tokio::test]
async fn what_probes_say_is_never_the_last_word() {
    // Nothing else is there: it is asked all the same.
    let socket = deaf();
    let bed = Bed::new(global(vec![target("c", &[socket.local_addr().unwrap()])])).await;
    found_unhealthy(&bed).await;
    let _late = Upstream::named_on("late", socket.listen(64).unwrap());
    assert_eq!(bed.get("/").await.body, "late");

    // Too few are well for that to be believed.
    let (socket, second) = (deaf(), Upstream::named("second").await);
    let targets =
        vec![target("first", &[socket.local_addr().unwrap()]), target("second", &[second.address])];
    let rules = TrafficRules { panic_percent: Some(60), ..in_order(&["first", "second"]) };
    let bed = Bed::new(with_traffic(global(targets), rules)).await;
    found_unhealthy(&bed).await;
    let _first = Upstream::named_on("first", socket.listen(64).unwrap());
    assert_eq!(bed.get("/").await.body, "first");
}

#[tokio::test]
async fn checks_that_nobody_asks_for_can_be_switched_off() {
    let upstream = Upstream::named("c").await;
    let off = HealthCheck { kind: HealthCheckKind::None, ..HealthCheck::default() };
    let rules = TrafficRules { health_check: Some(off), ..TrafficRules::default() };
    let plain: Global = global(vec![target("c", &[upstream.address])]);
    let probed = async |bed: &Bed| {
        let targets = bed.admin("/targets").await.body;
        assert_eq!(targets.matches("\"probes\"").count(), 1, "{targets}");
        !targets.contains("\"probes\": \"none\"")
    };
    let bed = Bed::new(plain.clone()).await;
    assert!(probed(&bed).await, "usually there are some");
    let bed = Bed::new(with_traffic(plain.clone(), rules)).await;
    assert!(!probed(&bed).await, "a policy may want none");
    let quiet = limen_gateway::Options { probe_all: false, ..options() };
    let bed = Bed::with(quiet, objects([plain])).await;
    assert!(!probed(&bed).await, "a gateway may want none");
}

#[tokio::test]
async fn a_connection_does_not_bring_back_what_fails_after_it() {
    let (bad, count, _accepting) = closes("127.0.0.1:0").await;
    let good = Upstream::named("good").await;
    let outliers =
        Outliers { consecutive_failures: 1, eject_seconds: 3600, max_ejected_percent: 100 };
    let check = HealthCheck { interval_milliseconds: 20, ..HealthCheck::default() };
    let rules = TrafficRules {
        outliers: Some(outliers),
        health_check: Some(check),
        ..in_order(&["bad", "good"])
    };
    let targets = vec![target("bad", &[bad]), target("good", &[good.address])];
    let bed = Bed::new(with_traffic(global(targets), rules)).await;
    assert_eq!(bed.get("/").await.body, "good");
    let ejected = async || bed.admin("/targets").await.body.contains("\"ejected\": true");
    assert!(ejected().await);
    let before = count.load(Ordering::Relaxed);
    let asked = || count.load(Ordering::Relaxed) - before;
    eventually("it is asked some more", async || asked() >= 10).await;
    assert!(ejected().await, "it still takes connections only to drop them");
}

/// A source that others are met through, as far as a test wants to know.
struct Heard(Objects, mpsc::UnboundedSender<Arc<EdgeReport>>);

impl Source for Heard {
    fn run(
        self: Box<Self>,
        publish: mpsc::Sender<News>,
        mut own: watch::Receiver<OwnEdge>,
    ) -> Running {
        Box::pin(async move {
            let _ = publish.send(News::Objects(self.0)).await;
            while own.changed().await.is_ok() {
                let report = own.borrow_and_update().report.clone();
                if report.as_ref().is_some_and(|report| report.stopping) {
                    return;
                }
                if report.is_some_and(|report| self.1.send(report).is_err()) {
                    return;
                }
            }
        })
    }
}

#[tokio::test]
async fn others_hear_of_all_that_is_broken_and_of_some_that_is_well() {
    let (any, _, _accepting) = closes("0.0.0.0:0").await;
    let port = any.port();
    let socket = deaf();
    let broken = socket.local_addr().unwrap();
    // All of 127.0.0.0/8 is this machine.
    let mut pods: Vec<_> = (1..=60).map(|last| ([127, 0, 1, last], port).into()).collect();
    pods.push(broken);
    let (tell, mut reports) = mpsc::unbounded_channel();
    let roots = objects((0..3).map(|index| {
        let mut root = global(vec![target("c", &pods)]);
        root.rules[0].host = format!("h{index}.test");
        root
    }));
    let gateway = Gateway::start(options(), Heard(roots, tell)).unwrap();
    loop {
        let report = tokio::time::timeout(std::time::Duration::from_secs(60), reports.recv());
        let report = report.await.expect("it reports").expect("it runs");
        let bad: Vec<_> = report.targets.iter().filter(|target| !target.healthy).collect();
        assert!(report.targets.len() <= 17, "{} are told of", report.targets.len());
        if let [bad] = bad[..]
            && report.targets.len() == 17
        {
            assert_eq!(bad.address, Some(broken.to_string()));
            break;
        }
    }
    gateway.stop().await;
}
