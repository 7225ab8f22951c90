//! `limen gateway` as a process: routes from files, from a hub that goes away, from one cluster.

mod process;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, CustomResourceExt};
use limen_api::GlobalIngress;
use serde_json::{Value, json};

use process::{Process, client, free_port};

/// Something that answers every connection with `hello`.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

fn get(port: u16, host: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return String::new() };
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(request.as_bytes());
    let mut read = String::new();
    let _ = stream.read_to_string(&mut read);
    read
}

fn eventually_hello(port: u16) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut last = String::new();
    while Instant::now() < deadline {
        last = get(port, "a.test");
        if last.ends_with("hello") {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no hello within a minute, but {last:?}");
}

fn spec(upstream: SocketAddr) -> Value {
    json!({
        "rules": [{ "host": "a.test", "paths": [{ "path": "/", "backend": "web" }] }],
        "backends": [{ "name": "web", "targets": [{
            "cluster": "c1", "addresses": [{ "host": "127.0.0.1", "port": upstream.port() }],
        }] }],
    })
}

#[test]
fn routes_come_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("routes.json");
    let manifest = json!({
        "kind": "GlobalIngress", "metadata": { "name": "web" }, "spec": spec(upstream()),
    });
    std::fs::write(&file, manifest.to_string()).unwrap();
    let port = free_port();
    let http = format!("127.0.0.1:{port}");
    let gateway = Process::start(&["gateway", "--config", file.to_str().unwrap(), "--http", &http]);
    eventually_hello(port);
    gateway.terminate();
    assert_eq!(get(port, "a.test"), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_serves_while_its_hub_is_away_also_after_a_restart() {
    let (data, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hub = Process::hub(data.path());
    let client = client(data.path()).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &GlobalIngress::crd()).await.unwrap();
    let roots: Api<GlobalIngress> = Api::default_namespaced(client);
    let manifest = json!({
        "apiVersion": "limen.dev/v1alpha1", "kind": "GlobalIngress",
        "metadata": { "name": "web" }, "spec": spec(upstream()),
    });
    let root: GlobalIngress = serde_json::from_value(manifest).unwrap();
    // The new kind is served a moment after its definition.
    let deadline = Instant::now() + Duration::from_secs(30);
    while let Err(error) = roots.create(&PostParams::default(), &root).await {
        assert!(Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let port = free_port();
    let http = format!("127.0.0.1:{port}");
    let kubeconfig = data.path().join("kubeconfig");
    let arguments = [
        "gateway",
        "--hub-kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--snapshot-dir",
        kept.path().to_str().unwrap(),
        "--http",
        &http,
    ];
    let gateway = Process::start(&arguments);
    eventually_hello(port);
    drop(hub);
    assert!(get(port, "a.test").ends_with("hello"), "it goes on without the hub");
    gateway.terminate();
    let gateway = Process::start(&arguments);
    eventually_hello(port);
    gateway.terminate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_is_the_ingress_controller_of_a_cluster() {
    let data = tempfile::tempdir().unwrap();
    let _cluster = Process::hub(data.path());
    let client = client(data.path()).await;
    let services: Api<k8s_openapi::api::core::v1::Service> =
        Api::default_namespaced(client.clone());
    let service = json!({
        "metadata": { "name": "web" },
        "spec": { "type": "ExternalName", "externalName": "localhost",
                  "ports": [{ "port": upstream().port() }] },
    });
    let service: k8s_openapi::api::core::v1::Service = serde_json::from_value(service).unwrap();
    let created = services.create(&PostParams::default(), &service).await.unwrap();
    let port_number = created.spec.unwrap().ports.unwrap()[0].port;
    let ingresses: Api<Ingress> = Api::default_namespaced(client);
    let ingress = json!({
        "metadata": { "name": "web" },
        "spec": { "ingressClassName": "limen", "rules": [{ "host": "a.test", "http": { "paths": [{
            "path": "/", "pathType": "Prefix",
            "backend": { "service": { "name": "web", "port": { "number": port_number } } },
        }] } }] },
    });
    let ingress: Ingress = serde_json::from_value(ingress).unwrap();
    ingresses.create(&PostParams::default(), &ingress).await.unwrap();

    let port = free_port();
    let http = format!("127.0.0.1:{port}");
    let kubeconfig = data.path().join("kubeconfig");
    let _gateway = Process::start(&[
        "gateway",
        "--member-kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--http",
        &http,
        "--publish-address",
        "203.0.113.7",
    ]);
    eventually_hello(port);
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let status = ingresses.get("web").await.unwrap().status;
        let address = status.and_then(|status| status.load_balancer?.ingress?.first()?.ip.clone());
        if address.as_deref() == Some("203.0.113.7") {
            break;
        }
        assert!(Instant::now() < deadline, "the status is never written: {address:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
