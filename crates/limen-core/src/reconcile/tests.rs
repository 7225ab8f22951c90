use serde_json::json;

use super::*;

const HUB: &str = "hub-1";

fn leaf() -> Leaf {
    Leaf { object: json!({"spec": {"a": 1}}), hash: "h1".to_owned() }
}

fn held(hub: Option<&str>) -> Held {
    Held {
        uid: "u".to_owned(),
        resource_version: "1".to_owned(),
        hub: hub.map(str::to_owned),
        root_uid: hub.map(|_| "root".to_owned()),
        applied: hub.map(|_| "h1".to_owned()),
        fingerprint: 7,
        deleting: false,
    }
}

fn wanted(leaf: &Leaf, on_conflict: OnConflict, settled: Option<u64>) -> Wanted<'_> {
    Wanted::Leaf { leaf, root_uid: "root", on_conflict, settled, contained: true }
}

#[test]
fn nothing_foreign_is_touched_unless_it_is_adopted() {
    let leaf = leaf();
    for (wanted, held, action) in [
        (wanted(&leaf, OnConflict::Adopt, None), held(None), Action::Adopt),
        (wanted(&leaf, OnConflict::Abort, None), held(None), Action::Refuse(Refusal::Foreign)),
        (
            wanted(&leaf, OnConflict::Adopt, None),
            held(Some("hub-2")),
            Action::Refuse(Refusal::OtherHub("hub-2".to_owned())),
        ),
        (wanted(&leaf, OnConflict::Share, None), held(None), Action::Keep),
        (Wanted::Nothing, held(None), Action::Keep),
        (Wanted::Nothing, held(Some("hub-2")), Action::Keep),
        (Wanted::Orphan, held(None), Action::Keep),
        (Wanted::Orphan, held(Some("hub-2")), Action::Keep),
    ] {
        assert_eq!(decide(&wanted, Some(&held), HUB), action, "{wanted:?} {held:?}");
    }
}

#[test]
fn a_leaf_is_written_only_when_something_would_change() {
    let leaf = leaf();
    let adopt = OnConflict::Adopt;
    assert_eq!(decide(&wanted(&leaf, adopt, None), None, HUB), Action::Create);
    let ours = held(Some(HUB));
    assert_eq!(decide(&wanted(&leaf, adopt, Some(7)), Some(&ours), HUB), Action::Keep);
    assert_eq!(decide(&wanted(&leaf, adopt, None), Some(&ours), HUB), Action::Keep);
    assert_eq!(decide(&wanted(&leaf, adopt, Some(8)), Some(&ours), HUB), Action::Update);
    let older = Held { applied: Some("h0".to_owned()), ..ours.clone() };
    assert_eq!(decide(&wanted(&leaf, adopt, Some(7)), Some(&older), HUB), Action::Update);
    let recreated = Held { root_uid: Some("before".to_owned()), ..ours.clone() };
    assert_eq!(decide(&wanted(&leaf, adopt, Some(7)), Some(&recreated), HUB), Action::Update);
    let going = Held { deleting: true, ..ours };
    assert_eq!(decide(&wanted(&leaf, adopt, Some(7)), Some(&going), HUB), Action::Wait);
}

#[test]
fn own_leaves_are_deleted_or_released() {
    let ours = held(Some(HUB));
    assert_eq!(decide(&Wanted::Nothing, Some(&ours), HUB), Action::Delete);
    assert_eq!(decide(&Wanted::Orphan, Some(&ours), HUB), Action::Release);
    assert_eq!(decide(&Wanted::Nothing, None, HUB), Action::Keep);
    let going = Held { deleting: true, ..ours };
    assert_eq!(decide(&Wanted::Nothing, Some(&going), HUB), Action::Wait);
}

#[test]
fn status_and_bookkeeping_are_not_part_of_the_fingerprint() {
    let object = json!({
        "metadata": {"name": "a", "resourceVersion": "1", "generation": 1,
            "labels": {"a": "b"}, "managedFields": [{}]},
        "spec": {"replicas": 1}, "status": {"ready": 1}});
    let mut same = object.clone();
    same["status"] = json!({"ready": 2});
    same["metadata"]["resourceVersion"] = json!("2");
    same["metadata"]["managedFields"] = json!([]);
    let mut other = object.clone();
    other["spec"]["replicas"] = json!(2);
    let mut relabelled = object.clone();
    relabelled["metadata"]["labels"] = json!({"a": "c"});
    assert_eq!(fingerprint(&object), fingerprint(&same));
    assert_ne!(fingerprint(&object), fingerprint(&other));
    assert_ne!(fingerprint(&object), fingerprint(&relabelled));
}

#[test]
fn differences_name_paths_and_overlook_what_the_member_added() {
    let leaf = json!({"spec": {
        "replicas": 3, "empty": {}, "cpu": "1000m",
        "ports": [{"port": 80}], "hosts": ["a"]}});
    let object = json!({"spec": {
        "replicas": 3, "clusterIP": "10.0.0.1", "cpu": "1",
        "ports": [{"port": 80, "protocol": "TCP"}], "hosts": ["a"]}});
    assert!(differences(&leaf, &object, 5).is_empty());
    let changed = json!({"spec": {
        "replicas": 4, "cpu": "2", "ports": [{"port": 81}], "hosts": ["a", "b"]}});
    let found = differences(&leaf, &changed, 9);
    assert_eq!(found, ["spec.cpu", "spec.hosts", "spec.ports[0].port", "spec.replicas"]);
    assert_eq!(differences(&leaf, &changed, 1).len(), 1);
}

#[test]
fn an_object_in_a_list_is_the_same_without_its_type() {
    let leaf = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}});
    let listed = json!({"data": {"a": "1"}});
    assert!(differences(&leaf, &listed, 9).is_empty());
    assert_eq!(fingerprint(&leaf), fingerprint(&listed));
}
