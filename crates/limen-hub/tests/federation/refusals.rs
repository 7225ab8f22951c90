//! Real Kubernetes members that refuse: a quota that is used up, a webhook that says no.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use limen_api::dialect::Home;
use limen_core::federated::ObjectId;
use limen_testbed::ControlPlane;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::rig::{ApiServer, Rig, eventually, id_of};

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"key": "value"}})
}

/// One real member, under a hub of Limen's own.
async fn rig() -> (Rig, ControlPlane) {
    let mut rig = Rig::around(ApiServer::start().await, Home::Embedded).await;
    let plane = ControlPlane::start().await.unwrap();
    let member = ApiServer::running(plane.kubeconfig_path()).await;
    rig.join("asia-1", &member).await;
    rig.members.insert("asia-1".to_owned(), member);
    (rig, plane)
}

/// Waits until the record of a root, and an Event, say why the member does not take it.
async fn eventually_refused(rig: &Rig, id: &ObjectId, why: &str) {
    rig.eventually_on_hub(&Rig::record(id), |record| {
        record.is_some_and(|record| {
            let leaf = &record["spec"]["clusters"][0];
            leaf["state"] == "Failed"
                && leaf["message"].as_str().is_some_and(|text| text.contains(why))
        })
    })
    .await;
    eventually("an Event says so", async || {
        let events = rig.events(id).await;
        let said = |(reason, message): &(String, String)| {
            reason == "CreateInClusterFailed" && message.contains(why)
        };
        (events.iter().any(said), format!("{events:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_that_is_used_up_is_said_and_more_room_is_used() {
    let (rig, _plane) = rig().await;
    let member = rig.member("asia-1");
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": "default"},
        "spec": {"hard": {"count/configmaps": "1"}}});
    let quota_id = id_of(&quota);
    member.create(&quota).await;
    // Counting is the work of a controller that does not run here.
    let counted = json!({"status": {
        "hard": {"count/configmaps": "1"}, "used": {"count/configmaps": "1"}}});
    member.api().merge(&quota_id, "/status", &counted).await.unwrap();

    let root = config_map("settings");
    let id = id_of(&root);
    rig.hub.create(&root).await;
    eventually_refused(&rig, &id, "over quota").await;
    let more = json!({"spec": {"hard": {"count/configmaps": "9"}}});
    member.api().merge(&quota_id, "", &more).await.unwrap();
    let counted = json!({"status": {
        "hard": {"count/configmaps": "9"}, "used": {"count/configmaps": "1"}}});
    member.api().merge(&quota_id, "/status", &counted).await.unwrap();
    rig.eventually(&id, &["asia-1"], |leaf| leaf.is_some()).await;
}

/// Denies everything that it is asked about.
async fn denier() -> (std::net::SocketAddr, String) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service_fn(deny))
                    .await;
            });
        }
    });
    (address, made.cert.pem())
}

async fn deny(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": false,
            "status": {"code": 403, "message": "not on a Friday"}}});
    let mut response = Response::new(Full::new(answer.to_string().into()));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert("content-type", json);
    Ok(response)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_denies_is_said_and_tried_again() {
    let (rig, _plane) = rig().await;
    let member = rig.member("asia-1");
    let (address, certificate) = denier().await;
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "fridays"},
        "webhooks": [{
            "name": "fridays.example.com", "sideEffects": "None", "failurePolicy": "Fail",
            "admissionReviewVersions": ["v1"],
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["configmaps"]}],
            "clientConfig": {"url": format!("https://{address}/"),
                "caBundle": BASE64_STANDARD.encode(certificate)}}]});
    let webhook_id = id_of(&webhook);
    member.create(&webhook).await;
    // It takes the API server a moment to know of its webhooks.
    eventually("the webhook is in force", async || {
        let probe = config_map("probe");
        let tried = member.api().create(&id_of(&probe).kind, &probe).await;
        let denied = tried.as_ref().is_err_and(|error| error.to_string().contains("Friday"));
        if let Ok(made) = &tried {
            let uid = made["metadata"]["uid"].as_str().unwrap();
            member.api().delete(&id_of(&probe), uid).await.unwrap();
        }
        (denied, format!("{tried:?}"))
    })
    .await;

    let root = config_map("settings");
    let id = id_of(&root);
    rig.hub.create(&root).await;
    eventually_refused(&rig, &id, "denied by a webhook").await;
    let uid = member.get(&webhook_id).await.unwrap()["metadata"]["uid"].clone();
    member.api().delete(&webhook_id, uid.as_str().unwrap()).await.unwrap();
    rig.eventually(&id, &["asia-1"], |leaf| leaf.is_some()).await;
}
