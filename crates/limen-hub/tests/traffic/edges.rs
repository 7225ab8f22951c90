//! What real gateways report, and what the hub makes of it.

use std::path::Path;

use limen_gateway::source::Hub;
use limen_gateway::{Gateway, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::bed::{
    Bed, Upstream, ask, cluster_id, eventually_asked, ingress, policy, policy_id, targets,
};
use crate::rig::{eventually, id_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_that_fails_real_requests_is_rolled_back() {
    let mut bed = Bed::start(&["c1", "c2"]).await;
    let bad = Upstream::answering("500 Internal Server Error", "c2").await;
    bed.upstreams.insert("c2".to_owned(), bad);
    // A policy for whatever is in the namespace.
    let spec = json!({
        "groups": [{"name": "v1", "clusters": ["c1"]}, {"name": "v2", "clusters": ["c2"]}],
        "canary": {"group": "v2", "steps": [50], "stepSeconds": 3600,
            "minSuccessPercent": 95.0, "minRequests": 20}});
    bed.hub().api().apply(&policy_id("web"), &policy("web", &spec)).await.unwrap();
    bed.submit("web", Some("web.test"), &["c1", "c2"]).await;
    bed.compiled("web", |global| targets(global).len() == 2).await;
    let gateway = bed.gateway(|_| {}).await;
    let half = [("c1".to_owned(), 10), ("500".to_owned(), 10)].into();
    eventually_asked(&gateway, "web.test", 20, |found| *found == half).await;
    // Clients go on asking, and the gateway tells how that goes.
    eventually("the canary's phase", async || {
        ask(&gateway, "web.test", 20).await;
        let policy = bed.hub().get(&policy_id("web")).await.unwrap();
        let canary = &policy["status"]["canary"];
        (canary["phase"] == "RolledBack", canary.to_string())
    })
    .await;
    eventually_asked(&gateway, "web.test", 20, |found| found.keys().eq(["c1"])).await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_way_in_that_does_not_answer_is_known_to_the_hub() {
    let mut bed = Bed::start(&["c1", "c2"]).await;
    let check = json!({"healthCheck": {"kind": "Tcp", "intervalMilliseconds": 100,
        "timeoutMilliseconds": 1000, "unhealthyThreshold": 2, "healthyThreshold": 2}});
    bed.hub().api().apply(&policy_id("all"), &policy("all", &check)).await.unwrap();
    bed.submit("web", Some("web.test"), &["c1", "c2"]).await;
    let gateway = bed.gateway(|_| {}).await;
    let edge = |at: usize, wanted: &'static str| {
        move |global: &Value| {
            global["spec"]["backends"][0]["targets"][at]["verdicts"]["edge"] == wanted
        }
    };
    bed.compiled("web", edge(0, "Healthy")).await;
    // Its API is well, and nothing answers where it is served.
    bed.upstreams.remove("c1");
    bed.compiled("web", edge(0, "Unhealthy")).await;
    bed.compiled("web", edge(1, "Healthy")).await;
    let verdicts = |cluster: &Value| cluster["status"]["verdicts"].clone();
    let split = |cluster: Option<&Value>| {
        cluster.is_some_and(|cluster| {
            let verdicts = verdicts(cluster);
            verdicts["edge"]["verdict"] == "Unhealthy" && verdicts["api"]["verdict"] == "Healthy"
        })
    };
    bed.rig.eventually_on_hub(&cluster_id("c1"), split).await;
    eventually_asked(&gateway, "web.test", 10, |found| found.keys().eq(["c2"])).await;
    gateway.stop().await;
}

/// The addresses that people see of a root.
async fn shown(bed: &Bed, addresses: &[&str]) {
    let id = id_of(&ingress("web", None));
    let wanted: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    let fits = |root: Option<&Value>| {
        root.is_some_and(|root| root["status"]["loadBalancer"]["ingress"] == json!(wanted))
    };
    bed.rig.eventually_on_hub(&id, fits).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_stopped_is_not_shown_any_more_unless_it_is_the_last() {
    let bed = Bed::start(&["c1"]).await;
    bed.submit("web", Some("web.test"), &["c1"]).await;
    let start = async |name: &str, address: &str| {
        bed.gateway(|options| {
            (options.name, options.addresses) = (name.to_owned(), vec![address.to_owned()]);
        })
        .await
    };
    let one = start("one", "192.0.2.1").await;
    shown(&bed, &["192.0.2.1"]).await;
    let two = start("two", "192.0.2.2").await;
    shown(&bed, &["192.0.2.1", "192.0.2.2"]).await;
    one.stop().await;
    shown(&bed, &["192.0.2.2"]).await;
    let again = start("one", "192.0.2.1").await;
    shown(&bed, &["192.0.2.1", "192.0.2.2"]).await;
    again.stop().await;
    two.stop().await;
    // Both have said that they end. Clients who try find out more than clients who are told
    // nothing.
    shown(&bed, &["192.0.2.1", "192.0.2.2"]).await;
}

/// A gateway that keeps what it obeys in this folder.
async fn keeping(bed: &Bed, folder: &Path) -> Gateway {
    let any = "127.0.0.1:0".parse().unwrap();
    let options = Options { http: vec![any], admin: Some(any), ..Options::default() };
    let source = Hub::for_gateway(bed.hub().client.clone(), Some(folder.to_owned()));
    let gateway = Gateway::start(options, source).unwrap();
    gateway.ready().await;
    gateway
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_hangs_or_is_full_delays_nothing() {
    let bed = Bed::start(&["c1"]).await;
    let (hangs, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Whoever opens a pipe to write waits until somebody reads.
    let pipe = hangs.path().join("gateway-objects.json.new");
    assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
    let full = folder.path().join("full");
    std::fs::write(&full, "no folder can be made here").unwrap();
    bed.submit("one", Some("one.test"), &["c1"]).await;
    let gateways = [keeping(&bed, hangs.path()).await, keeping(&bed, &full).await];
    for name in ["one", "two"] {
        if name == "two" {
            bed.submit("two", Some("two.test"), &["c1"]).await;
        }
        for gateway in &gateways {
            let host = format!("{name}.test");
            eventually_asked(gateway, &host, 1, |found| found.keys().eq(["c1"])).await;
        }
    }
    eventually("the full disk is counted", async || {
        let metrics = metrics(&gateways[1]).await;
        let line = metrics.lines().find(|line| line.starts_with("limen_gateway_failed_snapshots"));
        let count = line.and_then(|line| line.rsplit(' ').next()?.parse::<u32>().ok());
        (count.is_some_and(|count| count > 0), metrics.clone())
    })
    .await;
    for gateway in gateways {
        gateway.stop().await;
    }
}

async fn metrics(gateway: &Gateway) -> String {
    let mut stream = TcpStream::connect(gateway.admin().unwrap()).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_that_starts_again_knows_what_gateways_said_and_writes_nothing_twice() {
    let mut bed = Bed::start(&["c1"]).await;
    bed.submit("web", Some("web.test"), &["c1"]).await;
    let gateway = bed.gateway(|_| {}).await;
    // Nobody asked for a health check.
    let healthy = |global: &Value| {
        global["spec"]["backends"][0]["targets"][0]["verdicts"]["edge"] == "Healthy"
    };
    let before = bed.compiled("web", healthy).await;
    bed.start_again().await;
    bed.submit("other", Some("other.test"), &["c1"]).await;
    bed.compiled("other", healthy).await;
    let after = bed.compiled("web", |_| true).await;
    assert_eq!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    gateway.stop().await;
}
