//! Writing and deleting objects.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Error};
use limen_store::{Expect, Store, Txn, WriteOp};
use serde_json::json;

use crate::server::{Hub, config_map, options, store};
use crate::trick_store::TrickStore;

#[track_caller]
fn assert_refused<T>(result: Result<T, Error>, code: u16, reason: &str) -> String {
    match result {
        Err(Error::Api(status)) => {
            assert_eq!((status.code, status.reason.as_str()), (code, reason), "{status:?}");
            status.message
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("expected {code} {reason}"),
    }
}

/// Waits until a lookup finds nothing any more.
pub(crate) async fn gone<K>(objects: &Api<K>, name: &str)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let deadline = Instant::now() + Duration::from_secs(30);
    while objects.get_opt(name).await.unwrap().is_some() {
        assert!(Instant::now() < deadline, "{name} is still there");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_written_and_conflicts_told() {
    let hub = Hub::start().await;
    let objects = hub.config_maps();
    let post = PostParams::default();
    let created = objects.create(&post, &config_map("a", "1")).await.unwrap();
    let message =
        assert_refused(objects.create(&post, &config_map("a", "1")).await, 409, "AlreadyExists");
    assert_eq!(message, "configmaps \"a\" already exists");

    let mut changed = created.clone();
    changed.data = config_map("a", "2").data;
    let updated = objects.replace("a", &post, &changed).await.unwrap();
    assert_ne!(updated.metadata.resource_version, created.metadata.resource_version);
    assert_refused(objects.replace("a", &post, &created).await, 409, "Conflict");
    let unchanged = objects.replace("a", &post, &updated).await.unwrap();
    assert_eq!(unchanged, updated, "writing what is there changes nothing");

    let bad = config_map("Not_A_Name", "1");
    let message = assert_refused(objects.create(&post, &bad).await, 422, "Invalid");
    assert!(message.contains("metadata.name: Invalid value: \"Not_A_Name\""), "{message}");
    objects.delete("a", &DeleteParams::default()).await.unwrap();
    assert_refused(objects.get("a").await, 404, "NotFound");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_come_in_pages_and_by_selector() {
    let hub = Hub::start().await;
    let objects = hub.config_maps();
    for n in 0..25 {
        let mut object = config_map(&format!("a-{n:02}"), "1");
        object.metadata.labels =
            Some([("parity".to_owned(), (n % 2).to_string())].into_iter().collect());
        objects.create(&PostParams::default(), &object).await.unwrap();
    }
    let mut names = Vec::new();
    let mut left = Vec::new();
    let mut params = ListParams::default().limit(10);
    loop {
        let page = objects.list(&params).await.unwrap();
        assert!(page.items.len() <= 10);
        left.push(page.metadata.remaining_item_count);
        names.extend(page.items.into_iter().filter_map(|object| object.metadata.name));
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params.continue_token = Some(token),
            _ => break,
        }
    }
    assert_eq!(names, (0..25).map(|n| format!("a-{n:02}")).collect::<Vec<_>>());
    assert_eq!(left, [Some(15), Some(5), None], "how many are left after each page");
    let odd = objects.list(&ListParams::default().labels("parity=1")).await.unwrap();
    assert_eq!(odd.items.len(), 12);
    let some = objects.list(&ListParams::default().labels("parity=1").limit(2)).await.unwrap();
    assert_eq!(some.metadata.remaining_item_count, None, "nobody has counted what selectors leave");
    let one = objects.list(&ListParams::default().fields("metadata.name=a-07")).await.unwrap();
    assert_eq!(one.items.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appliers_own_their_fields() {
    let hub = Hub::start().await;
    let objects = hub.config_maps();
    let apply = async |manager: &str, data: serde_json::Value, force: bool| {
        let patch = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data,
        });
        let mut params = PatchParams::apply(manager);
        params.force = force;
        objects.patch("a", &params, &Patch::Apply(patch)).await
    };
    apply("one", json!({"a": "1", "b": "1"}), false).await.unwrap();
    apply("two", json!({"c": "2"}), false).await.unwrap();
    let message = assert_refused(apply("two", json!({"a": "2"}), false).await, 409, "Conflict");
    assert!(message.contains("conflict with \"one\": .data.a"), "{message}");
    let forced = apply("two", json!({"a": "2"}), true).await.unwrap();
    let data = forced.data.unwrap();
    assert_eq!(data.get("a").map(String::as_str), Some("2"));
    assert_eq!(data.get("c"), None, "what an applier gives up goes");
    assert_eq!(data.get("b").map(String::as_str), Some("1"), "what another one owns stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_owned_goes_with_its_owner() {
    let hub = Hub::start().await;
    let objects = hub.config_maps();
    let owner = objects.create(&PostParams::default(), &config_map("owner", "1")).await.unwrap();
    let owned = |name: &str| -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": name, "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
            "uid": owner.metadata.uid, "blockOwnerDeletion": true,
        }]}}))
        .unwrap()
    };
    objects.create(&PostParams::default(), &owned("first")).await.unwrap();
    objects.create(&PostParams::default(), &owned("second")).await.unwrap();
    objects.delete("owner", &DeleteParams::foreground()).await.unwrap();
    gone(&objects, "owner").await;
    assert!(objects.get_opt("first").await.unwrap().is_none(), "the owner goes last");
    gone(&objects, "second").await;
}

/// Makes `owners` the owners of an object, each of which waits for it when it goes.
pub(crate) async fn give_owners(objects: &Api<ConfigMap>, name: &str, owners: &[&ConfigMap]) {
    let reference = |owner: &&ConfigMap| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": owner.metadata.name,
            "uid": owner.metadata.uid, "blockOwnerDeletion": true,
        })
    };
    let references: Vec<_> = owners.iter().map(reference).collect();
    let patch = json!({"metadata": {"ownerReferences": references}});
    objects.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_own_each_other_in_a_circle_can_go() {
    let hub = Hub::start().await;
    let objects = hub.config_maps();
    let create =
        async |name| objects.create(&PostParams::default(), &config_map(name, "1")).await.unwrap();
    let (a, b, c) = (create("a").await, create("b").await, create("c").await);
    give_owners(&objects, "a", &[&c]).await;
    give_owners(&objects, "b", &[&a]).await;
    give_owners(&objects, "c", &[&b]).await;
    objects.delete("a", &DeleteParams::foreground()).await.unwrap();
    for name in ["a", "b", "c"] {
        gone(&objects, name).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_another_owner_stays_and_holds_nobody_up() {
    let hub = Hub::start().await;
    let objects = hub.config_maps();
    let create =
        async |name| objects.create(&PostParams::default(), &config_map(name, "1")).await.unwrap();
    let (leaving, staying) = (create("leaving").await, create("staying").await);
    create("owned").await;
    give_owners(&objects, "owned", &[&leaving, &staying]).await;
    objects.delete("leaving", &DeleteParams::foreground()).await.unwrap();
    gone(&objects, "leaving").await;
    let owned = objects.get("owned").await.unwrap();
    let owners = owned.metadata.owner_references.unwrap_or_default();
    assert_eq!(owners.iter().map(|owner| owner.name.as_str()).collect::<Vec<_>>(), ["staying"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_is_emptied_before_it_goes() {
    let hub = Hub::start().await;
    let namespaces: Api<Namespace> = Api::all(hub.client.clone());
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "short-lived"}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let objects: Api<ConfigMap> = Api::namespaced(hub.client.clone(), "short-lived");
    let mut held = config_map("held", "1");
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    objects.create(&PostParams::default(), &held).await.unwrap();
    objects.create(&PostParams::default(), &config_map("free", "1")).await.unwrap();

    namespaces.delete("short-lived", &DeleteParams::default()).await.unwrap();
    gone(&objects, "free").await;
    let late = objects.create(&PostParams::default(), &config_map("late", "1")).await;
    let message = assert_refused(late, 403, "Forbidden");
    assert!(message.contains("because it is being terminated"), "{message}");
    assert!(namespaces.get_opt("short-lived").await.unwrap().is_some(), "its contents are held");

    let release = json!({"metadata": {"finalizers": null}});
    objects.patch("held", &PatchParams::default(), &Patch::Merge(release)).await.unwrap();
    gone(&namespaces, "short-lived").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_get_addresses_that_nobody_else_has() {
    let hub = Hub::start().await;
    let services: Api<Service> = Api::default_namespaced(hub.client.clone());
    let service = |name: &str, address: Option<&str>| -> Service {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"ports": [{"port": 80}], "clusterIP": address},
        }))
        .unwrap()
    };
    let address = |service: &Service| service.spec.as_ref().unwrap().cluster_ip.clone().unwrap();
    let first = services.create(&PostParams::default(), &service("first", None)).await.unwrap();
    let second = services.create(&PostParams::default(), &service("second", None)).await.unwrap();
    assert_ne!(address(&first), address(&second));

    let taken = service("third", Some(&address(&first)));
    let refused = services.create(&PostParams::default(), &taken).await;
    let message = assert_refused(refused, 422, "Invalid");
    assert!(message.contains("provided IP is already allocated"), "{message}");
    services.delete("first", &DeleteParams::default()).await.unwrap();
    services.create(&PostParams::default(), &taken).await.expect("the address is free again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_ports_are_handed_out_once_and_until_there_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(store(folder.path()));
    let settings = options(folder.path(), store.clone());
    let hub = Hub::start_with(folder, settings).await;
    let services: Api<Service> = Api::default_namespaced(hub.client.clone());
    let create = async |name: &str, ports: serde_json::Value| {
        let service =
            json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": ports}});
        let service: Service = serde_json::from_value(service).unwrap();
        services.create(&PostParams::default(), &service).await
    };
    let twice = json!([
        {"name": "a", "port": 1, "nodePort": 30000},
        {"name": "b", "port": 2, "nodePort": 30000, "protocol": "UDP"},
    ]);
    let message = assert_refused(create("twice", twice).await, 422, "Invalid");
    assert!(message.contains("provided port is already allocated"), "{message}");

    // Others have all ports but two.
    let key = |port: usize| format!("allocations/ports/{port}");
    let all = (30_000..32_766).fold(Txn::default(), |txn, port| {
        txn.and(key(port), Expect::Absent, WriteOp::Put { value: "x".into(), ttl: None })
    });
    store.commit(all).await.unwrap();
    let two = json!([{"name": "a", "port": 1}, {"name": "b", "port": 2}]);
    let created = create("two", two).await.unwrap();
    let ports = created.spec.unwrap().ports.unwrap();
    let mut ports: Vec<i32> = ports.iter().filter_map(|port| port.node_port).collect();
    ports.sort_unstable();
    assert_eq!(ports, [32_766, 32_767]);
    let none = create("none", json!([{"port": 1}])).await;
    let message = assert_refused(none, 500, "InternalError");
    assert!(message.contains("failed to allocate a nodePort: range is full"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches_at_the_same_time_all_succeed() {
    let (store, hub) = TrickStore::serve("").await;
    // While one write waits for the disk, all the others are made from what it replaces.
    store.slow_down(Duration::from_millis(5));
    let maps: Api<ConfigMap> = Api::namespaced(hub.client.clone(), "default");
    maps.create(&PostParams::default(), &config_map("busy", "value")).await.unwrap();
    let patches = (0..16).map(|number| {
        let maps = maps.clone();
        tokio::spawn(async move {
            for round in 0..4 {
                let patch = json!({"data": {format!("{number}-{round}"): "x"}});
                let patch = Patch::Merge(&patch);
                maps.patch("busy", &PatchParams::default(), &patch).await.unwrap();
            }
        })
    });
    for patch in patches.collect::<Vec<_>>() {
        patch.await.unwrap();
    }
    let object = maps.get("busy").await.unwrap();
    assert_eq!(object.data.unwrap().len(), 1 + 16 * 4);
    // Who names a version is told that it is not the current one.
    let mut old = object.metadata.clone();
    old.resource_version = Some("1".to_owned());
    let stale = ConfigMap { metadata: old, ..ConfigMap::default() };
    let refused = maps.replace("busy", &PostParams::default(), &stale).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 409));
}
