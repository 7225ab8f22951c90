//! From a `Cluster` and its Secret to a client.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hyper_rustls::{DefaultServerNameResolver, FixedServerNameResolver, HttpsConnector};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::config::{AuthInfo, Cluster as KubeCluster, Context, KubeConfigOptions, Kubeconfig};
use kube::config::{NamedAuthInfo, NamedCluster, NamedContext};
use kube::{Client, Config};
use limen_api::{Cluster, ClusterSpec, unreadable_kubeconfig};
use tower::{BoxError, ServiceBuilder};

/// How long it may take to reach a member and agree on keys.
const CONNECT: Duration = Duration::from_secs(5);
/// After how much silence a member is asked whether the connection still stands, and how long it
/// has to answer. Probes come more often, so a member that is well is never asked.
const SILENCE: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(5);

/// What a Secret holds.
pub type SecretData = BTreeMap<String, Vec<u8>>;

/// Why a member has no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no Secret.
    #[error("the Secret {0} in the namespace limen-system is missing; run limen join again")]
    NoSecret(String),
    /// Nothing says how to log in.
    #[error("spec.credentials is missing; name a Secret in the namespace limen-system")]
    NoCredentials,
    /// The Secret has only half of what is needed.
    #[error(
        "the Secret {secret} has {has} and no {lacks}; give it kubeconfig, or both token and ca.crt"
    )]
    HalfASecret {
        /// Its name.
        secret: String,
        /// What it has.
        has: &'static str,
        /// What it lacks.
        lacks: &'static str,
    },
    /// No address.
    #[error("spec.endpoint is missing, and the Secret {0} has no kubeconfig that would name one")]
    NoEndpoint(String),
    /// The kubeconfig cannot be used.
    #[error("the credential in the Secret {secret} cannot be used: {reason}")]
    Unusable {
        /// The Secret.
        secret: String,
        /// Why not.
        reason: String,
    },
}

/// A client for a member.
pub async fn member_client(
    cluster: &Cluster,
    secret: Option<&SecretData>,
) -> Result<Client, ConnectError> {
    let name = match &cluster.spec.credentials {
        Some(credentials) => credentials.name.clone(),
        None => return Err(ConnectError::NoCredentials),
    };
    let data = secret.ok_or_else(|| ConnectError::NoSecret(name.clone()))?;
    let unusable = |reason: String| ConnectError::Unusable { secret: name.clone(), reason };
    let kubeconfig = match data.get("kubeconfig") {
        Some(kubeconfig) => {
            let text = String::from_utf8(kubeconfig.clone())
                .map_err(|_| unusable("kubeconfig is not text".to_owned()))?;
            let kubeconfig = Kubeconfig::from_yaml(&text).map_err(|error| {
                unusable(format!("kubeconfig: {}", unreadable_kubeconfig(&error)))
            })?;
            refuse_outside_help(&kubeconfig).map_err(|reason| unusable(reason.to_owned()))?;
            kubeconfig
        }
        None => from_token(cluster, &name, data)?,
    };
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|error| unusable(unreadable_kubeconfig(&error)))?;
    if let Some(endpoint) = &cluster.spec.endpoint {
        config.cluster_url = endpoint
            .parse()
            .map_err(|error| unusable(format!("spec.endpoint {endpoint:?}: {error}")))?;
    }
    client(config).map_err(|error| unusable(error.to_string()))
}

/// A client that carries all requests and watches over one connection, if the member speaks
/// HTTP/2: a hub has a dozen watches in each of perhaps hundreds of members.
fn client(mut config: Config) -> Result<Client, BoxError> {
    // Watches last minutes and have limits of their own; everything else is bounded by the syncer.
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = None;
    if config.proxy_url.is_some() {
        return Ok(Client::try_from(config)?);
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let mut tls = config.rustls_client_config()?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut connector = TimeoutConnector::new(match &config.tls_server_name {
        None => {
            HttpsConnector::new(tcp, tls, false, Arc::new(DefaultServerNameResolver::default()))
        }
        Some(name) => {
            let resolver = FixedServerNameResolver::new(name.clone().try_into()?);
            HttpsConnector::new(tcp, tls, false, Arc::new(resolver))
        }
    });
    connector.set_connect_timeout(config.connect_timeout);
    let http: legacy::Client<_, Body> = legacy::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(SILENCE)
        .http2_keep_alive_timeout(ANSWER)
        .http2_keep_alive_while_idle(true)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}

/// A Secret must not make the hub run programs or read its files.
fn refuse_outside_help(kubeconfig: &Kubeconfig) -> Result<(), &'static str> {
    for user in kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref()) {
        if user.exec.is_some() || user.auth_provider.is_some() {
            return Err("it asks for a program to log in with; give it a token or a certificate");
        }
        if user.token_file.is_some()
            || user.client_certificate.is_some()
            || user.client_key.is_some()
        {
            return Err(
                "it names files; put their content into it (kubectl config view --flatten)",
            );
        }
    }
    let clusters = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref());
    match clusters.into_iter().any(|cluster| cluster.certificate_authority.is_some()) {
        true => Err("it names files; put their content into it (kubectl config view --flatten)"),
        false => Ok(()),
    }
}

fn from_token(
    cluster: &Cluster,
    name: &str,
    data: &SecretData,
) -> Result<Kubeconfig, ConnectError> {
    let half = |has, lacks| ConnectError::HalfASecret { secret: name.to_owned(), has, lacks };
    let insecure = cluster.spec.insecure_skip_tls_verify;
    let (token, ca) = match (data.get("token"), data.get("ca.crt")) {
        (Some(token), Some(ca)) => (token, Some(ca)),
        (Some(token), None) if insecure => (token, None),
        (Some(_), None) => return Err(half("token", "ca.crt")),
        (None, Some(_)) => return Err(half("ca.crt", "token")),
        (None, None) => return Err(half("neither kubeconfig nor token", "ca.crt")),
    };
    let Some(endpoint) = &cluster.spec.endpoint else {
        return Err(ConnectError::NoEndpoint(name.to_owned()));
    };
    let token = String::from_utf8(token.clone()).map_err(|_| ConnectError::Unusable {
        secret: name.to_owned(),
        reason: "token is not text".to_owned(),
    })?;
    let encode = |ca: &Vec<u8>| base64::Engine::encode(&base64::prelude::BASE64_STANDARD, ca);
    Ok(Kubeconfig {
        current_context: Some("member".to_owned()),
        clusters: vec![NamedCluster {
            name: "member".to_owned(),
            cluster: Some(KubeCluster {
                server: Some(endpoint.clone()),
                certificate_authority_data: ca.map(encode),
                insecure_skip_tls_verify: Some(insecure && ca.is_none()),
                ..KubeCluster::default()
            }),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: "member".to_owned(),
            auth_info: Some(AuthInfo {
                token: Some(token.trim().to_owned().into()),
                ..AuthInfo::default()
            }),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: "member".to_owned(),
            context: Some(Context {
                cluster: "member".to_owned(),
                user: Some("member".to_owned()),
                ..Context::default()
            }),
            ..NamedContext::default()
        }],
        ..Kubeconfig::default()
    })
}

/// Sources of a client: a change of them takes a new one.
pub(crate) type MadeFrom = (ClusterSpec, SecretData);

/// Makes the client of a member from its `Cluster` and Secret.
pub type Connector =
    Arc<dyn Fn(&Cluster, Option<&SecretData>) -> Result<kube::Client, ConnectError> + Send + Sync>;

/// The sources of a member's client.
pub(crate) fn made_from(cluster: &Cluster, secret: Option<&SecretData>) -> MadeFrom {
    let ClusterSpec { endpoint, credentials, insecure_skip_tls_verify, .. } = cluster.spec.clone();
    let spec =
        ClusterSpec { endpoint, credentials, insecure_skip_tls_verify, ..ClusterSpec::default() };
    (spec, secret.cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use limen_api::{ClusterSpec, SecretReference};

    use super::*;

    #[tokio::test]
    async fn what_is_said_of_a_credential_has_nothing_of_it() {
        let credentials = Some(SecretReference { name: "asia".to_owned() });
        let cluster = Cluster::new("asia", ClusterSpec { credentials, ..ClusterSpec::default() });
        let text = "users:\n- name: a\n  user:\n    token: hunter2\n   client-key-data: hunter3\n";
        let secret = SecretData::from([("kubeconfig".to_owned(), text.as_bytes().to_vec())]);
        let Err(error) = member_client(&cluster, Some(&secret)).await else {
            panic!("it cannot be used");
        };
        let said = error.to_string();
        assert!(said.contains("Secret asia") && said.contains("line "), "{said}");
        assert!(!said.contains("hunter") && !format!("{error:?}").contains("hunter"), "{error:?}");
    }
}
