//! Real Kubernetes members, and both homes of the hub.

use std::process::Command;

use limen_api::dialect::Home;
use limen_core::leaf::HUB_LABEL;
use limen_hub::{Election, UnjoinOptions, unjoin};
use limen_testbed::ControlPlane;
use serde_json::{Value, json};

use crate::rig::{ApiServer, Rig, eventually, id_of};

const ALL: [&str; 3] = ["cluster1", "cluster2", "cluster3"];

/// Three members that differ: by label, and by what they hold already.
async fn members(rig: &mut Rig) -> Vec<ControlPlane> {
    let mut planes = Vec::new();
    for (name, location) in ALL.into_iter().zip(["europe", "asia", "europe"]) {
        let plane = ControlPlane::start().await.unwrap();
        let member = ApiServer::running(plane.kubeconfig_path()).await;
        let labels = [("location", location), ("environment", "prod")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        rig.join_with(name, &member, labels).await;
        rig.members.insert(name.to_owned(), member);
        planes.push(plane);
    }
    planes
}

fn signal(process: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &process.to_string()]).status().unwrap().success());
}

fn present(object: Option<&Value>) -> bool {
    object.is_some()
}

fn absent(object: Option<&Value>) -> bool {
    object.is_none()
}

fn ingress(name: &str, host: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"rules": [{"host": host, "http": {"paths": [{
            "path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_real_members_under_the_embedded_hub() {
    let mut rig = Rig::around(ApiServer::start().await, Home::Embedded).await;
    let planes = members(&mut rig).await;

    // The ConfigMap of the notes: a selector with two requirements.
    let selecting = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"myconfigkey": "myconfigdata"},
        "metadata": {
            "annotations": {"federation.alpha.kubernetes.io/cluster-selector":
                "[{\"key\": \"location\", \"operator\": \"in\", \"values\": [\"europe\"]}, {\"key\": \"environment\", \"operator\": \"==\", \"values\": [\"prod\"]}]"},
            "creationTimestamp": "2017-02-07T19:43:40Z", "name": "myconfig", "namespace": "default"}});
    let config = id_of(&selecting);
    rig.hub.create(&selecting).await;
    rig.eventually(&config, &["cluster1", "cluster3"], present).await;
    assert!(rig.member("cluster2").get(&config).await.is_none());

    // Template, placement and override of the notes: 5 replicas here, 10 there.
    let metadata = json!({"namespace": "default", "name": "frontend"});
    for (kind, spec) in [
        (
            "FederatedReplicaSet",
            json!({"template": {
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "nginx-deployment", "labels": {"app": "nginx"}},
            "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "nginx"}},
                "template": {"metadata": {"labels": {"app": "nginx"}}, "spec": {"containers": [
                    {"name": "nginx", "image": "nginx:1.7.9", "ports": [{"containerPort": 80}]}]}}}}}),
        ),
        ("FederatedReplicaSetPlacement", json!({"clusterNames": ["cluster1", "cluster2"]})),
        (
            "FederatedReplicaSetOverride",
            json!({"overrides": [{"clusterName": "cluster2", "replicas": 10}]}),
        ),
    ] {
        let group = "core.federation.k8s.io/v1alpha1";
        let object = json!({"apiVersion": group, "kind": kind, "metadata": metadata, "spec": spec});
        rig.hub.create(&object).await;
    }
    let leaf = id_of(&json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata}));
    for (name, replicas) in [("cluster1", 5), ("cluster2", 10)] {
        let fits =
            |leaf: Option<&Value>| leaf.is_some_and(|leaf| leaf["spec"]["replicas"] == replicas);
        rig.eventually(&leaf, &[name], fits).await;
    }

    // An Ingress that one member had before is adopted, and everybody's addresses are merged.
    let root = ingress("myingress", "new.example.com");
    let id = id_of(&root);
    rig.member("cluster3").create(&ingress("myingress", "old.example.com")).await;
    rig.hub.create(&root).await;
    rig.eventually(&id, &ALL, |leaf| {
        leaf.is_some_and(|leaf| {
            leaf["spec"]["rules"][0]["host"] == "new.example.com"
                && leaf["metadata"]["labels"][HUB_LABEL].is_string()
        })
    })
    .await;
    for (name, address) in ALL.into_iter().zip(["192.0.2.1", "192.0.2.2", "192.0.2.3"]) {
        let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": address}]}}});
        rig.member(name).api().merge(&id, "/status", &status).await.unwrap();
    }
    let merged = json!([{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}, {"ip": "192.0.2.3"}]);
    rig.eventually_on_hub(&id, |root| {
        root.is_some_and(|root| root["status"]["loadBalancer"]["ingress"] == merged)
    })
    .await;

    // Drift is corrected.
    let meddling = json!({"spec": {"rules": [{"host": "wrong.example.com"}]}});
    rig.member("cluster1").api().merge(&id, "", &meddling).await.unwrap();
    rig.eventually(&id, &["cluster1"], |leaf| {
        leaf.is_some_and(|leaf| leaf["spec"]["rules"][0]["host"] == "new.example.com")
    })
    .await;

    // A member that hangs delays no other; what is deleted meanwhile is gone when it is back.
    signal(planes[2].apiserver_pid(), "-STOP");
    let late = ingress("late", "late.example.com");
    rig.hub.create(&late).await;
    rig.eventually(&id_of(&late), &["cluster1", "cluster2"], present).await;
    rig.eventually_on_hub(&Rig::record(&id), |record| {
        record.is_some_and(|record| record["spec"]["clusters"][2]["stale"] == true)
    })
    .await;
    rig.delete(&config).await;
    rig.eventually_on_hub(&config, absent).await;
    signal(planes[2].apiserver_pid(), "-CONT");
    rig.eventually(&id_of(&late), &["cluster3"], present).await;
    rig.eventually(&config, &["cluster1", "cluster3"], absent).await;

    // Deleting with orphans leaves the leaves.
    let orphaning =
        json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan"});
    let path = limen_sync::object_path(&id_of(&late));
    let request = http::Request::delete(path)
        .header("content-type", "application/json")
        .body(orphaning.to_string().into_bytes())
        .unwrap();
    rig.hub.client.request::<Value>(request).await.unwrap();
    rig.eventually_on_hub(&id_of(&late), absent).await;
    rig.eventually(&id_of(&late), &ALL, |leaf| {
        leaf.is_some_and(|leaf| leaf["metadata"]["labels"][HUB_LABEL].is_null())
    })
    .await;

    // A member that leaves keeps what it has; the others lose it with the root.
    let patience = std::time::Duration::from_secs(60);
    let options = UnjoinOptions {
        name: "cluster3".to_owned(),
        delete_leaves: false,
        abandon: false,
        patience,
    };
    unjoin(&rig.hub.client, &options).await.unwrap();
    rig.delete(&id).await;
    rig.eventually(&id, &["cluster1", "cluster2"], absent).await;
    let kept = rig.member("cluster3").get(&id).await.unwrap();
    assert!(kept["metadata"]["labels"][HUB_LABEL].is_null(), "{kept:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_existing_kubernetes_is_a_hub_that_takes_only_what_it_is_given() {
    let home = ControlPlane::start().await.unwrap();
    let hub = ApiServer::running(home.kubeconfig_path()).await;
    assert!(!limen_hub::is_own(&hub.client).await.unwrap());
    let mut rig = Rig::around(hub, Home::Existing).await;
    let plane = ControlPlane::start().await.unwrap();
    let member = ApiServer::running(plane.kubeconfig_path()).await;
    rig.join("europe-1", &member).await;
    rig.members.insert("europe-1".to_owned(), member);

    let policy = json!({
        "apiVersion": "limen.dev/v1alpha1", "kind": "PlacementPolicy",
        "metadata": {"name": "front", "namespace": "default"},
        "spec": {"roots": [{"kind": "Ingress"}], "placement": {"clusterSelector": {}}}});
    rig.hub.create(&policy).await;
    let given = ingress("given", "a.example.com");
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "theirs", "namespace": "default"}, "data": {"key": "value"}});
    rig.hub.create(&theirs).await;
    rig.hub.create(&given).await;
    rig.eventually(&id_of(&given), &["europe-1"], present).await;
    assert!(rig.member("europe-1").get(&id_of(&theirs)).await.is_none());
    let untouched = rig.hub.get(&id_of(&theirs)).await.unwrap();
    assert!(untouched["metadata"]["finalizers"].is_null(), "{untouched:#}");

    // Of two hubs one leads.
    let mut first = Election::new(rig.hub.client.clone(), "first".to_owned());
    let mut second = Election::new(rig.hub.client.clone(), "second".to_owned());
    first.win().await;
    let soon = std::time::Duration::from_secs(4);
    assert!(tokio::time::timeout(soon, second.win()).await.is_err());

    rig.delete(&id_of(&given)).await;
    rig.eventually(&id_of(&given), &["europe-1"], absent).await;
    rig.eventually_on_hub(&id_of(&given), absent).await;
    eventually("nothing is left to hold the hub back", async || {
        let found = rig.hub.get(&id_of(&given)).await;
        (found.is_none(), format!("{found:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_cluster_says_itself_what_it_does_not_have() {
    let plane = ControlPlane::start().await.unwrap();
    let cluster = ApiServer::running(plane.kubeconfig_path()).await;
    for kind in [
        ("things.example.com/v1", "Thing", "things", true),
        ("apps/v9", "Deployment", "deployments", true),
        ("apps/v1", "Nonsense", "nonsenses", true),
        ("v1", "Nonsense", "nonsenses", true),
    ] {
        let (tell, mut seen) = tokio::sync::mpsc::channel(1);
        let kind = limen_api::kind(kind);
        let following = tokio::spawn(limen_sync::follow(cluster.api(), kind, String::new(), tell));
        let (kind, first) = seen.recv().await.unwrap();
        following.abort();
        let expected = match kind.api_version.as_str() {
            // It has the kind, in another version.
            "apps/v9" => matches!(&first, limen_sync::Seen::OtherVersions(_)),
            _ => matches!(&first, limen_sync::Seen::UnknownKind),
        };
        assert!(expected, "{kind:?}: {first:?}");
    }
    assert!(cluster.get(&id_of(&ingress("web", "web.test"))).await.is_none());
}
