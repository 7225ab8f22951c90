//! How to reach etcd.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::{Error, Result};

/// How an [`EtcdStore`](super::EtcdStore) reaches etcd, and where in it the store lives.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// The client URLs of the members of one etcd cluster. `host:port` means `https` if there are
    /// TLS options and `http` if not. The first one is used until it fails, then the next.
    pub endpoints: Vec<String>,
    /// For `https`; all endpoints use it then, or none.
    pub tls: Option<EtcdTls>,
    /// What every key starts with in etcd. Callers of the store do not see it. Stores with
    /// different prefixes do not see each other, provided that neither prefix starts with the
    /// other, but they share their revisions, and a compaction is one of all of them.
    pub prefix: Bytes,
    /// How long a call may take in all, with its repetitions.
    pub call_timeout: Duration,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            tls: None,
            prefix: Bytes::from_static(b"/limen/"),
            call_timeout: Duration::from_secs(10),
        }
    }
}

/// The certificates for etcd.
#[derive(Clone)]
pub struct EtcdTls {
    /// The certificates, in PEM, of the authorities that etcd's certificate may come from.
    pub ca_pem: Vec<u8>,
    /// The certificate and the private key, in PEM, that etcd is to know this client by.
    pub client_pem: Option<(Vec<u8>, Vec<u8>)>,
    /// The name in etcd's certificate, if it is not the host of the endpoint.
    pub domain: Option<String>,
}

/// Shows no key.
impl fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdTls")
            .field("ca_pem", &String::from_utf8_lossy(&self.ca_pem))
            .field("client_pem", &self.client_pem.as_ref().map(|_| "(a certificate and its key)"))
            .field("domain", &self.domain)
            .finish()
    }
}

/// For connecting to one endpoint, with TLS on top.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How soon a connection that went silent is noticed. etcd takes pings that are more frequent than
/// one in five seconds for an attack.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// What etcd may send ahead on one call or watch. A watch that nobody reads holds this much.
const STREAM_WINDOW: u32 = 1 << 20;
/// The most that HTTP/2 has, so that watches that nobody reads do not block the other calls.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

impl EtcdOptions {
    /// The endpoints with their URLs, not connected yet.
    pub(super) fn to_endpoints(&self) -> Result<Vec<(String, Endpoint)>> {
        if self.endpoints.is_empty() {
            return Err(Error::Unavailable("no etcd endpoint is given".to_owned()));
        }
        self.endpoints.iter().map(|endpoint| self.to_endpoint(endpoint)).collect()
    }

    fn to_endpoint(&self, given: &str) -> Result<(String, Endpoint)> {
        let unusable =
            |reason: String| Error::Unavailable(format!("etcd endpoint {given}: {reason}"));
        let scheme = if self.tls.is_some() { "https://" } else { "http://" };
        let url = if given.contains("://") { given.to_owned() } else { format!("{scheme}{given}") };
        if !url.starts_with(scheme) {
            return Err(unusable(match self.tls {
                Some(_) => "TLS options are given, so it must be https".to_owned(),
                None => "it must be http, or TLS options must be given".to_owned(),
            }));
        }

        let connect_timeout = CONNECT_TIMEOUT.min(self.call_timeout / 2);
        let mut endpoint = Endpoint::from_shared(url.clone())
            .map_err(|error| unusable(chain(&error)))?
            .connect_timeout(connect_timeout)
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        if let Some(tls) = &self.tls {
            endpoint = endpoint
                .tls_config(tls.to_config().timeout(connect_timeout))
                .map_err(|error| unusable(chain(&error)))?;
        }
        Ok((url, endpoint))
    }
}

impl EtcdTls {
    fn to_config(&self) -> ClientTlsConfig {
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.ca_pem));
        if let Some((certificate, key)) = &self.client_pem {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        if let Some(domain) = &self.domain {
            config = config.domain_name(domain);
        }
        config
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tls() -> EtcdTls {
        EtcdTls {
            ca_pem: b"authority".to_vec(),
            client_pem: Some((b"certificate".to_vec(), b"very secret".to_vec())),
            domain: None,
        }
    }

    #[test]
    fn the_private_key_is_not_shown() {
        let options = EtcdOptions { tls: Some(tls()), ..EtcdOptions::default() };
        let text = format!("{options:?} {options:#?}");
        assert!(text.contains("authority"), "{text}");
        assert!(!text.contains("secret") && !text.contains("118, 101, 114, 121"), "{text}");
    }

    #[test]
    fn an_endpoint_is_not_spoken_to_in_plain_text_against_the_options() {
        let cases = [
            ("http://a:1", None, Ok("http://a:1")),
            ("a:1", None, Ok("http://a:1")),
            ("https://a:1", None, Err("it must be http, or TLS options must be given")),
            ("http://a:1", Some(tls()), Err("so it must be https")),
            ("http://a b", None, Err("invalid uri character")),
        ];
        for (given, tls, expected) in cases {
            let options = EtcdOptions { tls, ..EtcdOptions::default() };
            let url = options.to_endpoint(given).map(|(url, _)| url).map_err(|e| e.to_string());
            match (&url, expected) {
                (Ok(url), Ok(expected)) => assert_eq!(url, expected),
                (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
                _ => panic!("{given}: {url:?}"),
            }
        }
    }
}
