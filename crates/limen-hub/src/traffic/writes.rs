//! What is written to the hub: each record when it has changed, and only then.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use limen_core::compile::{HOST_ANNOTATION, Key};
use limen_core::federated::ObjectId;
use limen_core::leaf::ROOT_LABEL;
use limen_sync::ObjectApi;
use serde::Deserialize;
use serde_json::{Value, json};

use super::certificates::Task;
use super::serving::conditions;
use super::{RootKind, Traffic, global_key, root_kind, roots_of};
use crate::conditions::condition;
use crate::outbox::event::{event, event_kind};
use crate::outbox::{Outcome, Record, Write, write_status};
use crate::roots::Draft;

const GROUP: &str = "limen.dev/v1alpha1";

/// A change of the hub's objects.
enum Effect {
    Apply { id: ObjectId, object: Value, conditions: Option<Vec<Condition>> },
    Delete { id: ObjectId, uid: String },
    Merge { id: ObjectId, patch: Value },
    Status { id: ObjectId, version: Option<String>, status: Value },
    Certificate(Task),
    Events { id: ObjectId, object: std::sync::Arc<Value>, drafts: Vec<Draft> },
}

impl Traffic {
    /// The write that a record needs, if it needs one.
    pub(crate) fn write(&mut self, record: &Record, api: &ObjectApi) -> Option<Write> {
        let effect = match record {
            Record::Route(id) => self.about_root(id),
            Record::Global(key) => self.about_global(key),
            Record::TrafficPolicy(key) => self.about_policy(key),
            Record::Certificate(key) => self.certificates.task(key).map(Effect::Certificate),
            _ => None,
        }?;
        let api = api.clone();
        Some(Box::pin(async move { Outcome::Object(effect.send(&api).await) }))
    }

    fn about_root(&mut self, root: &Arc<ObjectId>) -> Option<Effect> {
        let known = self.roots.get_mut(root)?;
        let id = ObjectId::clone(root);
        if let Some(host) = &known.wants_host {
            let patch = json!({"metadata": {"annotations": {HOST_ANNOTATION: host}}});
            return Some(Effect::Merge { id, patch });
        }
        let drafts = std::mem::take(&mut known.events);
        let object = known.object.clone();
        if !drafts.is_empty() {
            // Whatever else there is to say comes after that.
            self.records.push(Record::Route(root.clone()));
            return Some(Effect::Events { id, object, drafts });
        }
        (root_kind(root) == RootKind::FederatedIngress).then(|| self.status_of(root)).flatten()
    }

    /// The status of a FederatedIngress; those of Ingresses are merged from their leaves.
    fn status_of(&self, root: &Arc<ObjectId>) -> Option<Effect> {
        let known = self.roots.get(root)?;
        let addresses: Vec<String> = match known.compiled {
            Some(_) => self.gateway_addresses().into_iter().collect(),
            None => Vec::new(),
        };
        let (status, reason) = match known.compiled.is_some() {
            true => ("True", "Compiled"),
            false => ("False", "NoTarget"),
        };
        let old = &known.object["status"];
        let before = Vec::<Condition>::deserialize(&old["conditions"]).unwrap_or_default();
        let message = known.findings.join("; ");
        let ready = condition(&before, "Ready", status, reason, &message, limen_sync::clock::now());
        let status = json!({"addresses": addresses, "conditions": [ready]});
        let none = |value: &Value| value.as_array().is_none_or(Vec::is_empty);
        let same = old["conditions"] == status["conditions"]
            && (old["addresses"] == status["addresses"]
                || none(&old["addresses"]) && addresses.is_empty());
        let version = known.object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        (!same).then_some(Effect::Status { id: ObjectId::clone(root), version, status })
    }

    fn about_global(&self, key: &Key) -> Option<Effect> {
        let id = object_id(("GlobalIngress", "globalingresses"), key);
        let root = roots_of(key).into_iter().find_map(|id| {
            let known = self.roots.get(&id)?;
            (global_key(&id) == *key).then_some((id, known))
        });
        let written = self.globals.get(key);
        let Some((root, known)) = root else {
            let uid = written?.uid.clone();
            return Some(Effect::Delete { id, uid });
        };
        let global = known.compiled.as_ref()?;
        let uid = &known.root.as_ref().ok()?.uid;
        let before = written.map_or(&[][..], |written| &written.conditions);
        let serving = known.serving.as_ref().map(|answered| &answered.serving);
        let conditions = conditions(&known.findings, serving, before);
        let is_written = |written: &super::Written| {
            (Arc::ptr_eq(&written.global, global) || written.global == *global)
                && written.root_uid == *uid
        };
        if let Some(written) = written.filter(|written| is_written(written)) {
            let (version, status) = (written.version.clone(), json!({"conditions": conditions?}));
            return Some(Effect::Status { id, version, status });
        }
        let owner = root;
        let mut object = json!({
            "apiVersion": GROUP, "kind": "GlobalIngress",
            "metadata": {
                "name": key.1, "namespace": key.0,
                "labels": {ROOT_LABEL: uid},
                "ownerReferences": [{
                    "apiVersion": owner.kind.api_version, "kind": owner.kind.kind,
                    "name": owner.name, "uid": uid}]},
        });
        object["spec"] = serde_json::to_value(&**global).unwrap_or_default();
        Some(Effect::Apply { id, object, conditions })
    }

    fn about_policy(&self, key: &Key) -> Option<Effect> {
        let known = self.policies.get(key)?;
        let status = known.status();
        if known.object.status.as_ref() == Some(&status) {
            return None;
        }
        let mut status = serde_json::to_value(&status).unwrap_or_default();
        // A merge patch leaves alone what it does not name, also deep inside.
        let old =
            known.object.status.as_ref().map(|old| serde_json::to_value(old).unwrap_or_default());
        blank(&mut status, old.as_ref().unwrap_or(&Value::Null));
        let id = object_id(("TrafficPolicy", "trafficpolicies"), key);
        let version = known.object.metadata.resource_version.clone();
        Some(Effect::Status { id, version, status })
    }
}

/// Says of what was there and is not to be there any more that it goes.
fn blank(patch: &mut Value, old: &Value) {
    let (Value::Object(patch), Value::Object(old)) = (patch, old) else { return };
    for (field, before) in old {
        match patch.get_mut(field) {
            Some(after) => blank(after, before),
            None => drop(patch.insert(field.clone(), Value::Null)),
        }
    }
}

impl Effect {
    async fn send(self, api: &ObjectApi) -> kube::Result<Option<Value>> {
        match self {
            Self::Delete { id, uid } => api.delete(&id, &uid).await.map(|()| None),
            Self::Certificate(task) => task.send(api).await,
            Self::Merge { id, patch } => api.merge(&id, "", &patch).await.map(Some),
            Self::Status { id, version, status } => {
                write_status(api, &id, version.as_deref(), status).await.map(Some)
            }
            Self::Apply { id, object, conditions } => {
                let written = api.apply(&id, &object).await?;
                if let Some(conditions) = conditions {
                    let version = written["metadata"]["resourceVersion"].as_str();
                    write_status(api, &id, version, json!({"conditions": conditions})).await?;
                }
                Ok(Some(written))
            }
            Self::Events { id, object, drafts } => {
                for draft in drafts {
                    // An Event that is lost is a pity, and no reason to do anything again.
                    if let Err(error) =
                        api.submit(&event_kind(), &event(&id, &object, &draft)).await
                    {
                        tracing::debug!(root = %id, %error, "an Event could not be written");
                    }
                }
                Ok(None)
            }
        }
    }
}

fn object_id((kind, plural): (&str, &str), key: &Key) -> ObjectId {
    let kind = limen_api::kind((GROUP, kind, plural, true));
    ObjectId { kind, namespace: Some(key.0.clone()), name: key.1.clone() }
}
