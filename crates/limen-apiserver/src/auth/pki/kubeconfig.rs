//! The text of a kubeconfig file with everything in it that a client needs.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;

/// What things are called in a kubeconfig.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KubeconfigNames<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// The user.
    pub user: &'a str,
    /// The context that puts both together.
    pub context: &'a str,
}

/// The kubeconfig of the user with that certificate and key, for the API at `url`.
pub(crate) fn kubeconfig(
    url: &str,
    names: &KubeconfigNames<'_>,
    ca_pem: &str,
    certificate_pem: &str,
    key_pem: &str,
) -> String {
    // JSON strings are YAML strings, whatever is in them.
    let [url, cluster, user, context] =
        [url, names.cluster, names.user, names.context].map(|text| json!(text).to_string());
    let [ca, certificate, key] =
        [ca_pem, certificate_pem, key_pem].map(|pem| BASE64_STANDARD.encode(pem));
    format!(
        "\
apiVersion: v1
kind: Config
clusters:
- name: {cluster}
  cluster:
    server: {url}
    certificate-authority-data: {ca}
users:
- name: {user}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: {context}
  context:
    cluster: {cluster}
    user: {user}
current-context: {context}
"
    )
}
