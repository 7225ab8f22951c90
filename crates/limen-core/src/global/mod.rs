//! What a root compiles to: the hosts, the rules, and every cluster's way in.
//!
//! A `GlobalIngress` object has this as its `spec`. The hub writes it, people read it, edges obey
//! it: a gateway matches a request to a rule, takes the rule's backend, and chooses among the
//! targets of that backend by the rules of [`TrafficRules`].

mod dns;
mod host;
mod target;
mod traffic;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use dns::DnsRules;
pub use host::for_host;
pub use target::{Address, Capacity, Protocol, Target, Verdict, Verdicts};
pub use traffic::{
    Affinity, ClientLimit, HeaderMatch, HealthCheck, HealthCheckKind, Mirror, Outliers, Residency,
    Retries, Split, Timeouts, TrafficRules, UpstreamTls,
};

/// The compiled form of one root.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Global {
    /// What a person submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<RootReference>,
    /// Which host and path leads to which backend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// The backend of what no rule matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_backend: Option<String>,
    /// Which hosts are served over TLS, and with which certificate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tls: Vec<TlsHosts>,
    /// What rules lead to, each with its targets in every cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<Backend>,
    /// How clients are met.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client: ClientRules,
    /// How traffic is shared among targets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub traffic: TrafficRules,
}

impl Global {
    /// The Secrets of its namespace that gateways need for it.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let certificates = self.tls.iter().filter_map(|tls| tls.secret_name.as_deref());
        let targets = self.traffic.upstream_tls.as_ref();
        let authorities = targets.and_then(|tls| tls.ca_secret.as_deref());
        certificates.chain(self.client.client_ca_secret.as_deref()).chain(authorities)
    }
}

/// What a person submitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RootReference {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name, in the namespace of the GlobalIngress.
    pub name: String,
}

/// The paths of one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// A name, `*.` and a name for one label in front of it, or nothing for every host.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Its paths.
    #[serde(default)]
    pub paths: Vec<PathRule>,
}

/// Where one path leads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathRule {
    /// The path; it starts with a slash.
    pub path: String,
    /// How it is compared.
    #[serde(default)]
    pub path_type: PathType,
    /// The name of the backend.
    pub backend: String,
}

/// How a path is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PathType {
    /// The whole path, byte for byte.
    Exact,
    /// Element by element: `/a` matches `/a` and `/a/b`, and not `/ab`.
    #[default]
    Prefix,
    /// Up to the implementation: here the same as `Prefix`.
    ImplementationSpecific,
}

/// Hosts with a certificate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TlsHosts {
    /// The hosts; none means all hosts of the rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The Secret, in the namespace of the GlobalIngress, that holds certificate and key; none
    /// means the edge's default certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
}

/// What rules lead to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// What rules call it: Service and port, as `web:80` or `web:http`.
    pub name: String,
    /// Every cluster's way in.
    #[serde(default)]
    pub targets: Vec<Target>,
}

/// How clients are met.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientRules {
    /// Answer plain HTTP with a redirect to HTTPS, for hosts that have TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_to_https: Option<bool>,
    /// Send `Strict-Transport-Security` with this age, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hsts_seconds: Option<u64>,
    /// Ask clients for certificates from the authority in this Secret (key `ca.crt`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca_secret: Option<String>,
    /// How much one client may ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<ClientLimit>,
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
