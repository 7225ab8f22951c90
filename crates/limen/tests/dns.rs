//! `limen dns` as a process: answers from files, and from a hub that goes away.

mod process;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, CustomResourceExt};
use limen_api::{Edge, GlobalIngress};
use serde_json::{Value, json};

use process::{Process, client, free_port};

/// The first address that `shop.example.com` has, if any.
fn look_up(port: u16) -> Option<[u8; 4]> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut packet = vec![0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    packet.extend(b"\x04shop\x07example\x03com\x00\x00\x01\x00\x01");
    socket.send_to(&packet, ("127.0.0.1", port)).unwrap();
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer).ok()?;
    (answer[7] == 1).then(|| answer[length - 4..length].try_into().unwrap())
}

fn eventually(port: u16, address: [u8; 4]) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while look_up(port) != Some(address) {
        assert!(Instant::now() < deadline, "still {:?}", look_up(port));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn spec(address: &str) -> Value {
    json!({
        "rules": [{ "host": "shop.example.com", "paths": [{ "path": "/", "backend": "web" }] }],
        "backends": [{ "name": "web", "targets": [{
            "cluster": "c1", "addresses": [{ "host": address, "port": 80 }],
        }] }],
    })
}

#[test]
fn answers_come_from_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = json!({
        "kind": "GlobalIngress", "metadata": { "name": "web" }, "spec": spec("192.0.2.1"),
    });
    std::fs::write(folder.path().join("web.json"), manifest.to_string()).unwrap();
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let config = folder.path().to_str().unwrap();
    let _dns =
        Process::start(&["dns", "--config", config, "--listen", &listen, "--zone", "example.com"]);
    assert_eq!(look_up(port), Some([192, 0, 2, 1]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_answers_while_its_hub_is_away_also_after_a_restart() {
    let (data, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hub = Process::hub(data.path());
    let client = client(data.path()).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &GlobalIngress::crd()).await.unwrap();
    let roots: Api<GlobalIngress> = Api::default_namespaced(client);
    let manifest = json!({
        "apiVersion": "limen.dev/v1alpha1", "kind": "GlobalIngress",
        "metadata": { "name": "web" }, "spec": spec("192.0.2.1"),
    });
    let root: GlobalIngress = serde_json::from_value(manifest).unwrap();
    // The new kind is served a moment after its definition.
    let deadline = Instant::now() + Duration::from_secs(30);
    while let Err(error) = roots.create(&PostParams::default(), &root).await {
        assert!(Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let kubeconfig = data.path().join("kubeconfig");
    let arguments = [
        "dns",
        "--hub-kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--snapshot-dir",
        kept.path().to_str().unwrap(),
        "--zone",
        "example.com",
        "--listen",
        &listen,
    ];
    let dns = Process::start(&arguments);
    eventually(port, [192, 0, 2, 1]);
    let change = json!({ "spec": spec("192.0.2.2") });
    roots.patch("web", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    eventually(port, [192, 0, 2, 2]);
    // What is answered is kept a moment later.
    let file = kept.path().join("dns-objects.json");
    let is_kept = || std::fs::read_to_string(&file).is_ok_and(|text| text.contains("192.0.2.2"));
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_kept() {
        assert!(Instant::now() < deadline, "it is not kept");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(hub);
    assert_eq!(look_up(port), Some([192, 0, 2, 2]), "it goes on without the hub");
    drop(dns);
    let dns = Process::start(&arguments);
    eventually(port, [192, 0, 2, 2]);
    dns.terminate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_gateway_has_measured_decides_for_the_clients_of_its_region() {
    let data = tempfile::tempdir().unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let folder = data.path().to_str().unwrap();
    let _hub = Process::start(&["hub", "--data-dir", folder, "--listen", &listen, "--api-only"]);
    let client = client(data.path()).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in [GlobalIngress::crd(), Edge::crd()] {
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    let target = |cluster: &str, region: &str, address: &str| {
        json!({ "cluster": cluster, "region": region, "readyEndpoints": 1,
            "addresses": [{ "host": address, "port": 80 }] })
    };
    let mut spec = spec("192.0.2.1");
    spec["backends"][0]["targets"] =
        json!([target("near", "europe", "192.0.2.1"), target("fast", "america", "192.0.2.2"),]);
    let manifest = json!({ "metadata": { "name": "web" }, "spec": spec });
    let root: GlobalIngress = serde_json::from_value(manifest).unwrap();
    let roots: Api<GlobalIngress> = Api::default_namespaced(client.clone());
    let edges: Api<Edge> = Api::all(client);
    let manifest = json!({ "metadata": { "name": "gw" }, "spec": { "region": "europe" } });
    let edge: Edge = serde_json::from_value(manifest).unwrap();
    // New kinds are served a moment after their definitions.
    let deadline = Instant::now() + Duration::from_secs(30);
    while let Err(error) = roots.create(&PostParams::default(), &root).await {
        assert!(Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    while let Err(error) = edges.create(&PostParams::default(), &edge).await {
        assert!(Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let kubeconfig = data.path().join("kubeconfig");
    let kubeconfig = kubeconfig.to_str().unwrap();
    let _dns = Process::start(&[
        "dns",
        "--hub-kubeconfig",
        kubeconfig,
        "--zone",
        "example.com",
        "--region",
        "europe",
        "--listen",
        &listen,
    ]);
    eventually(port, [192, 0, 2, 1]);
    let measured = |cluster: &str, latency: f64| json!({ "cluster": cluster, "healthy": true, "latencyMilliseconds": latency });
    let report =
        json!({ "status": { "targets": [measured("near", 80.0), measured("fast", 20.0)] } });
    edges.patch_status("gw", &PatchParams::default(), &Patch::Merge(report)).await.unwrap();
    eventually(port, [192, 0, 2, 2]);
}
