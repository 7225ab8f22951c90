//! Roots that are deleted, and members that leave, while nobody knows what became of a creation.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use limen_core::federated::ObjectId;
use limen_hub::{UnjoinOptions, unjoin};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::rig::{ApiServer, Rig, eventually, id_of};

/// What becomes of the answers of a member.
#[derive(Clone, Copy, PartialEq)]
enum Answers {
    /// They go through.
    Pass,
    /// They wait.
    Wait,
}

/// The way to a member, on which answers can be stopped. What is asked always goes through.
struct Detour {
    address: SocketAddr,
    answers: watch::Sender<Answers>,
    /// Ends every connection, with all answers that wait.
    cut: watch::Sender<u64>,
}

impl Detour {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (answers, passing) = watch::channel(Answers::Pass);
        let (cut, cutting) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (passing, mut cutting) = (passing.clone(), cutting.clone());
                cutting.mark_unchanged();
                tokio::spawn(async move {
                    tokio::select! {
                        () = through(client, server, passing) => {}
                        _ = cutting.changed() => {}
                    }
                });
            }
        });
        Self { address, answers, cut }
    }

    fn hold_answers(&self) {
        self.answers.send_replace(Answers::Wait);
    }

    fn let_answers_through(&self) {
        self.answers.send_replace(Answers::Pass);
    }

    /// Loses what waits; what comes after goes through.
    fn lose_answers(&self) {
        self.cut.send_modify(|times| *times += 1);
        self.let_answers_through();
    }
}

async fn through(client: TcpStream, server: SocketAddr, mut passing: watch::Receiver<Answers>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let asking = async {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
    };
    let answering = async {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
            if passing.wait_for(|answers| *answers == Answers::Pass).await.is_err()
                || to_client.write_all(&buffer[..read]).await.is_err()
            {
                return;
            }
        }
    };
    tokio::join!(asking, answering);
}

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "default"}, "data": {"key": "value"}})
}

fn cluster() -> ObjectId {
    id_of(&json!({"apiVersion": "limen.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "asia-1"}}))
}

fn present(object: Option<&Value>) -> bool {
    object.is_some()
}

fn absent(object: Option<&Value>) -> bool {
    object.is_none()
}

/// A hub with a member as usual, and with another one behind a detour.
async fn rig() -> (Rig, Arc<Detour>) {
    let mut rig = Rig::start(&["europe-1"]).await;
    let mut member = ApiServer::start().await;
    let port = member.config.cluster_url.port_u16().unwrap();
    let detour = Detour::to(([127, 0, 0, 1], port).into()).await;
    member.config.cluster_url = format!("https://{}", detour.address).parse().unwrap();
    rig.join("asia-1", &member).await;
    rig.members.insert("asia-1".to_owned(), member);
    rig.eventually_on_hub(&cluster(), |cluster| {
        cluster.is_some_and(|cluster| cluster["status"]["verdicts"]["api"]["verdict"] == "Healthy")
    })
    .await;
    // It has been listed and is ready for leaves.
    let first = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "first", "namespace": "default"}});
    rig.hub.create(&first).await;
    rig.eventually_on_hub(&Rig::record(&id_of(&first)), |record| {
        record.is_some_and(|record| record["spec"]["synced"] == "2/2")
    })
    .await;
    (rig, Arc::new(detour))
}

/// Creates a root, of which a member has a leaf without the hub's knowing, and deletes it.
async fn delete_in_doubt(rig: &Rig, detour: &Detour) -> ObjectId {
    let id = id_of(&config_map());
    detour.hold_answers();
    rig.hub.create(&config_map()).await;
    rig.eventually(&id, &["asia-1", "europe-1"], present).await;
    rig.delete(&id).await;
    // The hub has seen the deletion when it acts on it elsewhere, and has heard of that when it has
    // done what came after.
    rig.eventually(&id, &["europe-1"], absent).await;
    let mut after = config_map();
    after["metadata"]["name"] = json!("after");
    rig.hub.create(&after).await;
    rig.eventually(&id_of(&after), &["europe-1"], present).await;
    rig.delete(&id_of(&after)).await;
    rig.eventually(&id_of(&after), &["europe-1"], absent).await;
    id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_deleted_before_its_creation_was_answered_leaves_nothing_behind() {
    let (rig, detour) = rig().await;
    let id = delete_in_doubt(&rig, &detour).await;
    detour.let_answers_through();
    rig.eventually(&id, &["asia-1"], absent).await;
    rig.eventually_on_hub(&id, absent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_deleted_after_the_answer_to_its_creation_was_lost_leaves_nothing_behind() {
    let (rig, detour) = rig().await;
    let id = delete_in_doubt(&rig, &detour).await;
    detour.lose_answers();
    rig.eventually(&id, &["asia-1"], absent).await;
    rig.eventually_on_hub(&id, absent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_started_anew_asks_what_became_of_creations_before_a_root_may_go() {
    let (mut rig, detour) = rig().await;
    let id = delete_in_doubt(&rig, &detour).await;
    rig.kill_federation();
    rig.start_federation().await;
    detour.lose_answers();
    rig.eventually(&id, &["asia-1"], absent).await;
    rig.eventually_on_hub(&id, absent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_started_anew_remembers_for_a_member_that_it_never_reached() {
    let mut rig = Rig::start(&["asia-1"]).await;
    let id = id_of(&config_map());
    rig.hub.create(&config_map()).await;
    rig.eventually(&id, &["asia-1"], present).await;
    rig.stop_federation().await;
    rig.members.get_mut("asia-1").unwrap().stop().await;
    rig.start_federation().await;
    rig.delete(&id).await;
    rig.eventually_on_hub(&id, absent).await;

    rig.members.get_mut("asia-1").unwrap().start_again().await;
    rig.eventually(&id, &["asia-1"], absent).await;
    rig.eventually_on_hub(&cluster(), |cluster| {
        let tombstones = |cluster: &Value| cluster["status"]["tombstones"].clone();
        cluster.is_some_and(|cluster| tombstones(cluster).as_array().is_none_or(Vec::is_empty))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaf_that_turns_up_after_its_root_is_gone_is_deleted() {
    let rig = Rig::start(&["asia-1"]).await;
    let id = id_of(&config_map());
    rig.hub.create(&config_map()).await;
    rig.eventually(&id, &["asia-1"], present).await;
    let mut late = rig.member("asia-1").get(&id).await.unwrap();
    rig.delete(&id).await;
    rig.eventually_on_hub(&id, absent).await;
    assert!(rig.member("asia-1").get(&id).await.is_none());

    // As a request would that was on its way all the time.
    let metadata = late["metadata"].as_object_mut().unwrap();
    metadata.retain(|field, _| ["name", "namespace", "labels", "annotations"].contains(&&**field));
    let mut anothers = late.clone();
    anothers["metadata"]["name"] = json!("anothers");
    anothers["metadata"]["labels"]["limen.dev/root-uid"] = json!("a-root-of-before");
    rig.member("asia-1").create(&anothers).await;
    rig.member("asia-1").create(&late).await;
    rig.eventually(&id, &["asia-1"], absent).await;
    // What nothing is known of is left alone.
    assert!(rig.member("asia-1").get(&id_of(&anothers)).await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_leaves_during_a_creation_loses_that_leaf_too() {
    let (rig, detour) = rig().await;
    let id = id_of(&config_map());
    detour.hold_answers();
    rig.hub.create(&config_map()).await;
    rig.eventually(&id, &["asia-1"], present).await;
    let patience = Duration::from_secs(60);
    let options =
        UnjoinOptions { name: "asia-1".to_owned(), delete_leaves: true, abandon: false, patience };
    let leaving = unjoin(&rig.hub.client, &options);
    let asked = async {
        eventually("the hub wants the leaf to go", async || {
            let record = rig.hub.get(&Rig::record(&id)).await.unwrap_or_default();
            let clusters = record["spec"]["clusters"].as_array().cloned().unwrap_or_default();
            let going = |leaf: &Value| leaf["cluster"] == "asia-1" && leaf["state"] == "Deleting";
            (clusters.iter().any(going), format!("{record:#}"))
        })
        .await;
        detour.let_answers_through();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        left = leaving => drop(left.unwrap()),
        () = asked => {}
    }
    assert!(rig.member("asia-1").get(&id).await.is_none(), "it left with a leaf");
}
