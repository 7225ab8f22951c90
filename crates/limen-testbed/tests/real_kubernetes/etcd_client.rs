//! As much of etcd's API as it takes to write one key and read it back.

use anyhow::{Context, Result};
use http::uri::PathAndQuery;
use limen_testbed::{ClientTls, Etcd};
use tonic::{
    Request,
    client::Grpc,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, prost::Message)]
struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    kvs: Vec<KeyValue>,
}

pub(crate) async fn put(etcd: &Etcd, key: &str, value: &str) -> Result<()> {
    let request = PutRequest { key: key.into(), value: value.into() };
    let path = PathAndQuery::from_static("/etcdserverpb.KV/Put");
    let mut grpc = connect(etcd, etcd.client_tls()).await?;
    grpc.unary(Request::new(request), path, ProstCodec::<_, ()>::default()).await?;
    Ok(())
}

pub(crate) async fn get(etcd: &Etcd, key: &str) -> Result<Option<String>> {
    get_as(etcd, etcd.client_tls(), key).await
}

pub(crate) async fn get_as(
    etcd: &Etcd,
    tls: Option<&ClientTls>,
    key: &str,
) -> Result<Option<String>> {
    let request = RangeRequest { key: key.into() };
    let path = PathAndQuery::from_static("/etcdserverpb.KV/Range");
    let mut grpc = connect(etcd, tls).await?;
    let codec = ProstCodec::<_, RangeResponse>::default();
    let found = grpc.unary(Request::new(request), path, codec).await?.into_inner();
    let value = found.kvs.into_iter().next().map(|pair| pair.value);
    Ok(value.map(String::from_utf8).transpose()?)
}

async fn connect(etcd: &Etcd, tls: Option<&ClientTls>) -> Result<Grpc<Channel>> {
    let mut endpoint = Endpoint::from_shared(etcd.endpoint().to_owned())?;
    if let Some(tls) = tls {
        endpoint = endpoint.tls_config(
            ClientTlsConfig::new()
                .ca_certificate(Certificate::from_pem(&tls.ca_pem))
                .identity(Identity::from_pem(&tls.cert_pem, &tls.key_pem)),
        )?;
    }
    let mut grpc = Grpc::new(endpoint.connect().await?);
    grpc.ready().await.context("etcd does not take requests")?;
    Ok(grpc)
}
