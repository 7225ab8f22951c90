//! Members that are slow, refuse or start from nothing; hubs that die or are two; roots that are
//! wrong among many that are right.

use std::net::SocketAddr;
use std::time::Duration;

use limen_api::dialect::Home;
use limen_hub::{Hub, HubOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::rig::{ApiServer, Rig, eventually, id_of};

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"key": value}})
}

fn present(object: Option<&Value>) -> bool {
    object.is_some()
}

/// Lets connections through to an address, and holds back whatever goes there while it is slow.
async fn detour(to: SocketAddr, slow: watch::Receiver<bool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let mut slow = slow.clone();
            tokio::spawn(async move {
                let Ok(server) = TcpStream::connect(to).await else { return };
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
                });
                let mut buffer = vec![0; 64 << 10];
                while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
                    let quick = slow.wait_for(|slow| !*slow).await.is_ok();
                    if !quick || to_server.write_all(&buffer[..read]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_member_delays_no_other() {
    let mut rig = Rig::start(&["europe-1"]).await;
    let (slow, is_slow) = watch::channel(false);
    let mut asia = ApiServer::start().await;
    let port = asia.config.cluster_url.port_u16().unwrap();
    let detour = detour(([127, 0, 0, 1], port).into(), is_slow).await;
    asia.config.cluster_url = format!("https://{detour}").parse().unwrap();
    rig.join("asia-1", &asia).await;
    rig.members.insert("asia-1".to_owned(), asia);
    rig.hub.create(&config_map("first", "x")).await;
    rig.eventually(&id_of(&config_map("first", "x")), &["asia-1"], present).await;

    // Slower than anything that the other one takes.
    slow.send_replace(true);
    let roots: Vec<Value> = (0..20).map(|n| config_map(&format!("root-{n}"), "x")).collect();
    for root in &roots {
        rig.hub.create(root).await;
    }
    for root in &roots {
        rig.eventually(&id_of(root), &["europe-1"], present).await;
    }
    for root in &roots {
        let there = rig.member("asia-1").get(&id_of(root)).await;
        assert!(there.is_none(), "the slow member was not slow");
    }
    slow.send_replace(false);
    for root in &roots {
        rig.eventually(&id_of(root), &["asia-1"], present).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_forbids_says_so_on_the_root_and_is_tried_again() {
    let rig = Rig::start(&["asia-1"]).await;
    let role = id_of(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": rig.account().await}}));
    let member = rig.member("asia-1").api();
    let role_before = member.get(&role).await.unwrap().unwrap();
    let read_only = json!({"rules": [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"nonResourceURLs": ["*"], "verbs": ["get"]}]});
    member.merge(&role, "", &read_only).await.unwrap();

    let root = config_map("settings", "one");
    let id = id_of(&root);
    rig.hub.create(&root).await;
    rig.eventually_on_hub(&Rig::record(&id), |record| {
        record.is_some_and(|record| {
            let leaf = &record["spec"]["clusters"][0];
            leaf["state"] == "Failed"
                && leaf["message"].as_str().is_some_and(|text| text.contains("does not allow it"))
        })
    })
    .await;
    eventually("an event names the cluster", async || {
        let events = rig.events(&id).await;
        let said = |(reason, message): &(String, String)| {
            reason == "CreateInClusterFailed" && message.contains("asia-1")
        };
        (events.iter().any(said), format!("{events:?}"))
    })
    .await;

    member.merge(&role, "", &json!({"rules": role_before["rules"]})).await.unwrap();
    rig.eventually(&id, &["asia-1"], present).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_starts_from_nothing_gets_everything_again() {
    let mut rig = Rig::start(&["asia-1"]).await;
    let root = config_map("settings", "one");
    let id = id_of(&root);
    rig.hub.create(&root).await;
    rig.eventually(&id, &["asia-1"], present).await;

    rig.members.get_mut("asia-1").unwrap().stop().await;
    let anew = ApiServer::start().await;
    rig.join("asia-1", &anew).await;
    rig.members.insert("asia-1".to_owned(), anew);
    rig.eventually(&id, &["asia-1"], present).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_that_dies_in_the_middle_finishes_when_it_is_back() {
    let mut rig = Rig::start(&["asia-1", "europe-1"]).await;
    let roots: Vec<Value> = (0..40).map(|n| config_map(&format!("root-{n}"), "x")).collect();
    for (n, root) in roots.iter().enumerate() {
        rig.hub.create(root).await;
        if n == 20 {
            rig.kill_federation();
        }
    }
    rig.start_federation().await;
    for root in &roots {
        rig.eventually(&id_of(root), &["asia-1", "europe-1"], present).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hubs_at_once_agree_and_come_to_rest() {
    let rig = Rig::start(&["asia-1"]).await;
    let second = Hub::start(HubOptions::new(rig.hub.api(), Home::Embedded));
    let second = second.await.unwrap();
    let roots: Vec<Value> = (0..10).map(|n| config_map(&format!("root-{n}"), "x")).collect();
    for root in &roots {
        rig.hub.create(root).await;
        rig.eventually(&id_of(root), &["asia-1"], present).await;
    }
    rig.delete(&id_of(&roots[0])).await;
    rig.eventually(&id_of(&roots[0]), &["asia-1"], |leaf| leaf.is_none()).await;
    let mut before = (String::new(), String::new());
    eventually("nobody writes any more", async || {
        let kind = &id_of(&roots[0]).kind;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = (
            rig.hub.api().list(kind, "").await.unwrap().1,
            rig.member("asia-1").api().list(kind, "").await.unwrap().1,
        );
        let rest = now == before;
        before = now;
        (rest, format!("{before:?}"))
    })
    .await;
    second.stop().await;
}

/// Among a thousand roots fifty that are wrong; fewer where tests must be quick.
const ROOTS: usize = if cfg!(feature = "e2e") { 1050 } else { 63 };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roots_that_are_wrong_do_not_hold_up_the_others() {
    let rig = Rig::start(&["asia-1"]).await;
    let (mut right, mut wrong) = (Vec::new(), Vec::new());
    for n in 0..ROOTS {
        let mut root = config_map(&format!("root-{n}"), "x");
        if n % 21 == 0 {
            root["metadata"]["annotations"] =
                json!({"federation.alpha.kubernetes.io/cluster-selector": "nonsense"});
            wrong.push(id_of(&root));
        } else {
            right.push(id_of(&root));
        }
        rig.hub.create(&root).await;
    }
    let member = rig.member("asia-1").api();
    eventually("what is right is there", async || {
        let (held, _) = member.list(&right[0].kind, "limen.dev/root-uid").await.unwrap();
        (held.len() == right.len(), format!("{} of {}", held.len(), right.len()))
    })
    .await;
    for id in &wrong {
        rig.eventually_on_hub(&Rig::record(id), |record| {
            record.is_some_and(|record| record["spec"]["conditions"][0]["status"] == "False")
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_goes_wave_by_wave_and_stops_at_a_sick_one() {
    let rig = Rig::start(&["asia-1", "europe-1"]).await;
    let policy = json!({
        "apiVersion": "limen.dev/v1alpha1", "kind": "PlacementPolicy",
        "metadata": {"name": "careful", "namespace": "default"},
        "spec": {"placement": {"clusterSelector": {}},
            "rollout": {"waves": [{"clusters": [{"name": "asia-1"}]}]}}});
    rig.hub.create(&policy).await;
    let root = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1"}]}}}});
    let id = id_of(&root);
    rig.hub.create(&root).await;
    rig.eventually(&id, &["asia-1"], present).await;
    rig.eventually_on_hub(&Rig::record(&id), |record| {
        record.is_some_and(|record| record["spec"]["clusters"][1]["state"] == "Waiting")
    })
    .await;
    assert!(rig.member("europe-1").get(&id).await.is_none());

    let well = json!({"status": {"observedGeneration": 1, "replicas": 1,
        "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}});
    rig.member("asia-1").api().merge(&id, "/status", &well).await.unwrap();
    rig.eventually(&id, &["europe-1"], present).await;
}
