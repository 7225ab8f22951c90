//! Watches.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams, WatchEvent, WatchParams};

use crate::server::{Hub, config_map};

fn shown(event: WatchEvent<ConfigMap>) -> (&'static str, String) {
    let (kind, object) = match event {
        WatchEvent::Added(object) => ("ADDED", object),
        WatchEvent::Modified(object) => ("MODIFIED", object),
        WatchEvent::Deleted(object) => ("DELETED", object),
        WatchEvent::Bookmark(_) => return ("BOOKMARK", String::new()),
        WatchEvent::Error(status) => return ("ERROR", status.reason),
    };
    (kind, object.metadata.name.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_shows_what_comes_to_match_and_what_ceases_to() {
    let hub = Hub::start().await;
    let objects = hub.config_maps();
    let params = WatchParams::default().labels("color=red");
    let from = objects.list(&Default::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut watch = objects.watch(&params, &from).await.unwrap().boxed();

    let coloured = |object: &ConfigMap, color: &str| {
        let mut object = object.clone();
        object.metadata.labels =
            Some([("color".to_owned(), color.to_owned())].into_iter().collect());
        object
    };
    let post = PostParams::default();
    let object = objects.create(&post, &config_map("a", "1")).await.unwrap();
    let object = objects.replace("a", &post, &coloured(&object, "red")).await.unwrap();
    let mut object = coloured(&object, "red");
    object.data = None;
    let object = objects.replace("a", &post, &object).await.unwrap();
    objects.replace("a", &post, &coloured(&object, "blue")).await.unwrap();
    objects.create(&post, &coloured(&config_map("b", "1"), "red")).await.unwrap();
    objects.delete("b", &DeleteParams::default()).await.unwrap();

    let mut seen = Vec::new();
    for _ in 0..5 {
        let next = tokio::time::timeout(Duration::from_secs(30), watch.next()).await.unwrap();
        seen.push(shown(next.unwrap().unwrap()));
    }
    let expected =
        [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b"), ("DELETED", "b")];
    assert_eq!(seen, expected.map(|(kind, name)| (kind, name.to_owned())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_from_the_future_is_told_to_start_over() {
    let hub = Hub::start().await;
    let objects = hub.config_maps();
    let newest = objects.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    let newest: u64 = newest.metadata.resource_version.unwrap().parse().unwrap();
    let next = |version: u64| {
        let objects = objects.clone();
        async move {
            let version = version.to_string();
            let mut watch = objects.watch(&WatchParams::default(), &version).await.unwrap().boxed();
            objects.delete("a", &DeleteParams::default()).await.unwrap();
            let next = tokio::time::timeout(Duration::from_secs(30), watch.next()).await;
            shown(next.unwrap().unwrap().unwrap())
        }
    };
    assert_eq!(next(newest).await, ("DELETED", "a".to_owned()), "it is not in the future");
    objects.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    // As of a store that has been replaced by a backup since.
    assert_eq!(next(newest + 1000).await, ("ERROR", "Expired".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_the_server_ends_watches() {
    let hub = Hub::start().await;
    let objects = hub.config_maps();
    let mut watch = objects.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let Hub { server, .. } = hub;
    tokio::time::timeout(Duration::from_secs(30), server.stop()).await.expect("it stops");
    let rest = async { while let Some(Ok(_)) = watch.next().await {} };
    tokio::time::timeout(Duration::from_secs(30), rest).await.expect("the watch has ended");
}
