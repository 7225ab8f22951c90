//! The API without a socket: the same answers, for the user that the door was made for.

use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use limen_apiserver::{InProcess, MASTERS, Server};
use serde_json::json;

use crate::server::{Hub, config_map, options, store};

fn client(door: InProcess) -> Client {
    Client::new(door, "default")
}

fn master(server: &Server) -> Api<ConfigMap> {
    Api::default_namespaced(client(server.in_process("controller", &[MASTERS])))
}

fn code(error: kube::Error) -> u16 {
    let kube::Error::Api(status) = error else { panic!("no answer of the API: {error:?}") };
    status.code
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_a_socket_reads_and_writes() {
    let hub = Hub::start().await;
    let maps = master(&hub.server);
    maps.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    let apply = Patch::Apply(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"key": "2"}}));
    let applied = maps.patch("b", &PatchParams::apply("controller"), &apply).await.unwrap();
    let manager = &applied.metadata.managed_fields.unwrap()[0];
    assert_eq!(manager.manager.as_deref(), Some("controller"));
    let listed = maps.list(&ListParams::default()).await.unwrap();
    let names: Vec<_> = listed.into_iter().filter_map(|map| map.metadata.name).collect();
    assert_eq!(names, ["a", "b"]);
    // It is the same API that others see.
    assert_eq!(hub.config_maps().get("b").await.unwrap().data.unwrap()["key"], "2");
    assert_eq!(code(maps.get("c").await.unwrap_err()), 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_door_opens_only_what_its_user_may_do() {
    let hub = Hub::start().await;
    let maps: Api<ConfigMap> =
        Api::default_namespaced(client(hub.server.in_process("ann", &["dev"])));
    assert_eq!(code(maps.get("a").await.unwrap_err()), 403);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "dev-views"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "dev"}]});
    let binding = http::Request::post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings")
        .header("content-type", "application/json")
        .body(role.to_string().into_bytes())
        .unwrap();
    hub.client.request::<serde_json::Value>(binding).await.unwrap();
    let readable = async {
        while maps.list(&ListParams::default()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), readable).await.unwrap();
    let created = maps.create(&PostParams::default(), &config_map("a", "1")).await;
    assert_eq!(code(created.unwrap_err()), 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_through_a_door_are_audited_as_its_user() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let mut options = options(folder.path(), std::sync::Arc::new(store(folder.path())));
    options.audit_log = Some(log.clone());
    let hub = Hub::start_with(folder, options).await;
    master(&hub.server).create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    let Hub { server, folder, .. } = hub;
    server.stop().await;
    let lines = std::fs::read_to_string(&log).unwrap();
    let mine = lines.lines().find(|line| line.contains("\"controller\"")).unwrap();
    let event: serde_json::Value = serde_json::from_str(mine).unwrap();
    assert_eq!(event["verb"], "create");
    assert_eq!(event["user"]["groups"], json!([MASTERS, "system:authenticated"]));
    drop(folder);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_goes_on_until_the_server_stops() {
    let hub = Hub::start().await;
    let maps = master(&hub.server);
    let mut events = pin!(maps.watch(&WatchParams::default(), "0").await.unwrap());
    maps.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    let limit = Duration::from_secs(20);
    let first = tokio::time::timeout(limit, events.try_next()).await.unwrap().unwrap();
    assert!(
        matches!(first, Some(WatchEvent::Added(map)) if map.metadata.name.as_deref() == Some("a"))
    );

    let Hub { server, folder, .. } = hub;
    // A last bookmark may come before the end.
    let end = async { while events.try_next().await.unwrap().is_some() {} };
    let (ended, ()) = tokio::join!(tokio::time::timeout(limit, end), server.stop());
    assert!(ended.is_ok(), "the watch goes on");
    let refusal = maps.get("a").await.unwrap_err();
    assert!(format!("{refusal:?}").contains("Stopped"), "{refusal:?}");
    drop(folder);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_door_does_not_keep_the_store_open() {
    let hub = Hub::start().await;
    let door = hub.server.in_process("controller", &[MASTERS]);
    let Hub { server, folder, .. } = hub;
    server.stop().await;
    // A second server could not open the file while the first has it.
    let again = Hub::start_in(folder).await;
    assert!(client(door).apiserver_version().await.is_err());
    assert!(again.client.apiserver_version().await.is_ok());
}
