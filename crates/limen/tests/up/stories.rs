//! `limen play`: every story ends well, also right after the others, and leaves things as they were.

use std::path::Path;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use limen_api::Cluster;
use serde_json::json;

use crate::rig::{Up, limen};

fn play(story: &str, folder: &Path) {
    let output = limen(&["play", story, "--quick", "--data-dir"]).arg(folder).output().unwrap();
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("--- {story}\n{said}");
    assert!(output.status.success(), "{story}: {complained}");
    assert!(said.ends_with("The story ended well.\n"), "{story}: {said}");
    assert!(!said.contains('\x1b'), "there is no terminal to draw on: {said:?}");
}

#[test]
fn all_stories_end_well_one_after_another() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--clusters", "3"]);
    for story in ["failover", "canary", "drain", "rejoin", "split-brain", "overflow", "failover"] {
        play(story, folder.path());
    }
    let (_, answer) = up.ask_gateway();
    assert_eq!(
        (&answer["cluster"], &answer["version"]),
        (&"gce-us-central1a".into(), &"v1".into())
    );
    for cluster in up.state()["clusters"].as_array().unwrap() {
        assert_eq!(cluster["pods"].as_array().unwrap().len(), 2, "{cluster}");
        assert_eq!(cluster["faults"]["killed"], false, "{cluster}");
    }
    up.terminate();
}

async fn hub(folder: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(folder.join("kubeconfig")).unwrap();
    let context = Some("federation".to_owned());
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_story_leaves_what_a_person_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--clusters", "3"]);
    let last = up.address("/clusters/2/name");
    let hub = hub(folder.path()).await;
    let (clusters, deployments): (Api<Cluster>, Api<Deployment>) =
        (Api::all(hub.clone()), Api::default_namespaced(hub));
    let merge = PatchParams::default();
    let drained = json!({"spec": {"drain": true}});
    clusters.patch(&last, &merge, &Patch::Merge(&drained)).await.unwrap();
    let scaled = json!({"spec": {"replicas": 1}});
    deployments.patch("hello", &merge, &Patch::Merge(&scaled)).await.unwrap();

    let played = folder.path().to_owned();
    tokio::task::spawn_blocking(move || play("failover", &played)).await.unwrap();
    assert!(clusters.get(&last).await.unwrap().spec.drain, "{last} was drained before");
    let spec = deployments.get("hello").await.unwrap().spec.unwrap();
    assert_eq!(spec.replicas, Some(1));
    up.terminate();
}
