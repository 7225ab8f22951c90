//! A gateway with the rights that the documentation gives it, and no others.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{ListParams, PostParams};
use kube::config::AuthInfo;
use kube::{Api, Client};
use limen_gateway::source::Hub;
use limen_gateway::{Gateway, Options};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::bed::{Bed, ingress, service};
use crate::rig::{ApiServer, eventually, id_of};

/// What the page says that a gateway gets, document by document.
fn rights() -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block = blocks.into_iter().find(|block| block.contains("name: limen-gateway"));
    block.unwrap().split("---\n").map(str::to_owned).collect()
}

/// Applies a manifest as it is written.
async fn apply(hub: &ApiServer, manifest: &str) {
    let word = |field: &str| {
        let rest = manifest.split(&format!("{field}: ")).nth(1)?;
        rest.split([',', ' ', '\n']).next().map(str::to_owned)
    };
    let (kind, name) = (word("kind").unwrap(), word("name").unwrap());
    let head = manifest.split("metadata:").nth(1).unwrap().lines().next().unwrap();
    let namespaced = head.contains("namespace:");
    let base = match word("apiVersion").unwrap() {
        core if core == "v1" => "/api/v1".to_owned(),
        group => format!("/apis/{group}"),
    };
    let place = if namespaced { "/namespaces/limen-gateways" } else { "" };
    let path = format!("{base}{place}/{}s/{name}?fieldManager=test", kind.to_lowercase());
    let request = http::Request::patch(path)
        .header("content-type", "application/apply-patch+yaml")
        .body(manifest.as_bytes().to_vec())
        .unwrap();
    hub.client.request::<Value>(request).await.unwrap();
}

/// A client with the token of the gateway's account.
async fn as_gateway(hub: &ApiServer) -> Client {
    let accounts: Api<ServiceAccount> = Api::namespaced(hub.client.clone(), "limen-gateways");
    let asked = TokenRequest::default();
    let made = accounts.create_token_request("gateway", &PostParams::default(), &asked).await;
    let token = made.unwrap().status.unwrap().token;
    let mut config = hub.config.clone();
    config.auth_info = AuthInfo { token: token.map(Into::into), ..AuthInfo::default() };
    Client::try_from(config).unwrap()
}

/// A Secret with a new certificate for a host, and a client that trusts no other.
fn certificate(name: &str, host: &str) -> (Value, ClientConfig) {
    let made = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": "default"},
        "stringData": {"tls.crt": certificate, "tls.key": key}});
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    (secret, builder.unwrap().with_root_certificates(roots).with_no_client_auth())
}

async fn eventually_trusted(gateway: &Gateway, host: &'static str, client: ClientConfig) {
    let connector = TlsConnector::from(Arc::new(client));
    eventually("the certificate that is shown", async || {
        let Ok(stream) = TcpStream::connect(gateway.https()[0]).await else {
            return (false, "nobody listens".to_owned());
        };
        let outcome = connector.connect(ServerName::try_from(host).unwrap(), stream).await;
        (outcome.is_ok(), format!("{:?}", outcome.err()))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_sees_the_certificates_that_are_served_and_no_other_secret() {
    let bed = Bed::start(&["c1"]).await;
    for manifest in rights() {
        apply(bed.hub(), &manifest).await;
    }
    let (first, trusting) = certificate("web-cert", "web.test");
    let (unnamed, _) = certificate("other", "other.test");
    bed.hub().create(&first).await;
    bed.hub().create(&unnamed).await;
    bed.hub().create(&service("web")).await;
    let mut root = ingress("web", Some("web.test"));
    root["spec"]["tls"] = json!([{"hosts": ["web.test"], "secretName": "web-cert"}]);
    bed.hub().create(&root).await;
    bed.serve("c1", "web", 2).await;

    let client = as_gateway(bed.hub()).await;
    let any = "127.0.0.1:0".parse().unwrap();
    let options = Options {
        name: "edge-1".to_owned(),
        https: vec![any],
        drain: Duration::from_secs(5),
        ..Options::default()
    };
    let gateway = Gateway::start(options, Hub::for_gateway(client.clone(), None)).unwrap();
    gateway.ready().await;
    eventually_trusted(&gateway, "web.test", trusting).await;
    // It also tells others of itself.
    let edge =
        json!({"apiVersion": "limen.dev/v1alpha1", "kind": "Edge", "metadata": {"name": "edge-1"}});
    bed.rig.eventually_on_hub(&id_of(&edge), |edge| edge.is_some()).await;

    let (second, trusting) = certificate("web-cert", "web.test");
    bed.hub().api().merge(&id_of(&second), "", &second).await.unwrap();
    eventually_trusted(&gateway, "web.test", trusting).await;

    let all: Api<Secret> = Api::all(client.clone());
    let seen = |namespace: &str| Api::<Secret>::namespaced(client.clone(), namespace);
    let refused = |error: kube::Error| match error {
        kube::Error::Api(status) => assert_eq!(status.code, 403, "{status:?}"),
        other => panic!("{other}"),
    };
    refused(all.list(&ListParams::default()).await.unwrap_err());
    refused(seen("limen-system").list(&ListParams::default()).await.unwrap_err());
    refused(seen("default").get("web-cert").await.unwrap_err());
    let copies = seen("limen-gateways").list(&ListParams::default()).await.unwrap();
    let names: Vec<_> = copies.iter().filter_map(|copy| copy.metadata.name.as_deref()).collect();
    assert_eq!(names, ["default.web-cert"]);

    bed.rig.delete(&id_of(&root)).await;
    eventually("the copies that are left", async || {
        let left = seen("limen-gateways").list(&ListParams::default()).await.unwrap();
        (left.items.is_empty(), format!("{} are", left.items.len()))
    })
    .await;
    gateway.stop().await;
}
