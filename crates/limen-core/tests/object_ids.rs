//! Ids of objects are looked up and sorted everywhere: what is equal must hash and sort as equal,
//! whether or not two ids share the memory of their kind.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use limen_core::federated::{Kind, ObjectId};

fn kind(api_version: &str, kind: &str) -> Arc<Kind> {
    let plural = format!("{}s", kind.to_lowercase());
    let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
    Arc::new(Kind { api_version, kind, plural, namespaced: true })
}

fn id(kind: &Arc<Kind>, namespace: Option<&str>, name: &str) -> ObjectId {
    let namespace = namespace.map(str::to_owned);
    ObjectId { kind: kind.clone(), namespace, name: name.to_owned() }
}

#[test]
fn equal_ids_hash_and_sort_as_equal() {
    let kinds = [kind("v1", "Secret"), kind("v1", "Secret"), kind("apps/v1", "Secret")];
    let places = [None, Some("a"), Some("b")];
    let ids: Vec<ObjectId> = kinds
        .iter()
        .flat_map(|kind| places.iter().map(move |place| (kind, place)))
        .flat_map(|(kind, place)| ["x", "y"].map(|name| id(kind, *place, name)))
        .collect();
    let hasher = RandomState::new();
    for one in &ids {
        for other in &ids {
            let order = (&*one.kind, &one.namespace, &one.name).cmp(&(
                &*other.kind,
                &other.namespace,
                &other.name,
            ));
            assert_eq!(one.cmp(other), order, "{one:?} {other:?}");
            assert_eq!(one == other, order.is_eq(), "{one:?} {other:?}");
            if one == other {
                assert_eq!(hasher.hash_one(one), hasher.hash_one(other), "{one:?} {other:?}");
            }
        }
    }
}

#[test]
fn versions_of_a_kind_are_one_kind_and_groups_are_not() {
    let v1 = kind("serving.knative.dev/v1", "Service");
    let beta = kind("serving.knative.dev/v1beta1", "Service");
    let core = kind("v1", "Service");
    assert_eq!(id(&v1, Some("a"), "x"), id(&beta, Some("a"), "x"));
    assert_ne!(id(&v1, Some("a"), "x"), id(&core, Some("a"), "x"));
}
