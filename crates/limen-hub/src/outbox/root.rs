//! Everything that the hub writes about one root, in one go.

use limen_api::FINALIZER;
use limen_core::federated::ObjectId;
use limen_sync::{ObjectApi, is_absent};
use serde_json::{Value, json};

use super::event::{event, event_kind};
use crate::roots::Draft;
use crate::status::report_id;

/// A write about one root.
#[derive(Default)]
pub(crate) struct RootWrite {
    /// Hold the root while members may have leaves, or let it go.
    pub(crate) finalizers: Option<Value>,
    /// The root's own status.
    pub(crate) status: Option<Value>,
    /// The `FederatedStatus` beside it.
    pub(crate) report: Option<Value>,
    /// Whether that is there already, as far as is known.
    pub(crate) known: bool,
    /// Events about it.
    pub(crate) events: Vec<Draft>,
}

/// The parts of it that are done.
#[derive(Default)]
pub(crate) struct Written {
    /// The root after its finalizers were changed.
    pub(crate) object: Option<Value>,
    pub(crate) status: Option<Value>,
    pub(crate) report: Option<Value>,
    pub(crate) error: Option<kube::Error>,
}

impl RootWrite {
    /// Writes it all; the outbox tries failures again.
    pub(crate) async fn send(self, api: &ObjectApi, id: &ObjectId, object: &Value) -> Written {
        let mut written = Written::default();
        match self.deliver(api, id, object, &mut written).await {
            Ok(()) => {}
            // The root is not there any more.
            Err(error) if is_absent(&error) => {}
            Err(error) => written.error = Some(error),
        }
        written
    }

    async fn deliver(
        self,
        api: &ObjectApi,
        id: &ObjectId,
        object: &Value,
        written: &mut Written,
    ) -> kube::Result<()> {
        let deleting = object["metadata"]["deletionTimestamp"].is_string();
        if let Some(status) = self.status {
            api.merge(id, "/status", &json!({"status": status})).await?;
            written.status = Some(status);
        }
        for draft in self.events {
            // An Event that is lost is a pity, and no reason to do anything again.
            if let Err(error) = api.submit(&event_kind(), &event(id, object, &draft)).await {
                tracing::debug!(root = %id, %error, "an Event could not be written");
            }
        }
        if let Some(report) = self.report {
            match write_report(api, &report_id(id), &report, self.known).await {
                Ok(()) => {}
                // Its namespace may be going already.
                Err(_) if deleting => {}
                Err(error) => return Err(error),
            }
            written.report = Some(report);
        }
        if let Some(finalizers) = self.finalizers {
            let version = &object["metadata"]["resourceVersion"];
            let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
            written.object = Some(api.merge(id, "", &patch).await?);
        }
        Ok(())
    }
}

/// Writes the record of a root. Nobody else writes to it, so nothing must be merged field by field.
async fn write_report(
    api: &ObjectApi,
    id: &ObjectId,
    report: &Value,
    known: bool,
) -> kube::Result<()> {
    if !known {
        match api.submit(&id.kind, report).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            other => return other,
        }
    }
    let owners = &report["metadata"]["ownerReferences"];
    let patch = json!({"metadata": {"ownerReferences": owners}, "spec": report["spec"]});
    match api.merge(id, "", &patch).await {
        Err(error) if is_absent(&error) => api.submit(&id.kind, report).await,
        other => other.map(drop),
    }
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
