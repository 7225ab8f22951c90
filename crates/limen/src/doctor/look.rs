//! Looking at an API server without changing anything: its clock, its certificate, how long
//! credentials last.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use http::Request;
use http::header::DATE;
use kube::client::{Body, ConfigExt};
use kube::config::AuthInfo;
use kube::{Client, Config};
use secrecy::ExposeSecret;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use x509_parser::prelude::parse_x509_certificate;

/// How long one look may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Its version, and how far its clock is ahead of ours.
pub(super) async fn version(client: &Client) -> Result<(String, Option<i64>), String> {
    let looking = async {
        let version = client.apiserver_version().await?;
        let request =
            Request::get("/version").body(Body::empty()).map_err(kube::Error::HttpError)?;
        let answer = client.send(request).await?;
        let now = jiff::Timestamp::now().as_second();
        let date = answer.headers().get(DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
        Ok((version.git_version, date.map(|date| date.timestamp().as_second() - now)))
    };
    match tokio::time::timeout(PATIENCE, looking).await {
        Err(_) => Err(format!("it is silent for {} s", PATIENCE.as_secs())),
        Ok(found) => found.map_err(|error: kube::Error| reason(&error)),
    }
}

/// The last cause of an error, which says most.
pub(super) fn reason(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// When the certificate that a server shows ends, if it shows one.
pub(super) async fn certificate_ends(config: &Config) -> Option<i64> {
    let host = config.cluster_url.host()?.trim_matches(['[', ']']).to_owned();
    let port = config.cluster_url.port_u16().unwrap_or(443);
    let tls = config.rustls_client_config().ok()?;
    let name = config.tls_server_name.clone().unwrap_or_else(|| host.clone());
    let looking = async {
        let tcp = TcpStream::connect((host.as_str(), port)).await.ok()?;
        let connector = TlsConnector::from(Arc::new(tls));
        let stream = connector.connect(name.try_into().ok()?, tcp).await.ok()?;
        let certificate = stream.get_ref().1.peer_certificates()?.first()?;
        certificate_end(certificate)
    };
    tokio::time::timeout(PATIENCE, looking).await.ok()?
}

fn certificate_end(der: &[u8]) -> Option<i64> {
    let (_, certificate) = parse_x509_certificate(der).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

/// When a credential of a kubeconfig ends, if it says so.
pub(super) fn credential_ends(user: &AuthInfo) -> Option<i64> {
    if let Some(token) = &user.token {
        return token_ends(token.expose_secret());
    }
    let pem = match (&user.client_certificate_data, &user.client_certificate) {
        (Some(data), _) => BASE64_STANDARD.decode(data).ok()?,
        (None, Some(file)) => std::fs::read(file).ok()?,
        (None, None) => return None,
    };
    let (_, pem) = x509_parser::pem::parse_x509_pem(&pem).ok()?;
    certificate_end(&pem.contents)
}

/// When a token ends, if it is one that says so.
pub(super) fn token_ends(token: &str) -> Option<i64> {
    let claims = token.trim().split('.').nth(1)?;
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?;
    serde_json::from_slice::<Value>(&claims).ok()?["exp"].as_i64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_say_when_they_end() {
        let claims = BASE64_URL_SAFE_NO_PAD.encode(r#"{"exp": 1234}"#);
        assert_eq!(token_ends(&format!("e30.{claims}.sig")), Some(1234));
        assert_eq!(token_ends("opaque"), None);

        let mut parameters = rcgen::CertificateParams::new(vec!["ann".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(2031, 2, 3);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = parameters.self_signed(&key).unwrap().pem();
        let user = AuthInfo {
            client_certificate_data: Some(BASE64_STANDARD.encode(pem)),
            ..AuthInfo::default()
        };
        let expected: jiff::Timestamp = "2031-02-03T00:00:00Z".parse().unwrap();
        assert_eq!(credential_ends(&user), Some(expected.as_second()));
        assert_eq!(credential_ends(&AuthInfo::default()), None);
    }
}
