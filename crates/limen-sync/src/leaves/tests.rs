use limen_core::federated::OnConflict;
use limen_core::leaf::{HASH_ANNOTATION, HUB_LABEL, Leaf, ROOT_LABEL};
use serde_json::json;

use super::*;

fn id() -> Arc<ObjectId> {
    let kind = limen_api::kind(("v1", "ConfigMap", "configmaps", true));
    Arc::new(ObjectId { kind, namespace: None, name: "settings".to_owned() })
}

fn desired(hash: &str) -> Option<DesiredLeaf> {
    let object = json!({"spec": {"size": "one"}});
    let leaf =
        Arc::new(Leaf { object: (&object).into(), hash: hash.into(), handed_over: Vec::new() });
    let desired = Desired::Leaf { leaf, on_conflict: OnConflict::Abort, create: true };
    Some(DesiredLeaf { root_uid: "root".into(), replaces: None, revision: 1, desired })
}

fn nothing() -> Option<DesiredLeaf> {
    let desired = Desired::Nothing;
    Some(DesiredLeaf { root_uid: "root".into(), replaces: None, revision: 1, desired })
}

fn object(version: u64, size: &str) -> Value {
    json!({
        "metadata": {
            "uid": "u-1", "resourceVersion": version.to_string(),
            "labels": {HUB_LABEL: "hub", ROOT_LABEL: "root"},
            "annotations": {HASH_ANNOTATION: "hash"}},
        "spec": {"size": size}})
}

/// A leaf whose spec the member changes by itself.
fn completed() -> Value {
    object(7, "two")
}

fn leaves(desired: Option<DesiredLeaf>) -> Leaves {
    let mut leaves = Leaves::new("hub");
    leaves.desire(id(), desired);
    leaves
}

#[test]
fn an_answer_settles_a_leaf_also_after_the_watch_has_told_the_same() {
    for told_before in [false, true] {
        let mut leaves = leaves(desired("hash"));
        if told_before {
            leaves.observe(&id(), &completed(), Source::Watch);
            let drift = (Action::Update, vec!["spec.size".to_owned()]);
            assert_eq!(leaves.action(&id()), drift, "it may have been another manager");
        }
        leaves.observe(&id(), &completed(), Source::Apply);
        assert_eq!(leaves.action(&id()).0, Action::Keep, "told before: {told_before}");
    }
    // The desired leaf has changed meanwhile: the answer is no drift from that.
    let mut leaves = leaves(desired("hash"));
    leaves.observe(&id(), &completed(), Source::Watch);
    leaves.desire(id(), desired("newer"));
    leaves.observe(&id(), &completed(), Source::Apply);
    assert_eq!(leaves.action(&id()), (Action::Update, Vec::new()));
    assert!(!leaves.has_drifted(&id()));
}

#[test]
fn an_answer_that_a_deletion_has_overtaken_brings_nothing_back() {
    for source in [Source::Apply, Source::Read] {
        let mut leaves = leaves(desired("hash"));
        leaves.observe(&id(), &object(5, "one"), Source::Watch);
        leaves.deleted(&id(), &object(9, "one"));
        leaves.watched(&id().kind, "9");
        leaves.observe(&id(), &object(7, "one"), source);
        assert_eq!(leaves.report(&id()).state, Some(LeafState::Pending), "{source:?}");
        assert_eq!(leaves.action(&id()).0, Action::Create, "{source:?}");
        // The answer to what is created after that counts.
        leaves.observe(&id(), &object(10, "one"), source);
        assert_eq!(leaves.report(&id()).state, Some(LeafState::Synced), "{source:?}");
    }
}

#[test]
fn a_list_is_the_truth_also_when_versions_go_back() {
    let mut leaves = leaves(desired("hash"));
    leaves.observe(&id(), &object(1000, "one"), Source::Watch);
    leaves.watched(&id().kind, "1000");
    assert_eq!(leaves.action(&id()).0, Action::Keep);
    leaves.listed(&id().kind, "500");
    let mut older = object(400, "one");
    older["metadata"]["annotations"][HASH_ANNOTATION] = json!("older");
    leaves.observe(&id(), &older, Source::List);
    assert_eq!(leaves.action(&id()).0, Action::Update);
    leaves.observe(&id(), &object(501, "one"), Source::Apply);
    assert_eq!(leaves.action(&id()).0, Action::Keep, "the position went back too");
}

#[test]
fn a_late_event_does_not_undo_a_newer_answer() {
    let mut leaves = leaves(desired("hash"));
    leaves.observe(&id(), &object(12, "one"), Source::Apply);
    leaves.deleted(&id(), &object(9, "one"));
    assert_eq!(leaves.action(&id()).0, Action::Keep);
    leaves.deleted(&id(), &object(13, "one"));
    assert_eq!(leaves.action(&id()).0, Action::Create);
}

#[test]
fn a_leaf_that_lost_its_marks_after_it_was_settled_has_drifted() {
    let mut leaves = leaves(desired("hash"));
    leaves.observe(&id(), &object(5, "one"), Source::Apply);
    let mut stripped = object(6, "one");
    stripped["metadata"]["annotations"] = json!({});
    leaves.observe(&id(), &stripped, Source::Watch);
    assert!(leaves.has_drifted(&id()));
}

#[test]
fn the_hash_is_reported_only_of_a_leaf_that_is_as_it_says() {
    let mut leaves = leaves(desired("hash"));
    assert_eq!(leaves.report(&id()).applied, None);
    leaves.observe(&id(), &object(5, "one"), Source::Watch);
    assert_eq!(leaves.report(&id()).applied.as_deref(), Some("hash"));
    leaves.observe(&id(), &object(6, "changed"), Source::Watch);
    assert_eq!(leaves.report(&id()).applied, None, "it has drifted");
    leaves.desire(id(), nothing());
    assert_eq!(leaves.report(&id()).applied, None, "it is not desired");
}

#[test]
fn a_new_revision_of_the_same_desired_leaf_forgets_nothing() {
    let mut leaves = leaves(desired("hash"));
    leaves.trouble(&id(), Some((LeafState::Failed, "denied".to_owned())));
    let newer = desired("hash").map(|desired| DesiredLeaf { revision: 9, ..desired });
    leaves.desire(id(), newer);
    assert_eq!(leaves.report(&id()).state, Some(LeafState::Failed));
    assert_eq!(leaves.desired(&id()).unwrap().revision, 9);
}

#[test]
fn a_finished_leaf_is_forgotten_once_nothing_is_desired_or_held_of_it() {
    let kind = limen_api::kind(("batch/v1", "Job", "jobs", true));
    let id = Arc::new(ObjectId { kind, namespace: None, name: "import".to_owned() });
    let mut finished = object(5, "one");
    finished["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    let mut leaves = Leaves::new("hub");
    leaves.desire(id.clone(), desired("hash"));
    leaves.observe(&id, &finished, Source::Watch);
    leaves.desire(id.clone(), None);
    leaves.gone(&id);
    leaves.desire(id.clone(), desired("hash"));
    assert_eq!(leaves.action(&id).0, Action::Keep, "it was held when it was no longer desired");
    leaves.desire(id.clone(), None);
    assert!(leaves.ended.is_empty());
}
