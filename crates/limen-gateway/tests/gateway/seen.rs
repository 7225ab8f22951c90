//! What can be seen of a gateway from outside.

use limen_gateway::AccessLogTo;
use limen_gateway::source::Within;

use crate::bed::{Bed, Upstream, eventually, global, objects, options, target};

#[tokio::test]
async fn a_gateway_is_ready_once_it_has_routes() {
    let (sender, receiver) = tokio::sync::watch::channel(objects([]));
    struct Later(tokio::sync::oneshot::Receiver<()>, Within);
    impl limen_gateway::source::Source for Later {
        fn run(
            self: Box<Self>,
            publish: tokio::sync::mpsc::Sender<limen_gateway::source::News>,
            own: tokio::sync::watch::Receiver<limen_gateway::OwnEdge>,
        ) -> limen_gateway::source::Running {
            Box::pin(async move {
                let _ = self.0.await;
                Box::new(self.1).run(publish, own).await;
            })
        }
    }
    let (go, wait) = tokio::sync::oneshot::channel();
    let gateway = limen_gateway::Gateway::start(options(), Later(wait, Within(receiver))).unwrap();
    let http = gateway.http()[0];
    let bed = Bed { gateway, objects: sender };
    assert_eq!(bed.admin("/readyz").await.status, 503);
    assert_eq!(bed.admin("/healthz").await.status, 200);
    assert!(tokio::net::TcpStream::connect(http).await.is_err(), "it does not listen yet");
    go.send(()).unwrap();
    eventually("it is ready", async || bed.admin("/readyz").await.status == 200).await;
}

#[tokio::test]
async fn metrics_count_by_ingress_backend_and_cluster() {
    let upstream = Upstream::named("hello").await;
    let bed = Bed::new(global(vec![target("berlin", &[upstream.address])])).await;
    for _ in 0..2 {
        bed.get("/").await;
    }
    let post =
        "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody";
    bed.send(post).await;
    bed.send("GET / HTTP/1.1\r\nHost: nobody.test\r\nConnection: close\r\n\r\n").await;
    let metrics = bed.admin("/metrics").await.body;
    let labels = "ingress=\"test/g0\",backend=\"web\",cluster=\"berlin\"";
    for line in [
        format!("limen_gateway_requests_total{{{labels},class=\"2xx\"}} 3"),
        format!("limen_gateway_sent_bytes_total{{{labels}}} 15"),
        format!("limen_gateway_received_bytes_total{{{labels}}} 4"),
        format!("limen_gateway_request_duration_seconds_count{{{labels}}} 3"),
        format!("limen_gateway_outstanding_requests{{{labels}}} 0"),
        "limen_gateway_unmatched_requests_total 1".to_owned(),
    ] {
        assert!(metrics.lines().any(|found| found == line), "no {line} in\n{metrics}");
    }
}

#[tokio::test]
async fn explanations_name_rule_cluster_and_reasons() {
    let upstream = Upstream::named("c").await;
    let mut gone = target("gone", &[upstream.address]);
    gone.ready_endpoints = Some(0);
    let bed = Bed::new(global(vec![gone, target("here", &[upstream.address])])).await;
    let text = bed.admin("/explain?host=A.test:80&path=/x&client=192.0.2.1").await.body;
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["matched"]["ingress"], "test/g0");
    assert_eq!(value["nearestReady"], "here");
    assert_eq!(value["backend"]["targets"][0]["readiness"], "unhealthy");
    assert_eq!(bed.admin("/explain?path=/").await.status, 400);
    let nothing = bed.admin("/explain?host=b.test").await.body;
    assert!(nothing.contains("\"answer\": 404"), "{nothing}");
    assert!(bed.admin("/routes").await.body.contains("a.test"));
}

#[tokio::test]
async fn the_access_log_has_a_line_for_every_request() {
    let upstream = Upstream::named("c").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.log");
    let mut options = options();
    options.access_log = Some(AccessLogTo::File(file.clone()));
    let bed =
        Bed::with(options, objects([global(vec![target("berlin", &[upstream.address])])])).await;
    bed.get("/some/path?secret=1").await;
    bed.send("GET / HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n").await;
    let lines = || std::fs::read_to_string(&file).unwrap_or_default();
    eventually("both are logged", async || lines().lines().count() == 2).await;
    let lines: Vec<serde_json::Value> =
        lines().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["path"], "/some/path");
    assert_eq!(lines[0]["status"], 200);
    assert_eq!(lines[0]["cluster"], "berlin");
    assert_eq!(lines[0]["attempts"], 1);
    assert_eq!(lines[0]["complete"], true);
    assert_eq!(lines[1]["status"], 404);
}
