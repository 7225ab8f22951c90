//! What the garbage collector does when it is behind with the news.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::objects::{give_owners, gone};
use crate::server::config_map;
use crate::trick_store::TrickStore;

fn owned_by(name: &str, owner: &ConfigMap) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "ownerReferences": [{
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner.metadata.name,
        "uid": owner.metadata.uid, "blockOwnerDeletion": true,
    }]}}))
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_has_got_a_new_owner_stays() {
    let (store, hub) = TrickStore::serve("").await;
    let objects = hub.config_maps();
    let create =
        async |object: &ConfigMap| objects.create(&PostParams::default(), object).await.unwrap();
    let first = create(&config_map("first", "1")).await;
    let second = create(&config_map("second", "1")).await;
    create(&owned_by("owned", &first)).await;

    store.tell(false);
    objects.delete("first", &DeleteParams::background()).await.unwrap();
    give_owners(&objects, "owned", &[&second]).await;
    // Once this one is gone, all that happened before has been seen.
    create(&owned_by("last", &first)).await;
    store.tell(true);
    gone(&objects, "last").await;
    assert!(objects.get_opt("owned").await.unwrap().is_some(), "it has an owner");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_waits_for_what_has_changed_meanwhile_and_goes() {
    let (store, hub) = TrickStore::serve("").await;
    let objects = hub.config_maps();
    let create =
        async |object: &ConfigMap| objects.create(&PostParams::default(), object).await.unwrap();
    let owner = create(&config_map("owner", "1")).await;
    let mut owned = create(&owned_by("owned", &owner)).await;

    store.tell(false);
    objects.delete("owner", &DeleteParams::foreground()).await.unwrap();
    owned.data = Some([("key".to_owned(), "2".to_owned())].into());
    objects.replace("owned", &PostParams::default(), &owned).await.unwrap();
    store.tell(true);
    gone(&objects, "owner").await;
    assert!(objects.get_opt("owned").await.unwrap().is_none(), "the owner goes last");
}
