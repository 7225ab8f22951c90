//! A federated Service, from what is submitted to what a DNS client gets.

use std::net::SocketAddr;

use limen_dns::{Options, Server};
use serde_json::{Value, json};

use crate::bed::{Bed, global_id, service, slice};
use crate::client;
use crate::rig::{eventually, id_of};

const TOP: &str = "web.default.fed.svc.example.com";

fn balanced() -> Value {
    let mut service = service("web");
    service["spec"]["type"] = json!("LoadBalancer");
    service
}

/// Lets a member's load balancer have an address, and its Service endpoints.
async fn serve(bed: &Bed, member: &str, address: &str, endpoints: usize) {
    let leaf = id_of(&balanced());
    bed.rig.eventually(&leaf, &[member], |leaf| leaf.is_some()).await;
    let api = bed.rig.member(member).api();
    api.apply(&id_of(&slice("web", 0)), &slice("web", endpoints)).await.unwrap();
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": address}]}}});
    api.merge(&leaf, "/status", &status).await.unwrap();
}

async fn answers(server: SocketAddr, name: &str, expected: &[&str]) {
    let question = client::ask(name, client::A);
    eventually(&format!("what {name} is answered with"), async || {
        let question = question.clone();
        let asked = tokio::task::spawn_blocking(move || question.udp(server));
        let answer = asked.await.unwrap();
        let mut texts = answer.texts();
        texts.sort_unstable();
        (texts == expected, format!("{texts:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_with_load_balancers_has_names() {
    let bed = Bed::start(&["c1", "c2"]).await;
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let options = Options {
        listen: vec![any],
        zones: vec!["example.com".to_owned()],
        federation: Some("fed".to_owned()),
        rate_limit: 0,
        ..Options::default()
    };
    let source = limen_dns::source::Hub::for_dns(bed.hub().client.clone(), None);
    let dns = Server::start(&options, source).unwrap();
    dns.ready().await;
    let server = dns.listen()[0];

    bed.hub().create(&balanced()).await;
    serve(&bed, "c1", "192.0.2.1", 2).await;
    serve(&bed, "c2", "192.0.2.2", 1).await;
    answers(server, TOP, &["192.0.2.1", "192.0.2.2"]).await;
    let own = "web.default.fed.svc.c1.cluster.example.com";
    let leaf = bed.rig.member("c1").api().get(&id_of(&balanced())).await.unwrap().unwrap();
    let inside = leaf["spec"]["clusterIP"].as_str().unwrap().to_owned();
    answers(server, own, &[&inside]).await;

    // No endpoint is ready in one member any more: its own clients are sent to the other.
    serve(&bed, "c1", "192.0.2.1", 0).await;
    answers(server, TOP, &["192.0.2.2"]).await;
    answers(server, own, &["192.0.2.2", &format!("{TOP}.")]).await;

    bed.rig.delete(&id_of(&balanced())).await;
    bed.rig.eventually_on_hub(&global_id("service.web"), |global| global.is_none()).await;
    answers(server, TOP, &[]).await;
}
