//! Everything that the hub writes about one root, in one go.

use limen_api::FINALIZER;
use limen_core::federated::ObjectId;
use limen_sync::{ObjectApi, is_absent};
use serde_json::{Value, json};

use super::event::{event, event_kind};
use super::{is_conflict, write_status};
use crate::roots::Draft;
use crate::status::{report_id, was_let_go};

/// The writes of a record that others may interrupt before it is tried again later.
const TRIES: usize = 4;

/// A write about one root.
#[derive(Default)]
pub(crate) struct RootWrite {
    /// Hold the root while members may have leaves, or let it go.
    pub(crate) finalizers: Option<Value>,
    /// The root's own status.
    pub(crate) status: Option<Value>,
    /// The `FederatedStatus` beside it, with the version that is known of it.
    pub(crate) report: Option<Value>,
    /// Events about it.
    pub(crate) events: Vec<Draft>,
}

/// The parts of it that are done.
#[derive(Default)]
pub(crate) struct Written {
    /// The root after its status or its finalizers were changed.
    pub(crate) object: Option<Value>,
    pub(crate) status: Option<Value>,
    pub(crate) report: Option<Value>,
    pub(crate) error: Option<kube::Error>,
}

impl RootWrite {
    /// Writes it all; the outbox tries failures again.
    pub(crate) async fn send(self, api: &ObjectApi, id: &ObjectId, object: &Value) -> Written {
        let mut written = Written::default();
        let told = async {
            for draft in &self.events {
                // An Event that is lost is a pity, and no reason to do anything again.
                if let Err(error) = api.submit(&event_kind(), &event(id, object, draft)).await {
                    tracing::debug!(root = %id, %error, "an Event could not be written");
                }
            }
        };
        let (delivered, ()) =
            futures::future::join(self.deliver(api, id, object, &mut written), told).await;
        match delivered {
            Ok(()) => {}
            // The root is not there any more.
            Err(error) if is_absent(&error) => {}
            Err(error) => written.error = Some(error),
        }
        written
    }

    /// The record comes first: it is all that the next hub knows of the policy that placed the root.
    async fn deliver(
        &self,
        api: &ObjectApi,
        id: &ObjectId,
        object: &Value,
        written: &mut Written,
    ) -> kube::Result<()> {
        let deleting = object["metadata"]["deletionTimestamp"].is_string();
        if let Some(mut report) = self.report.clone() {
            match write_report(api, &report_id(id), &report).await {
                Ok(version) => report["metadata"]["resourceVersion"] = version,
                // Its namespace may be going already.
                Err(_) if deleting => {}
                Err(error) => return Err(error),
            }
            written.report = Some(report);
        }
        if let Some(status) = &self.status {
            written.object = Some(write_status(api, id, version(object).as_str(), status).await?);
            written.status = Some(status.clone());
        }
        if let Some(finalizers) = &self.finalizers {
            let version = version(written.object.as_ref().unwrap_or(object));
            let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
            written.object = Some(api.merge(id, "", &patch).await?);
        }
        Ok(())
    }
}

/// Writes the record of a root over the version that is known, and tells the new one. A request that
/// arrives late, or for a second time, or from a hub that led before, replaces nothing newer.
async fn write_report(api: &ObjectApi, id: &ObjectId, report: &Value) -> kube::Result<Value> {
    let known = version(report);
    let mut over = known.clone();
    for _ in 0..TRIES {
        let mut record = report.clone();
        record["metadata"]["resourceVersion"] = over.clone();
        let written = match over.is_null() {
            true => api.create(&id.kind, &record).await,
            false => api.merge(id, "", &record).await,
        };
        match written {
            Err(error) if is_conflict(&error) || (is_absent(&error) && !over.is_null()) => {}
            other => return other.map(|object| version(&object)),
        }
        let found = api.get(id).await?;
        over = found.as_ref().map_or(Value::Null, version);
        // The garbage collector has noted that the leaves of this root are to stay.
        let uid = report["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default();
        if !known.is_null() && was_let_go(found.as_ref(), uid) {
            return Ok(over);
        }
    }
    Err(kube::Error::Service("the record keeps changing".into()))
}

fn version(object: &Value) -> Value {
    object["metadata"]["resourceVersion"].clone()
}

/// The finalizers of an object with ours among them, or without it.
pub(crate) fn finalizers(object: &Value, ours: bool) -> Value {
    let mut all: Vec<Value> =
        object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    all.retain(|finalizer| finalizer != FINALIZER);
    if ours {
        all.push(json!(FINALIZER));
    }
    Value::Array(all)
}
