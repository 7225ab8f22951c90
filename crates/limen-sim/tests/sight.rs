//! The laws see a hub that breaks them, and only that: a scripted hub writes to one member.

use limen_sim::actor::Actor;
use limen_sim::api::{Call, Cause, Key, Kinds, Reply, Server};
use limen_sim::laws::{Laws, Violation};
use limen_sim::people;
use limen_sim::scenario::Placement;
use limen_sim::selection::plural;
use limen_sim::world::{HUB, Shared};
use serde_json::{Value, json};

const APPLY: &str = "application/apply-patch+yaml";

/// A hub store, a member named europe that has joined, and a hub that does as it is told.
struct Stage(Shared);

impl Stage {
    fn new() -> Self {
        limen_sync::clock::simulate(jiff::Timestamp::UNIX_EPOCH);
        let servers = vec![Server::new(HUB, Kinds::hub()), Server::new("europe", Kinds::member())];
        let stage = Self(Shared::new(1, servers, Laws::all()));
        let uid = stage.0.lock().servers["europe"].identity();
        stage.person(HUB, "clusters.limen.dev", people::cluster("europe", "europe", &uid));
        for server in [HUB, "europe"] {
            stage.person(server, "namespaces", people::object("Namespace", "", "shop", 0));
        }
        stage.0.lock().laws.processes.insert(1, (HUB.to_owned(), false));
        stage
    }

    /// A person writes an object.
    fn person(&self, server: &str, resource: &str, object: Value) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = Key::new(resource, &text("namespace"), &text("name"));
        self.0.lock().change(server, |api, _| api.put(&Actor::Person, &key, object));
    }

    fn root(&self, kind: &str) -> Value {
        self.person(HUB, plural(kind), people::object(kind, "shop", "one", 1));
        self.get(HUB, kind)
    }

    fn get(&self, server: &str, kind: &str) -> Value {
        let key = Key::new(plural(kind), "shop", "one");
        self.0.lock().servers[server].get(&key).cloned().unwrap_or_default()
    }

    /// The leaf that a hub would apply for a root.
    fn leaf(root: &Value, observed: Option<&Value>) -> Value {
        let mut leaf = root.clone();
        leaf["metadata"] = json!({"name": "one", "namespace": "shop",
            "labels": {"limen.dev/hub": "hub", "limen.dev/root-uid": root["metadata"]["uid"]},
            "annotations": {"limen.dev/applied": "hash"}});
        if let Some(observed) = observed {
            for field in ["uid", "resourceVersion"] {
                leaf["metadata"][field] = observed["metadata"][field].clone();
            }
        }
        leaf
    }

    fn hub(&self, method: &str, kind: &str, body: &Value) -> Reply {
        let path = match kind {
            "Job" => "/apis/batch/v1/namespaces/shop/jobs",
            "Deployment" => "/apis/apps/v1/namespaces/shop/deployments",
            _ => "/api/v1/namespaces/shop/configmaps",
        };
        let path = format!("{path}/one?fieldManager=limen&force=true").parse().unwrap();
        let content = if method == "PATCH" { APPLY } else { "application/json" };
        let call = Call::new(method, &path, content, body.to_string().as_bytes());
        let actor = Actor::Hub { process: 1, cluster: "europe".to_owned() };
        let mut world = self.0.lock();
        let now = world.now();
        world.execute("europe", &actor, &call, now)
    }

    fn delete(&self, kind: &str) -> Reply {
        let metadata = self.get("europe", kind)["metadata"].clone();
        let conditions =
            json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]});
        self.hub("DELETE", kind, &json!({"preconditions": conditions}))
    }

    fn broken(&self) -> Vec<u8> {
        self.0.lock().laws.violations().iter().map(|Violation { law, .. }| *law).collect()
    }
}

#[test]
fn a_hub_that_creates_updates_and_deletes_by_the_rules_breaks_nothing() {
    let stage = Stage::new();
    let root = stage.root("ConfigMap");
    stage.hub("PATCH", "ConfigMap", &Stage::leaf(&root, None));
    let observed = stage.get("europe", "ConfigMap");
    stage.person(HUB, "configmaps", {
        let mut changed = root.clone();
        changed["data"]["revision"] = json!("2");
        changed
    });
    let root = stage.get(HUB, "ConfigMap");
    assert_eq!(stage.hub("PATCH", "ConfigMap", &Stage::leaf(&root, Some(&observed))).status, 200);
    let key = Key::new("configmaps", "shop", "one");
    stage.0.lock().change(HUB, |api, _| api.remove(&Actor::Person, &key, false, Cause::Request));
    assert_eq!(stage.delete("ConfigMap").status, 200);
    assert_eq!(stage.broken(), [0_u8; 0]);
}

#[test]
fn a_write_without_uid_and_version_is_seen() {
    let stage = Stage::new();
    let root = stage.root("ConfigMap");
    stage.hub("PATCH", "ConfigMap", &Stage::leaf(&root, None));
    let mut leaf = Stage::leaf(&root, None);
    leaf["data"]["revision"] = json!("2");
    stage.hub("PATCH", "ConfigMap", &leaf);
    assert_eq!(stage.broken(), [1]);
}

#[test]
fn a_change_of_a_foreign_object_is_seen_whatever_its_labels() {
    for labels in [json!({}), json!({"limen.dev/hub": "hub", "limen.dev/root-uid": "forged"})] {
        let stage = Stage::new();
        let mut foreign = people::object("ConfigMap", "shop", "one", 9);
        foreign["metadata"]["labels"] = labels;
        stage.person("europe", "configmaps", foreign);
        let root = stage.root("ConfigMap");
        let observed = stage.get("europe", "ConfigMap");
        stage.hub("PATCH", "ConfigMap", &Stage::leaf(&root, Some(&observed)));
        assert!(stage.broken().contains(&2), "{:?}", stage.broken());
    }
}

#[test]
fn the_deletion_of_a_leaf_whose_root_lives_and_selects_the_cluster_is_seen() {
    let stage = Stage::new();
    let root = stage.root("ConfigMap");
    stage.hub("PATCH", "ConfigMap", &Stage::leaf(&root, None));
    stage.delete("ConfigMap");
    assert_eq!(stage.broken(), [3]);
}

#[test]
fn a_leaf_under_orphan_that_goes_with_its_root_is_seen() {
    let stage = Stage::new();
    let policy = people::policy("shop", "policy", &Placement::Everywhere, true, None, &[]);
    stage.person(HUB, "placementpolicies.limen.dev", policy);
    let root = stage.root("ConfigMap");
    stage.hub("PATCH", "ConfigMap", &Stage::leaf(&root, None));
    for resource in ["placementpolicies.limen.dev", "configmaps"] {
        let name = if resource == "configmaps" { "one" } else { "policy" };
        let key = Key::new(resource, "shop", name);
        stage
            .0
            .lock()
            .change(HUB, |api, _| api.remove(&Actor::Person, &key, false, Cause::Request));
    }
    stage.delete("ConfigMap");
    assert_eq!(stage.broken(), [3]);
}

#[test]
fn a_leaf_outside_the_last_placement_is_seen_when_the_policy_is_gone_or_unreadable() {
    for after in [None, Some(Placement::Malformed), Some(Placement::Broken)] {
        let stage = Stage::new();
        let nowhere = Placement::Only(Vec::new());
        let write = |placement: &Placement| {
            let policy = people::policy("shop", "policy", placement, false, None, &[]);
            stage.person(HUB, "placementpolicies.limen.dev", policy);
        };
        write(&nowhere);
        let root = stage.root("ConfigMap");
        let record = json!({
            "metadata": {"name": "configmap.one", "namespace": "shop",
                "ownerReferences": [{"uid": root["metadata"]["uid"]}]},
            "spec": {"governed": {"policy": "policy", "clusters": []}}});
        stage.person(HUB, "federatedstatuses.limen.dev", record);
        match &after {
            Some(placement) => write(placement),
            None => {
                let key = Key::new("placementpolicies.limen.dev", "shop", "policy");
                stage
                    .0
                    .lock()
                    .change(HUB, |api, _| api.remove(&Actor::Person, &key, false, Cause::Request));
            }
        }
        stage.hub("PATCH", "ConfigMap", &Stage::leaf(&root, None));
        assert_eq!(stage.broken(), [6], "{after:?}");
    }
}

#[test]
fn replicas_that_fall_by_letting_go_of_the_field_are_seen() {
    let stage = Stage::new();
    let root = stage.root("Deployment");
    stage.hub("PATCH", "Deployment", &Stage::leaf(&root, None));
    let observed = stage.get("europe", "Deployment");
    let mut leaf = Stage::leaf(&root, Some(&observed));
    leaf["spec"].as_object_mut().unwrap().remove("replicas");
    stage.hub("PATCH", "Deployment", &leaf);
    assert_eq!(stage.broken(), [9]);
}

#[test]
fn a_job_that_has_finished_and_is_created_again_is_seen() {
    let stage = Stage::new();
    let root = stage.root("Job");
    stage.hub("PATCH", "Job", &Stage::leaf(&root, None));
    let mut finished = stage.get("europe", "Job");
    finished["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    stage.person("europe", "jobs.batch", finished);
    let key = Key::new("jobs.batch", "shop", "one");
    stage
        .0
        .lock()
        .change("europe", |api, _| api.remove(&Actor::Person, &key, false, Cause::Request));
    stage.hub("PATCH", "Job", &Stage::leaf(&root, None));
    assert_eq!(stage.broken(), [12]);
}

#[test]
fn a_member_that_is_written_under_two_names_is_seen() {
    let stage = Stage::new();
    let uid = stage.0.lock().servers["europe"].identity();
    stage.person(HUB, "clusters.limen.dev", people::cluster("twin", "europe", &uid));
    let root = stage.root("ConfigMap");
    stage.hub("PATCH", "ConfigMap", &Stage::leaf(&root, None));
    let observed = stage.get("europe", "ConfigMap");
    let mut leaf = Stage::leaf(&root, Some(&observed));
    leaf["data"]["revision"] = json!("2");
    let path = "/api/v1/namespaces/shop/configmaps/one?fieldManager=limen&force=true";
    let call = Call::new("PATCH", &path.parse().unwrap(), APPLY, leaf.to_string().as_bytes());
    let twin = Actor::Hub { process: 1, cluster: "twin".to_owned() };
    stage.0.lock().execute("europe", &twin, &call, 0);
    assert_eq!(stage.broken(), [8]);
}
