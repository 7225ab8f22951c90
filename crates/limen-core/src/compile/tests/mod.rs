//! Tables for the rules, properties for the laws.

mod canaries;
mod hosts;
mod laws;
mod policies;
mod requests;
mod ways;

use serde_json::{Value, json};

use super::{Digest, Key, Member, Members, ObservedKind, Root};

pub(super) fn key(name: &str) -> Key {
    ("shop".to_owned(), name.to_owned())
}

/// An Ingress `web` with one rule for a host.
pub(super) fn ingress(host: &str) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u-1",
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"rules": [{"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}})
}

pub(super) fn root() -> Root {
    Root::of_ingress(&ingress("web.test")).unwrap()
}

pub(super) fn leaf(address: Option<&str>) -> Value {
    let ingress: Vec<Value> = address.iter().map(|address| json!({"ip": address})).collect();
    json!({"metadata": {"name": "web", "namespace": "shop", "labels": {"limen.dev/root-uid": "u-1"}},
        "status": {"loadBalancer": {"ingress": ingress}}})
}

pub(super) fn service(name: &str, extra: &Value) -> Value {
    let mut service = json!({"metadata": {"name": name, "namespace": "shop"},
        "spec": {"type": "ClusterIP", "ports": [{"name": "http", "port": 80, "nodePort": 30080}]}});
    json_patch::merge(&mut service, extra);
    service
}

pub(super) fn slice(name: &str, service: &str, family: &str, addresses: &[&str]) -> Value {
    let endpoint = |address: &&str| json!({"addresses": [address], "conditions": {"ready": true}});
    json!({"metadata": {"name": name, "namespace": "shop",
            "labels": {"kubernetes.io/service-name": service}},
        "addressType": family, "ports": [{"name": "http", "port": 8080}],
        "endpoints": addresses.iter().map(endpoint).collect::<Vec<_>>()})
}

pub(super) fn node(name: &str, address: &str, ready: &str) -> Value {
    json!({"metadata": {"name": name}, "status": {
        "conditions": [{"type": "Ready", "status": ready}],
        "addresses": [{"type": "InternalIP", "address": address}]}})
}

/// A member that has said everything: these objects.
pub(super) fn member(objects: &[(ObservedKind, Value)]) -> Member {
    let mut member = Member::default();
    for kind in
        [ObservedKind::Service, ObservedKind::Slice, ObservedKind::Ingress, ObservedKind::Node]
    {
        let of_kind = objects.iter().filter(|(other, _)| *other == kind);
        let digests = of_kind.map(|(_, object)| digest(kind, object)).collect();
        member.state(kind, digests);
    }
    member
}

pub(super) fn digest(kind: ObservedKind, object: &Value) -> (Key, Digest) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    ((text("namespace"), text("name")), Digest::of(kind, object).unwrap())
}

/// A member that serves `web` with some endpoints behind an ingress address.
pub(super) fn serving(address: &str, endpoints: usize) -> Member {
    let addresses: Vec<String> = (0..endpoints).map(|at| format!("10.0.0.{}", at + 1)).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    member(&[
        (ObservedKind::Service, service("web", &json!({}))),
        (ObservedKind::Slice, slice("web-1", "web", "IPv4", &addresses)),
        (ObservedKind::Ingress, leaf(Some(address))),
    ])
}

pub(super) fn members<const N: usize>(all: [(&str, Member); N]) -> Members {
    all.into_iter().map(|(name, member)| (name.into(), member)).collect()
}
