//! The text of a kubeconfig file: one cluster, one user, one context, and the
//! certificates inside, so that it can be handed to any client as it is.

use base64::{Engine, prelude::BASE64_STANDARD};

use crate::certificates::ClientTls;

/// The kubeconfig of the user whose certificate is in `tls`, for the API at `url`.
pub(crate) fn kubeconfig(url: &str, tls: &ClientTls) -> String {
    let ca = BASE64_STANDARD.encode(&tls.ca_pem);
    let cert = BASE64_STANDARD.encode(&tls.cert_pem);
    let key = BASE64_STANDARD.encode(&tls.key_pem);
    format!(
        "\
apiVersion: v1
kind: Config
clusters:
- name: testbed
  cluster:
    server: {url}
    certificate-authority-data: {ca}
users:
- name: admin
  user:
    client-certificate-data: {cert}
    client-key-data: {key}
contexts:
- name: testbed
  context:
    cluster: testbed
    user: admin
current-context: testbed
"
    )
}

#[cfg(test)]
mod tests {
    use kube::config::{KubeConfigOptions, Kubeconfig};

    use super::*;
    use crate::certificates::Authority;

    #[tokio::test]
    async fn kubernetes_client_finds_the_server_and_the_certificates_in_it() {
        let admin = Authority::new("test").unwrap().client("admin", "system:masters").unwrap();

        let text = kubeconfig("https://127.0.0.1:6443", &admin);

        let read = Kubeconfig::from_yaml(&text).unwrap();
        let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
            .await
            .unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://127.0.0.1:6443/");
        assert_eq!(config.root_cert.unwrap().len(), 1);
        let cert = config.auth_info.client_certificate_data.unwrap();
        assert_eq!(BASE64_STANDARD.decode(cert).unwrap(), admin.cert_pem.into_bytes());
    }
}
