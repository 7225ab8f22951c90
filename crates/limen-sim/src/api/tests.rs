//! The simulated API behaves like Kubernetes where the hub depends on it.

use http::Uri;
use serde_json::{Value, json};

use super::{Body, Call, Cause, Change, Expired, Key, Kinds, Reply, Server, selected_event};
use crate::actor::Actor;
use crate::random::Random;

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const MAPS: &str = "/api/v1/namespaces/shop/configmaps";

fn hub() -> Actor {
    Actor::Hub { process: 1, cluster: "europe".to_owned() }
}

fn server() -> Server {
    let mut server = Server::new("europe", Kinds::member());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    server.put(&Actor::Person, &Key::namespace("shop"), namespace);
    server.take_effects();
    server
}

fn call(server: &mut Server, method: &str, path: &str, content: &str, body: &Value) -> Reply {
    let uri: Uri = path.parse().unwrap();
    server.answer(&hub(), &Call::new(method, &uri, content, body.to_string().as_bytes()))
}

fn body(reply: &Reply) -> &Value {
    match &reply.body {
        Body::Json(value) => value,
        Body::Text(text) => panic!("not an object: {text}"),
    }
}

fn map(data: &Value, metadata: &Value) -> Value {
    let mut metadata = metadata.clone();
    metadata["name"] = json!("one");
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

fn apply(server: &mut Server, object: &Value) -> Reply {
    let path = format!("{MAPS}/one?fieldManager=limen&force=true");
    call(server, "PATCH", &path, APPLY, object)
}

#[test]
fn an_apply_with_an_impossible_version_creates_and_never_changes() {
    let mut server = server();
    let new = map(&json!({"a": "1"}), &json!({"resourceVersion": "9223372036854775807"}));
    assert_eq!(apply(&mut server, &new).status, 201);
    let again = apply(&mut server, &new);
    assert_eq!((again.status, &body(&again)["reason"]), (409, &json!("Conflict")));
}

#[test]
fn writes_with_a_stale_uid_or_version_are_conflicts() {
    let mut server = server();
    let made = apply(&mut server, &map(&json!({"a": "1"}), &json!({})));
    let (uid, version) =
        (&body(&made)["metadata"]["uid"], &body(&made)["metadata"]["resourceVersion"]);
    for (metadata, status) in [
        (json!({"uid": "another"}), 409),
        (json!({"resourceVersion": "1"}), 409),
        (json!({"uid": uid, "resourceVersion": version}), 200),
    ] {
        let answer = apply(&mut server, &map(&json!({"a": "2"}), &metadata));
        assert_eq!(answer.status, status, "{metadata}");
    }
    let path = format!("{MAPS}/one");
    let stale = json!({"preconditions": {"uid": uid, "resourceVersion": version}});
    assert_eq!(call(&mut server, "DELETE", &path, "application/json", &stale).status, 409);
    let by_uid = json!({"preconditions": {"uid": uid}});
    assert_eq!(call(&mut server, "DELETE", &path, "application/json", &by_uid).status, 200);
    assert_eq!(body(&call(&mut server, "GET", &path, "", &Value::Null))["reason"], "NotFound");
    let gone = apply(&mut server, &map(&json!({}), &json!({"uid": uid})));
    assert_eq!(gone.status, 409, "a uid of what is gone creates nothing");
}

#[test]
fn a_write_that_changes_nothing_has_no_effect_and_no_new_version() {
    let mut server = server();
    let object = map(&json!({"a": "1"}), &json!({}));
    let first = apply(&mut server, &object);
    server.take_effects();
    let second = apply(&mut server, &object);
    assert_eq!(
        body(&first)["metadata"]["resourceVersion"],
        body(&second)["metadata"]["resourceVersion"]
    );
    assert!(server.take_effects().is_empty());
}

#[test]
fn status_and_content_are_written_each_by_its_own_path() {
    let mut server = server();
    apply(&mut server, &map(&json!({"a": "1"}), &json!({})));
    let patch = json!({"data": {"a": "2"}, "status": {"seen": true}});
    let status =
        call(&mut server, "PATCH", &format!("{MAPS}/one/status?fieldManager=x"), MERGE, &patch);
    assert_eq!(
        (&body(&status)["data"]["a"], &body(&status)["status"]["seen"]),
        (&json!("1"), &json!(true))
    );
    let content = call(
        &mut server,
        "PATCH",
        &format!("{MAPS}/one?fieldManager=x"),
        MERGE,
        &json!({"status": null}),
    );
    assert_eq!(body(&content)["status"]["seen"], true);
}

#[test]
fn a_terminating_namespace_takes_its_contents_along_and_lets_nothing_in() {
    let mut server = server();
    apply(&mut server, &map(&json!({"a": "1"}), &json!({})));
    let path = "/api/v1/namespaces/shop";
    assert_eq!(call(&mut server, "DELETE", path, "application/json", &json!({})).status, 200);
    let object = json!({"metadata": {"name": "two"}});
    assert_eq!(call(&mut server, "POST", MAPS, "application/json", &object).status, 403);
    server.take_effects();
    server.tick(&mut Random::new(1));
    let effects = server.take_effects();
    let seen: Vec<_> =
        effects.iter().map(|effect| (effect.cause, effect.change, &*effect.key.name)).collect();
    assert_eq!(
        seen,
        [(Cause::Namespace, Change::Removed, "one"), (Cause::Request, Change::Removed, "shop")]
    );
    assert!(effects.iter().all(|effect| effect.actor == hub()), "the hub caused it all");
}

#[test]
fn a_finalizer_keeps_an_object_until_it_is_taken_off() {
    let mut server = server();
    apply(&mut server, &map(&json!({}), &json!({"finalizers": ["limen.dev/leaves"]})));
    let path = format!("{MAPS}/one");
    call(&mut server, "DELETE", &path, "application/json", &json!({}));
    let object = call(&mut server, "GET", &path, "", &Value::Null);
    assert!(body(&object)["metadata"]["deletionTimestamp"].is_string());
    call(&mut server, "PATCH", &path, MERGE, &json!({"metadata": {"finalizers": []}}));
    assert_eq!(call(&mut server, "GET", &path, "", &Value::Null).status, 404);
}

#[test]
fn dependents_go_with_their_owner_unless_they_are_orphaned() {
    for (policy, left) in [("Background", 404), ("Orphan", 200)] {
        let mut server = server();
        let owner = apply(&mut server, &map(&json!({}), &json!({})));
        let owners = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "one",
            "uid": body(&owner)["metadata"]["uid"]}]);
        let object = json!({"metadata": {"name": "two", "ownerReferences": owners}});
        call(&mut server, "POST", MAPS, "application/json", &object);
        let options = json!({"propagationPolicy": policy});
        call(&mut server, "DELETE", &format!("{MAPS}/one"), "application/json", &options);
        server.tick(&mut Random::new(1));
        server.tick(&mut Random::new(1));
        let two = call(&mut server, "GET", &format!("{MAPS}/two"), "", &Value::Null);
        assert_eq!(two.status, left, "{policy}");
    }
}

#[test]
fn a_watch_sees_an_object_go_that_its_selector_no_longer_matches() {
    let mut server = server();
    apply(&mut server, &map(&json!({}), &json!({"labels": {"app": "web"}})));
    let start = server.revision();
    let patch = json!({"metadata": {"labels": {"app": "other"}}});
    call(&mut server, "PATCH", &format!("{MAPS}/one"), MERGE, &patch);
    let entry = server.logged_after(start, "configmaps").unwrap().unwrap();
    assert_eq!(selected_event(entry, "app=web"), Some("DELETED"));
    assert_eq!(selected_event(entry, "app=other"), Some("ADDED"));
    assert_eq!(selected_event(entry, "app=third"), None);
    assert_eq!(selected_event(entry, ""), Some("MODIFIED"));
}

#[test]
fn watches_from_a_compacted_or_a_future_version_have_expired() {
    let mut server = server();
    let backup = server.clone();
    let before = server.revision();
    apply(&mut server, &map(&json!({}), &json!({})));
    let after = server.revision();
    assert!(server.logged_after(before, "configmaps").unwrap().is_some());
    server.compact();
    assert_eq!(server.logged_after(before, "configmaps").unwrap_err(), Expired);
    server.restore(&backup);
    assert_eq!(server.logged_after(after, "configmaps").unwrap_err(), Expired);
    assert!(server.get(&Key::new("configmaps", "shop", "one")).is_none());
}

#[test]
fn lists_come_in_pages_and_unknown_kinds_are_not_found() {
    let mut server = server();
    for name in ["a", "b", "c"] {
        call(&mut server, "POST", MAPS, "application/json", &json!({"metadata": {"name": name}}));
    }
    let first = call(&mut server, "GET", "/api/v1/configmaps?limit=2", "", &Value::Null);
    let token = body(&first)["metadata"]["continue"].as_str().unwrap().replace('/', "%2F");
    let path = format!("/api/v1/configmaps?limit=2&continue={token}");
    let second = call(&mut server, "GET", &path, "", &Value::Null);
    let count = |reply: &Reply| body(reply)["items"].as_array().unwrap().len();
    assert_eq!((count(&first), count(&second)), (2, 1));
    assert_eq!(
        call(&mut server, "GET", "/apis/example.com/v1/things", "", &Value::Null),
        Reply::no_such_path()
    );
}
