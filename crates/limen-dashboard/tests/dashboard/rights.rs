//! Who may see and do what.

use std::time::Duration;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use limen_api::Cluster;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::answer::Answer;
use crate::bed::{Bed, limen};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_is_public_and_nothing_else_is() {
    let mut bed = Bed::start().await;
    let page = bed.get("/", "").await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-security-policy").unwrap().contains("default-src 'self'"));
    // Every file that the page names is there.
    for file in ["style.css", "app.js", "icon.svg"] {
        assert!(page.text.contains(file), "{file}");
        assert_eq!(bed.get(&format!("/{file}"), "").await.status, 200, "{file}");
    }
    for path in ["/api/me", "/api/live", "/api/explain?where=a"] {
        assert_eq!(bed.get(path, "limen-session=0").await.status, 401, "{path}");
    }
    let drain = bed.post("/api/drain", "", &json!({"cluster": "asia"})).await;
    assert_eq!(drain.status, 401);
    assert_eq!(bed.get("/../Cargo.toml", "").await.status, 404);
    bed.hub.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_tokens_and_forms_are_refused_with_a_reason() {
    let mut bed = Bed::start().await;
    let (refused, cookie) = bed.log_in("made-up").await;
    assert_eq!(refused.status, 401);
    assert!(refused.text.contains("does not know this token"), "{}", refused.text);
    assert!(cookie.is_empty());
    assert_eq!(bed.log_in("  ").await.0.status, 400);
    // A form of another site cannot log anybody in.
    let form = "POST /api/login HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                content-type: text/plain\r\ncontent-length: 2\r\n\r\n{}";
    let answer = Answer::to(bed.dashboard.address(), form, None).await;
    assert_eq!(answer.status, 400);
    bed.hub.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_only_look_can_only_look() {
    let mut bed = Bed::start().await;
    let token = bed.token("reader", limen(&["get", "list", "watch"])).await;
    let (me, cookie) = bed.log_in(&token).await;
    assert_eq!(me.status, 200);
    assert_eq!(me.body()["user"], "system:serviceaccount:default:reader");
    assert_eq!(me.body()["mayChange"], false);
    assert!(me.header("set-cookie").unwrap().contains("HttpOnly; SameSite=Strict"));
    let update = bed.view(&cookie).await;
    assert_eq!(update["view"]["clusters"][0]["name"], "asia");
    assert_eq!(update["missing"], json!([]));
    let drain = bed.post("/api/drain", &cookie, &json!({"cluster": "asia"})).await;
    assert_eq!(drain.status, 403, "{}", drain.text);
    let expected = "cannot change the cluster asia on the hub: clusters.limen.dev \"asia\" is \
                    forbidden: User \"system:serviceaccount:default:reader\" cannot patch";
    let said = drain.body()["message"].as_str().unwrap().to_owned();
    assert!(said.starts_with(expected) && !said.contains("ApiError"), "{said}");
    let play = bed.post("/api/play", &cookie, &json!({"cluster": "asia", "what": "kill"})).await;
    assert_eq!(play.status, 404, "{}", play.text);
    bed.hub.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_look_is_told_what_is_missing() {
    let mut bed = Bed::start().await;
    let token = bed.token("nobody", json!([])).await;
    let (_, cookie) = bed.log_in(&token).await;
    let update = bed.view(&cookie).await;
    assert_eq!(update["view"]["clusters"], json!([]));
    let missing = update["missing"].as_array().unwrap();
    assert_eq!(missing.len(), 6, "{missing:?}");
    assert_eq!(update["awaySince"], Value::Null, "the hub is there");
    assert!(missing[0].as_str().unwrap().contains("forbidden"), "{missing:?}");
    bed.hub.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_is_previewed_done_and_taken_back() {
    let mut bed = Bed::start().await;
    let token = bed.token("writer", limen(&["get", "list", "watch", "patch"])).await;
    let (me, cookie) = bed.log_in(&token).await;
    assert_eq!(me.body()["mayChange"], true);
    let clusters: Api<Cluster> = Api::all(bed.client.clone());
    let draining = async || clusters.get("asia").await.unwrap().spec.drain;

    let preview = json!({"cluster": "asia", "preview": true});
    let answer = bed.post("/api/drain", &cookie, &preview).await;
    assert_eq!((answer.status, answer.body()), (200, json!({"backends": 0})));
    assert!(!draining().await);
    let answer = bed.post("/api/drain", &cookie, &json!({"cluster": "asia"})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(draining().await);
    let answer = bed.post("/api/undrain", &cookie, &json!({"cluster": "asia"})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(!draining().await);
    let answer = bed.post("/api/drain", &cookie, &json!({"cluster": "mars"})).await;
    assert_eq!(answer.status, 404);
    assert!(answer.body()["message"].as_str().unwrap().contains("asia"), "{}", answer.text);

    assert_eq!(bed.post("/api/logout", &cookie, &json!({})).await.status, 200);
    assert_eq!(bed.get("/api/me", &cookie).await.status, 401);
    bed.hub.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_logs_out_is_shown_nothing_more() {
    let mut bed = Bed::start().await;
    let token = bed.token("reader", limen(&["get", "list", "watch"])).await;
    let (_, cookie) = bed.log_in(&token).await;
    let (_, other) = bed.log_in(&token).await;
    let head = format!(
        "GET /api/live HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncookie: {cookie}\r\n\r\n"
    );
    let address = bed.dashboard.address();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.readable().await.unwrap();
    assert_eq!(bed.post("/api/logout", &cookie, &json!({})).await.status, 200);
    let mut shown = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut shown)).await;
    end.expect("the stream ends").unwrap();
    assert!(shown.starts_with(b"HTTP/1.1 200 "));
    assert_eq!(bed.view(&other).await["view"]["clusters"][0]["name"], "asia", "others stay");
    bed.hub.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_certificate_is_as_good_as_a_token() {
    let mut bed = Bed::start().await;
    let kubeconfig = std::fs::read_to_string(bed.hub.server().kubeconfig()).unwrap();
    let answer = bed.post("/api/login", "", &json!({"kubeconfig": kubeconfig})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(
        (&answer.body()["mayChange"], &answer.body()["mayShare"]),
        (&json!(true), &json!(true))
    );
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(bed.view(&cookie).await["view"]["clusters"][0]["name"], "asia");

    let mut other = Bed::start().await;
    let stranger = std::fs::read_to_string(other.hub.server().kubeconfig()).unwrap();
    let answer = bed.post("/api/login", "", &json!({"kubeconfig": stranger})).await;
    assert!([401, 403, 502].contains(&answer.status), "another hub's certificate: {}", answer.text);
    let answer = bed.post("/api/login", "", &json!({"kubeconfig": "users: []"})).await;
    assert_eq!(answer.status, 400, "{}", answer.text);
    bed.hub.stop().await;
    other.hub.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_that_would_do_harm_is_refused_with_the_numbers() {
    let mut bed = Bed::start().await;
    let globals: Api<limen_api::GlobalIngress> = Api::default_namespaced(bed.client.clone());
    let global = serde_json::from_value(json!({
        "apiVersion": "limen.dev/v1alpha1", "kind": "GlobalIngress", "metadata": {"name": "web"},
        "spec": {"backends": [{"name": "web:80", "targets": [
            {"cluster": "asia", "addresses": [{"host": "192.0.2.1", "port": 80}]}]}]}}));
    globals.create(&PostParams::default(), &global.unwrap()).await.unwrap();
    let token = bed.token("writer", limen(&["get", "list", "watch", "patch"])).await;
    let (_, cookie) = bed.log_in(&token).await;
    for preview in [true, false] {
        let wish = json!({"cluster": "asia", "preview": preview});
        let answer = bed.post("/api/drain", &cookie, &wish).await;
        assert_eq!(answer.status, 409, "{}", answer.text);
        let expected = "asia must not be drained:\n  default/web (web:80): 0 of 1 clusters would be left (none)";
        assert_eq!(answer.body()["message"], expected);
    }
    bed.hub.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_known_any_more_is_told_to_log_in_again() {
    let mut bed = Bed::start().await;
    let token = bed.token("leaver", limen(&["get", "list", "watch", "patch"])).await;
    let (_, cookie) = bed.log_in(&token).await;
    assert_eq!(bed.view(&cookie).await["unknown"], false);
    let accounts: Api<ServiceAccount> = Api::default_namespaced(bed.client.clone());
    accounts.delete("leaver", &DeleteParams::default()).await.unwrap();

    assert_eq!(bed.view(&cookie).await["unknown"], true);
    let drain = bed.post("/api/drain", &cookie, &json!({"cluster": "asia"})).await;
    let me = bed.get("/api/me", &cookie).await;
    for answer in [&drain, &me] {
        assert_eq!(answer.status, 401, "{}", answer.text);
        let said = answer.body()["message"].as_str().unwrap().to_owned();
        assert!(said.contains("log in with another one"), "{said}");
    }
    assert_eq!(me.body()["session"], true);
    assert_eq!(bed.get("/api/me", "").await.body()["session"], false);
    bed.hub.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_is_told_that_the_hub_is_away() {
    told_that_the_hub_is_away(limen(&["get", "list", "watch"])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_is_a_viewer_who_may_not_see_everything() {
    let mut rules = limen(&["get", "list", "watch"]);
    rules.as_array_mut().unwrap().pop();
    told_that_the_hub_is_away(rules).await;
}

async fn told_that_the_hub_is_away(rules: Value) {
    let mut bed = Bed::start().await;
    let token = bed.token("reader", rules).await;
    let (_, cookie) = bed.log_in(&token).await;
    let head = format!("GET /api/live HTTP/1.1\r\nhost: x\r\ncookie: {cookie}\r\n\r\n");
    let mut stream = TcpStream::connect(bed.dashboard.address()).await.unwrap();
    // Somebody who looks must have seen something first.
    let first = Answer::over(&mut stream, &head, Some("data: ")).await;
    assert!(first.text.contains("\"awaySince\":null"), "{}", first.text);
    bed.hub.stop().await;
    // A time in seconds since 1970, and not null.
    let told = Answer::over(&mut stream, "", Some("\"awaySince\":1")).await;
    let last =
        told.text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["view"]["clusters"][0]["name"], "asia", "what was known is still shown");
    assert_eq!(last["missing"].as_array().unwrap().len(), 6, "{last}");
    let drain = bed.post("/api/drain", &cookie, &json!({"cluster": "asia"})).await;
    assert_eq!(drain.status, 502, "{}", drain.text);
    let said = drain.body()["message"].as_str().unwrap().to_owned();
    assert!(said.ends_with("is the hub running?") && !said.contains("Error:"), "{said}");
}
