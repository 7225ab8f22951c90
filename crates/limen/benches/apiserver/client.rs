//! A client that costs little: one HTTP/1.1 connection over TLS, requests made of ready bytes.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use kube::client::ConfigExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A server, and the certificate to come to it with.
#[derive(Clone)]
pub(crate) struct Target {
    address: SocketAddr,
    tls: Arc<rustls::ClientConfig>,
}

impl Target {
    pub(crate) async fn from_kubeconfig(path: &Path) -> Result<Self> {
        let kubeconfig = Kubeconfig::read_from(path)?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        let mut tls = config.rustls_client_config()?;
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let authority = config.cluster_url.authority().context("a server has an address")?;
        Ok(Self { address: authority.as_str().parse()?, tls: Arc::new(tls) })
    }
}

/// One connection.
pub(crate) struct Client {
    requests: SendRequest<Full<Bytes>>,
    host: String,
}

impl Client {
    pub(crate) async fn connect(target: &Target) -> Result<Self> {
        let stream = TcpStream::connect(target.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(target.address.ip().into());
        let stream = TlsConnector::from(target.tls.clone()).connect(name, stream).await?;
        let (requests, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { requests, host: target.address.to_string() })
    }

    /// Sends a request and returns its answer, which must be a success, as it arrives.
    pub(crate) async fn open(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Incoming> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.host)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))?;
        self.requests.ready().await?;
        let response = self.requests.send_request(request).await?;
        let status = response.status();
        let success = matches!(status, StatusCode::OK | StatusCode::CREATED);
        ensure!(success, "{path}: {status} {:?}", response.collect().await?.to_bytes());
        Ok(response.into_body())
    }

    /// Sends a request, reads all of its answer, and returns how long that was.
    pub(crate) async fn send(&mut self, method: Method, path: &str, body: Bytes) -> Result<usize> {
        let mut answer = self.open(method, path, body).await?;
        let mut length = 0;
        while let Some(frame) = answer.frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok(length)
    }

    /// Reads an answer into memory.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Bytes> {
        let answer = self.open(Method::GET, path, Bytes::new()).await?;
        Ok(answer.collect().await?.to_bytes())
    }
}
