use serde_json::json;

use super::*;

const HUB: &str = "hub-1";

fn leaf() -> Leaf {
    Leaf { object: (&json!({"spec": {"a": 1}})).into(), hash: "h1".into(), handed_over: Vec::new() }
}

fn held(hub: Option<&str>) -> Held {
    Held {
        uid: "u".into(),
        resource_version: "1".into(),
        hub: hub.map(Into::into),
        root_uid: hub.map(|_| "root".into()),
        applied: hub.map(|_| "h1".into()),
        fingerprint: 7,
        deleting: false,
        adopted: false,
        mark: None,
        manager: None,
    }
}

fn wanted(leaf: &Leaf, on_conflict: OnConflict, settled: Option<u64>) -> Wanted<'_> {
    Wanted::Leaf {
        leaf,
        root_uid: "root",
        replaces: None,
        on_conflict,
        create: true,
        settled,
        contained: true,
    }
}

const NOTHING: Wanted<'static> = Wanted::Nothing { root_uid: "root" };
const ORPHAN: Wanted<'static> = Wanted::Orphan { root_uid: "root" };

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
        (NOTHING, held(None), Action::Keep),
        (NOTHING, held(Some("hub-2")), Action::Keep),
        (ORPHAN, held(None), Action::Keep),
        (ORPHAN, held(Some("hub-2")), Action::Keep),
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
    let older = Held { applied: Some("h0".into()), ..ours.clone() };
    assert_eq!(decide(&wanted(&leaf, adopt, Some(7)), Some(&older), HUB), Action::Update);
    let going = Held { deleting: true, ..ours };
    assert_eq!(decide(&wanted(&leaf, adopt, Some(7)), Some(&going), HUB), Action::Wait);
}

#[test]
fn own_leaves_are_deleted_or_released() {
    let ours = held(Some(HUB));
    assert_eq!(decide(&NOTHING, Some(&ours), HUB), Action::Delete);
    assert_eq!(decide(&ORPHAN, Some(&ours), HUB), Action::Release);
    assert_eq!(decide(&NOTHING, None, HUB), Action::Keep);
    let going = Held { deleting: true, ..ours };
    assert_eq!(decide(&NOTHING, Some(&going), HUB), Action::Wait);
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

#[test]
fn a_leaf_of_another_root_is_refused_unless_it_is_replaced() {
    let leaf = leaf();
    let other = Held { root_uid: Some("before".into()), ..held(Some(HUB)) };
    let refused = Action::Refuse(Refusal::OtherRoot("before".to_owned()));
    for on_conflict in
        [OnConflict::Adopt, OnConflict::AdoptNamed, OnConflict::Abort, OnConflict::Share]
    {
        let wanted = wanted(&leaf, on_conflict, Some(7));
        assert_eq!(decide(&wanted, Some(&other), HUB), refused, "{on_conflict:?}");
    }
    // Its own root deletes it; this one has nothing there.
    assert_eq!(decide(&NOTHING, Some(&other), HUB), Action::Keep);
    assert_eq!(decide(&ORPHAN, Some(&other), HUB), Action::Keep);
    let replacing = |replaces| Wanted::Leaf {
        leaf: &leaf,
        root_uid: "root",
        replaces: Some(replaces),
        on_conflict: OnConflict::Abort,
        create: true,
        settled: Some(7),
        contained: true,
    };
    assert_eq!(decide(&replacing("before"), Some(&other), HUB), Action::Update);
    assert_eq!(decide(&replacing("another"), Some(&other), HUB), refused);
}

#[test]
fn an_object_with_one_label_only_is_foreign() {
    let leaf = leaf();
    let half = Held { root_uid: None, ..held(Some(HUB)) };
    let abort = wanted(&leaf, OnConflict::Abort, Some(7));
    assert_eq!(decide(&abort, Some(&half), HUB), Action::Refuse(Refusal::Foreign));
    assert_eq!(decide(&NOTHING, Some(&half), HUB), Action::Keep);
    assert_eq!(decide(&ORPHAN, Some(&half), HUB), Action::Keep);
}

#[test]
fn what_another_manager_has_is_adopted_only_by_name() {
    let leaf = leaf();
    for manager in [OtherManager::Helm, OtherManager::Controller("ReplicaSet web".to_owned())] {
        let managed = Held { manager: Some(manager.clone()), ..held(None) };
        let adopt = wanted(&leaf, OnConflict::Adopt, None);
        let refused = Action::Refuse(Refusal::Managed(manager));
        assert_eq!(decide(&adopt, Some(&managed), HUB), refused);
        let named = wanted(&leaf, OnConflict::AdoptNamed, None);
        assert_eq!(decide(&named, Some(&managed), HUB), Action::Adopt);
    }
    let other_hub = Held { root_uid: None, ..held(Some("hub-2")) };
    let named = wanted(&leaf, OnConflict::AdoptNamed, None);
    let refused = Action::Refuse(Refusal::OtherHub("hub-2".to_owned()));
    assert_eq!(decide(&named, Some(&other_hub), HUB), refused);
}

#[test]
fn what_was_adopted_is_released_and_not_deleted() {
    let adopted = Held { adopted: true, ..held(Some(HUB)) };
    assert_eq!(decide(&NOTHING, Some(&adopted), HUB), Action::Release);
    assert_eq!(decide(&ORPHAN, Some(&adopted), HUB), Action::Release);
}

#[test]
fn a_leaf_that_must_not_be_created_is_kept_where_it_is() {
    let leaf = leaf();
    let keeping = Wanted::Leaf {
        leaf: &leaf,
        root_uid: "root",
        replaces: None,
        on_conflict: OnConflict::Adopt,
        create: false,
        settled: Some(7),
        contained: true,
    };
    let ours = held(Some(HUB));
    let older = Held { applied: Some("h0".into()), ..ours.clone() };
    let going = Held { deleting: true, ..ours.clone() };
    assert_eq!(decide(&keeping, None, HUB), Action::Keep);
    assert_eq!(decide(&keeping, Some(&ours), HUB), Action::Keep);
    assert_eq!(decide(&keeping, Some(&older), HUB), Action::Update);
    assert_eq!(decide(&keeping, Some(&going), HUB), Action::Keep);
    assert_eq!(decide(&keeping, Some(&held(None)), HUB), Action::Keep, "nothing is adopted");
}

#[test]
fn what_a_later_epoch_wrote_is_never_written() {
    let mark = Mark { epoch: 3, revision: 1 };
    let newer = Held { mark: Some(mark), ..held(Some(HUB)) };
    let refused = Action::Refuse(Refusal::NewerEpoch(mark));
    for action in [Action::Update, Action::Adopt, Action::Delete, Action::Release] {
        assert_eq!(fenced(action.clone(), Some(&newer), 2), refused);
        assert_eq!(fenced(action.clone(), Some(&newer), 3), action);
        assert_eq!(fenced(action.clone(), None, 0), action);
    }
    for action in [Action::Keep, Action::Create, Action::Wait] {
        assert_eq!(fenced(action.clone(), Some(&newer), 2), action);
    }
}

#[test]
fn the_mark_alone_is_no_drift() {
    let object =
        |mark: &str| json!({"metadata": {"annotations": {EPOCH_ANNOTATION: mark, "a": "b"}}});
    assert_eq!(fingerprint(&object("1.1")), fingerprint(&object("2.7")));
    let without = json!({"metadata": {"annotations": {"a": "b"}}});
    assert_eq!(fingerprint(&object("1.1")), fingerprint(&without));
    assert_eq!(Held::of(&object("2.7")).mark, Some(Mark { epoch: 2, revision: 7 }));
}
