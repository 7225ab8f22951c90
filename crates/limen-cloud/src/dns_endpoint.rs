//! `DNSEndpoint` objects, which external-dns publishes wherever it can.
//!
//! One object for each host, labelled with who wrote it. An object of the same name without that
//! label is somebody else's and left alone. Who owns the records in DNS is external-dns's business.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams, Preconditions,
};
use limen_core::publish::{RecordKind, Records, Retraction, Wanted, hold};
use serde_json::{Value, json};

use crate::publish::{Round, Settings};

const GROUP: &str = "externaldns.k8s.io";
const VERSION: &str = "v1alpha1";
/// Says who wrote an object.
const OWNER_LABEL: &str = "limen.dev/published-by";
const MANAGER: &str = "limen-publish";

/// Where the objects are written.
pub struct DnsEndpoints {
    /// The API that takes them.
    pub client: kube::Client,
    /// The namespace that they are in.
    pub namespace: String,
}

/// Why objects could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing}: {source}")]
pub struct EndpointError {
    doing: String,
    source: kube::Error,
}

fn failed(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> EndpointError {
    let doing = doing.into();
    move |source| EndpointError { doing, source }
}

impl DnsEndpoints {
    /// Makes the objects be what is wanted.
    pub(crate) async fn publish(
        &self,
        settings: &Settings,
        wanted: &Wanted,
    ) -> Result<Round, EndpointError> {
        let owner = &settings.publisher.owner;
        let kind = GroupVersionKind::gvk(GROUP, VERSION, "DNSEndpoint");
        let resource = ApiResource::from_gvk_with_plural(&kind, "dnsendpoints");
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        let mut round = Round::default();
        let mut known = match api.list(&ListParams::default()).await {
            Ok(list) => by_name(list.items),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.define(settings.dry_run, &mut round).await?;
                BTreeMap::new()
            }
            Err(error) => return Err(failed("list DNSEndpoint objects")(error)),
        };
        let mut published = 0;
        for (host, records) in &wanted.names {
            let name = object_name(host);
            let spec = spec(host, records);
            let before = known.remove(&name);
            let is_there = before.is_some();
            match &before {
                Some(object) if !is_of(object, owner) => {
                    let text = "a DNSEndpoint of this name belongs to somebody else";
                    round.remarks.push(format!("{host} is left alone: {text} ({name})"));
                    continue;
                }
                Some(_) => published += 1,
                None => {}
            }
            if before.is_some_and(|object| object.data["spec"] == spec) {
                continue;
            }
            if !settings.dry_run {
                let written = self.write(&api, &name, owner, &spec, is_there).await;
                if !is_done(written, &mut round)? {
                    continue;
                }
            }
            round.changed.push(format!("{host} is asked for in the DNSEndpoint {name}"));
        }
        for host in wanted.waiting.keys() {
            let stays = known.remove(&object_name(host));
            published += usize::from(stays.is_some_and(|object| is_of(&object, owner)));
        }
        // Another publisher of the same owner may look after another zone.
        let zone = &settings.publisher.zone;
        known.retain(|_, object| is_of(object, owner) && is_within(object, zone));
        let retraction = Retraction {
            own: known.len(),
            published: published + known.len(),
            wanted: wanted.claimed(),
            ..Retraction::default()
        };
        round.held = settings.publisher.limits.and_then(|limits| hold(retraction, limits));
        if round.held.is_some() {
            return Ok(round);
        }
        for (name, object) in &known {
            if !settings.dry_run {
                let uid = object.metadata.uid.clone();
                let preconditions = Preconditions { uid, resource_version: None };
                let how = DeleteParams::default().preconditions(preconditions);
                let deleted = match api.delete(name, &how).await {
                    // Somebody was faster.
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                    deleted => deleted.map(drop),
                };
                let deleted = deleted.map_err(failed(format!("delete the DNSEndpoint {name}")));
                if !is_done(deleted, &mut round)? {
                    continue;
                }
            }
            round.changed.push(format!("the DNSEndpoint {name} is gone"));
        }
        Ok(round)
    }

    /// Writes an object. One that is there already has its owner's label, so that whoever else has
    /// changed it is overruled.
    async fn write(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
        owner: &str,
        spec: &Value,
        is_there: bool,
    ) -> Result<(), EndpointError> {
        let object = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "DNSEndpoint",
            "metadata": {"name": name, "namespace": self.namespace, "labels": {OWNER_LABEL: owner}},
            "spec": spec});
        let how = PatchParams { force: is_there, ..PatchParams::apply(MANAGER) };
        let applied = api.patch(name, &how, &Patch::Apply(&object)).await;
        applied.map(drop).map_err(failed(format!("write the DNSEndpoint {name}")))
    }

    /// Teaches an API the kind that external-dns would have brought along.
    async fn define(&self, dry_run: bool, round: &mut Round) -> Result<(), EndpointError> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        round.changed.push("the kind DNSEndpoint is defined".to_owned());
        if dry_run {
            return Ok(());
        }
        match definitions.create(&PostParams::default(), &definition()).await {
            Ok(_) => Ok(()),
            // It is there and not served yet: the next round will find it.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(failed("define the kind DNSEndpoint")(error)),
        }
    }
}

/// Whether an object was written. Where only that object is refused, the others still can be.
fn is_done(written: Result<(), EndpointError>, round: &mut Round) -> Result<bool, EndpointError> {
    let Err(error) = written else { return Ok(true) };
    let code = if let kube::Error::Api(status) = &error.source { status.code } else { 0 };
    match code {
        // It is invalid.
        400 | 422 => round.failed.push(error.to_string()),
        // It is not allowed, or somebody else's, which may be so of all of them.
        403 | 409 => round.note(error)?,
        _ => return Err(error),
    }
    Ok(false)
}

fn by_name(objects: Vec<DynamicObject>) -> BTreeMap<String, DynamicObject> {
    let named = |object: DynamicObject| (object.metadata.name.clone().unwrap_or_default(), object);
    objects.into_iter().map(named).collect()
}

fn is_of(object: &DynamicObject, owner: &str) -> bool {
    let labels = object.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(OWNER_LABEL)).is_some_and(|label| label == owner)
}

fn is_within(object: &DynamicObject, zone: &str) -> bool {
    let host = object.data["spec"]["endpoints"][0]["dnsName"].as_str().unwrap_or_default();
    host == zone || host.ends_with(&format!(".{zone}"))
}

/// What the object of a host is called.
fn object_name(host: &str) -> String {
    match host.strip_prefix("*.") {
        Some(rest) => format!("limen-wildcard.{rest}"),
        None => format!("limen.{host}"),
    }
}

fn spec(host: &str, records: &BTreeMap<RecordKind, Records>) -> Value {
    let endpoint = |(kind, records): (&RecordKind, &Records)| {
        json!({"dnsName": host, "recordType": kind.name(), "recordTTL": records.ttl,
            "targets": records.data})
    };
    json!({"endpoints": records.iter().map(endpoint).collect::<Vec<_>>()})
}

/// The kind, as external-dns reads it.
pub fn definition() -> CustomResourceDefinition {
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": text});
    let endpoint = json!({"type": "object", "properties": {
        "dnsName": text,
        "recordType": text,
        "recordTTL": {"type": "integer", "format": "int64"},
        "targets": {"type": "array", "items": text},
        "setIdentifier": text,
        "labels": texts,
        "providerSpecific": {"type": "array", "items": {"type": "object", "properties": {
            "name": text, "value": text}}}}});
    let definition = json!({
        "metadata": {
            "name": format!("dnsendpoints.{GROUP}"),
            "annotations": {
                "api-approved.kubernetes.io": "unapproved, stands in for external-dns's own"}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": "DNSEndpoint", "listKind": "DNSEndpointList",
                "plural": "dnsendpoints", "singular": "dnsendpoint"},
            "versions": [{
                "name": VERSION, "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "endpoints": {"type": "array", "items": endpoint}}},
                    "status": {"type": "object", "properties": {
                        "observedGeneration": {"type": "integer", "format": "int64"}}}}}}}]}});
    serde_json::from_value(definition).expect("the definition above is one")
}
