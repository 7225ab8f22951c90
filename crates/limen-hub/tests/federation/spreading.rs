//! Roots, leaves, and what is merged from them.

use limen_core::leaf::HUB_LABEL;
use serde_json::{Value, json};

use crate::rig::{Rig, eventually, id_of};

fn ingress(name: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"rules": [{"host": "shop.example.com", "http": {"paths": [{
            "path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}})
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"key": value}})
}

fn selecting(mut object: Value, location: &str) -> Value {
    object["metadata"]["annotations"]["federation.alpha.kubernetes.io/cluster-selector"] =
        json!(format!(r#"[{{"key": "location", "operator": "in", "values": ["{location}"]}}]"#));
    object
}

fn present(object: Option<&Value>) -> bool {
    object.is_some()
}

fn absent(object: Option<&Value>) -> bool {
    object.is_none()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ingress_is_in_every_member_and_its_status_is_what_they_say() {
    let rig = Rig::start(&["asia-1", "europe-1"]).await;
    let root = ingress("web");
    let id = id_of(&root);
    rig.hub.create(&root).await;
    rig.eventually(&id, &["asia-1", "europe-1"], present).await;

    for (name, address) in [("asia-1", "192.0.2.1"), ("europe-1", "2001:db8::1")] {
        let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": address}]}}});
        rig.member(name).api().merge(&id, "/status", &status).await.unwrap();
    }
    let addresses = json!([{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}]);
    rig.eventually_on_hub(&id, |root| {
        root.is_some_and(|root| root["status"]["loadBalancer"]["ingress"] == addresses)
    })
    .await;
    let record = rig
        .eventually_on_hub(&Rig::record(&id), |record| {
            record.is_some_and(|record| {
                record["spec"]["synced"] == "2/2"
                    && (0..2).all(|index| {
                        let status = &record["spec"]["clusters"][index]["status"];
                        status["loadBalancer"]["ingress"].is_array()
                    })
            })
        })
        .await
        .unwrap();
    let clusters = &record["spec"]["clusters"];
    assert_eq!(clusters[0]["cluster"], "asia-1");
    assert_eq!(clusters[0]["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.1");
    let events = rig.events(&id).await;
    assert!(events.iter().any(|(reason, _)| reason == "CreateInCluster"), "{events:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_a_removed_field_and_a_deletion_reach_every_member() {
    let rig = Rig::start(&["asia-1", "europe-1"]).await;
    let mut root = config_map("settings", "one");
    root["metadata"]["annotations"] = json!({"note": "x"});
    let id = id_of(&root);
    rig.hub.create(&root).await;
    let all = ["asia-1", "europe-1"];
    rig.eventually(&id, &all, |leaf| {
        leaf.is_some_and(|leaf| leaf["metadata"]["annotations"]["note"] == "x")
    })
    .await;

    let change = json!({"data": {"key": null, "other": "two"},
        "metadata": {"annotations": {"note": null}}});
    rig.hub.api().merge(&id, "", &change).await.unwrap();
    rig.eventually(&id, &all, |leaf| {
        leaf.is_some_and(|leaf| {
            leaf["data"] == json!({"other": "two"})
                && leaf["metadata"]["annotations"]["note"].is_null()
        })
    })
    .await;

    rig.delete(&id).await;
    rig.eventually(&id, &all, absent).await;
    rig.eventually_on_hub(&id, absent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selectors_follow_labels_of_roots_and_of_clusters() {
    let rig = Rig::start(&["asia-1", "europe-1", "europe-2"]).await;
    let root = selecting(config_map("settings", "one"), "europe");
    let id = id_of(&root);
    rig.hub.create(&root).await;
    rig.eventually(&id, &["europe-1", "europe-2"], present).await;
    assert!(rig.member("asia-1").get(&id).await.is_none());

    let cluster = id_of(&json!({"apiVersion": "limen.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "europe-2"}}));
    let moved = json!({"metadata": {"labels": {"location": "asia"}}});
    rig.hub.api().merge(&cluster, "", &moved).await.unwrap();
    rig.eventually(&id, &["europe-2"], absent).await;
    assert!(rig.member("europe-1").get(&id).await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_selector_that_is_not_understood_changes_nothing() {
    let rig = Rig::start(&["asia-1"]).await;
    let root = config_map("settings", "one");
    let id = id_of(&root);
    rig.hub.create(&root).await;
    rig.eventually(&id, &["asia-1"], present).await;
    let broken = json!({"data": {"key": "two"}, "metadata": {"annotations": {
        "federation.alpha.kubernetes.io/cluster-selector": "[{"}}});
    rig.hub.api().merge(&id, "", &broken).await.unwrap();
    rig.eventually_on_hub(&Rig::record(&id), |record| {
        record.is_some_and(|record| {
            record["spec"]["message"].as_str().is_some_and(|text| text.contains("not a JSON array"))
        })
    })
    .await;
    let leaf = rig.member("asia-1").get(&id).await.unwrap();
    assert_eq!(leaf["data"]["key"], "one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_is_corrected_and_the_members_own_fields_stay() {
    let rig = Rig::start(&["asia-1"]).await;
    let root = config_map("settings", "one");
    let id = id_of(&root);
    rig.hub.create(&root).await;
    rig.eventually(&id, &["asia-1"], present).await;

    let member = rig.member("asia-1").api();
    let meddling = json!({"data": {"key": "changed"}, "metadata": {"labels": {"team": "local"}}});
    member.merge(&id, "", &meddling).await.unwrap();
    rig.eventually(&id, &["asia-1"], |leaf| leaf.is_some_and(|leaf| leaf["data"]["key"] == "one"))
        .await;
    let leaf = rig.member("asia-1").get(&id).await.unwrap();
    assert_eq!(leaf["metadata"]["labels"]["team"], "local");
    eventually("an event names the field", async || {
        let events = rig.events(&id).await;
        (
            events.iter().any(|(_, message)| message.contains("Corrected data.key")),
            format!("{events:?}"),
        )
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_member_had_before_is_adopted_or_left_alone() {
    let rig = Rig::start(&["asia-1"]).await;
    let (theirs, ours) = (config_map("settings", "theirs"), config_map("settings", "ours"));
    let id = id_of(&ours);
    rig.member("asia-1").create(&theirs).await;
    rig.hub.create(&ours).await;
    rig.eventually_on_hub(&Rig::record(&id), |record| {
        record.is_some_and(|record| record["spec"]["clusters"][0]["state"] == "Conflict")
    })
    .await;
    assert_eq!(rig.member("asia-1").get(&id).await.unwrap()["data"]["key"], "theirs");
    eventually("an event says so", async || {
        let events = rig.events(&id).await;
        let said = |(reason, message): &(String, String)| {
            reason == "CreateInClusterFailed"
                && message.starts_with("cluster asia-1: the cluster already has such an object")
        };
        (events.iter().filter(|event| said(event)).count() == 1, format!("{events:?}"))
    })
    .await;

    let (mut before, after) = (ingress("web"), ingress("web"));
    before["spec"]["rules"][0]["host"] = json!("old.example.com");
    rig.member("asia-1").create(&before).await;
    rig.hub.create(&after).await;
    rig.eventually(&id_of(&after), &["asia-1"], |leaf| {
        leaf.is_some_and(|leaf| {
            leaf["spec"]["rules"][0]["host"] == "shop.example.com"
                && leaf["metadata"]["labels"][HUB_LABEL].is_string()
        })
    })
    .await;

    // Deleting the root that never took hold leaves their object alone.
    rig.delete(&id).await;
    rig.eventually_on_hub(&id, absent).await;
    assert!(rig.member("asia-1").get(&id).await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_places_overrides_and_orphans() {
    let rig = Rig::start(&["asia-1", "europe-1"]).await;
    let policy = json!({
        "apiVersion": "limen.dev/v1alpha1", "kind": "PlacementPolicy",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "roots": [{"kind": "ConfigMap"}],
            "placement": {"clusters": [{"name": "europe-1"}]},
            "overrides": [{"clusterName": "europe-1", "clusterOverrides": [
                {"path": "/data/key", "value": "europe"}]}],
            "onDelete": "Orphan"}});
    rig.hub.create(&policy).await;
    let root = config_map("settings", "one");
    let id = id_of(&root);
    rig.hub.create(&root).await;
    rig.eventually(&id, &["europe-1"], |leaf| {
        leaf.is_some_and(|leaf| leaf["data"]["key"] == "europe")
    })
    .await;
    assert!(rig.member("asia-1").get(&id).await.is_none());

    rig.delete(&id).await;
    rig.eventually_on_hub(&id, absent).await;
    rig.eventually(&id, &["europe-1"], |leaf| {
        leaf.is_some_and(|leaf| leaf["metadata"]["labels"][HUB_LABEL].is_null())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_three_objects_of_the_seed_apply_verbatim() {
    let rig = Rig::start(&["cluster1", "cluster2", "cluster3"]).await;
    let group = "core.federation.k8s.io/v1alpha1";
    let metadata = json!({"namespace": "default", "name": "frontend"});
    for (kind, spec) in [
        (
            "FederatedReplicaSet",
            json!({"template": {
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "nginx-deployment", "labels": {"app": "nginx"}},
            "spec": {
                "replicas": 5, "selector": {"matchLabels": {"app": "nginx"}},
                "template": {"metadata": {"labels": {"app": "nginx"}}, "spec": {"containers": [
                    {"name": "nginx", "image": "nginx:1.7.9", "ports": [{"containerPort": 80}]}]}}}}}),
        ),
        ("FederatedReplicaSetPlacement", json!({"clusterNames": ["cluster1", "cluster2"]})),
        (
            "FederatedReplicaSetOverride",
            json!({"overrides": [{"clusterName": "cluster2", "replicas": 10}]}),
        ),
    ] {
        let object = json!({"apiVersion": group, "kind": kind, "metadata": metadata, "spec": spec});
        rig.hub.create(&object).await;
    }
    let leaf = id_of(&json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata}));
    for (name, replicas) in [("cluster1", 5), ("cluster2", 10)] {
        rig.eventually(&leaf, &[name], |leaf| {
            leaf.is_some_and(|leaf| leaf["spec"]["replicas"] == replicas)
        })
        .await;
    }
    assert!(rig.member("cluster3").get(&leaf).await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_come_before_what_is_in_them_and_go_after() {
    let rig = Rig::start(&["asia-1"]).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let mut root = config_map("settings", "one");
    root["metadata"]["namespace"] = json!("shop");
    rig.hub.create(&namespace).await;
    rig.hub.create(&root).await;
    rig.eventually(&id_of(&root), &["asia-1"], present).await;

    let id = id_of(&namespace);
    rig.delete(&id).await;
    rig.eventually(&id, &["asia-1"], absent).await;
    rig.eventually_on_hub(&id, absent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_rest_nothing_is_written_anywhere() {
    let rig = Rig::start(&["asia-1", "europe-1"]).await;
    for name in ["one", "two", "three"] {
        let root = config_map(name, "x");
        rig.hub.create(&root).await;
        rig.eventually_on_hub(&Rig::record(&id_of(&root)), |record| {
            record.is_some_and(|record| record["spec"]["synced"] == "2/2")
        })
        .await;
    }
    let revision = async |server: &crate::rig::ApiServer| {
        let kind = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
        server.api().list(&kind, "").await.unwrap().1
    };
    // Records are written a moment after what they are about.
    let mut before = String::new();
    eventually("the hub is at rest", async || {
        let now = revision(&rig.hub).await;
        let rest = now == before;
        before = now;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        (rest, before.clone())
    })
    .await;
    let members = [revision(rig.member("asia-1")).await, revision(rig.member("europe-1")).await];
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(revision(&rig.hub).await, before);
    let after = [revision(rig.member("asia-1")).await, revision(rig.member("europe-1")).await];
    assert_eq!(after, members);
}

/// Every record of a root and of a member, with its version.
async fn records(rig: &Rig) -> Vec<(String, String)> {
    let mut versions = Vec::new();
    for (kind, plural, namespaced) in
        [("FederatedStatus", "federatedstatuses", true), ("Cluster", "clusters", false)]
    {
        let kind = limen_api::kind(("limen.dev/v1alpha1", kind, plural, namespaced));
        for object in rig.hub.api().list(&kind, "").await.unwrap().0 {
            let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
            versions.push((text("name"), text("resourceVersion")));
        }
    }
    versions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_that_starts_anew_finds_its_records_as_they_are() {
    let mut rig = Rig::start(&["asia-1", "europe-1"]).await;
    let synced =
        |record: Option<&Value>| record.is_some_and(|record| record["spec"]["synced"] == "2/2");
    for name in ["one", "two", "three"] {
        rig.hub.create(&config_map(name, "x")).await;
    }
    for name in ["one", "two", "three"] {
        let record = Rig::record(&id_of(&config_map(name, "x")));
        rig.eventually_on_hub(&record, synced).await;
    }
    for name in ["asia-1", "europe-1"] {
        let cluster = id_of(&json!({"apiVersion": "limen.dev/v1alpha1", "kind": "Cluster",
            "metadata": {"name": name}}));
        rig.eventually_on_hub(&cluster, |cluster| {
            cluster.is_some_and(|cluster| cluster["status"]["leaves"] == 3)
        })
        .await;
    }
    let mut before = Vec::new();
    eventually("the hub is at rest", async || {
        let now = records(&rig).await;
        let rest = now == before;
        before = now;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        (rest, format!("{before:?}"))
    })
    .await;
    rig.stop_federation().await;
    // Times are in seconds: in the next one they would differ.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    rig.start_federation().await;
    // Long enough for everything that is not known at once to be written down.
    tokio::time::sleep(std::time::Duration::from_secs(13)).await;
    assert_eq!(records(&rig).await, before);
}
