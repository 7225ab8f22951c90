//! Records of roots that an earlier hub wrote.

use std::collections::BTreeMap;
use std::time::Duration;

use limen_api::dialect::identity;
use limen_core::federated::ObjectId;
use limen_sync::ObjectApi;

use crate::status;

/// How long to wait before asking again.
const PAUSE: Duration = Duration::from_millis(500);
/// How many records are read at a time: each tells of every member.
const RECORDS: usize = 50;

/// Reads all records of roots, until it can. As text: as values they would take ten times the memory.
pub(crate) async fn records(api: ObjectApi) -> BTreeMap<ObjectId, Box<str>> {
    let kind = status::report_kind();
    loop {
        let mut records = BTreeMap::new();
        let read = api.each(&kind, "", RECORDS, |record| {
            records.insert(identity(&record, &kind), status::recorded(&record));
        });
        match read.await {
            Ok(_) => return records,
            Err(error) => {
                if limen_sync::lacks(&api, &kind).await.unwrap_or(false) {
                    return BTreeMap::new();
                }
                tracing::warn!(%error, "the records of roots cannot be read; trying again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Looks at the record of a root until it can be read.
pub(crate) async fn was_orphaned(api: &ObjectApi, id: &ObjectId, uid: &str) -> bool {
    loop {
        match api.get(&status::report_id(id)).await {
            Ok(record) => return status::was_let_go(record.as_ref(), uid),
            Err(error) => {
                tracing::warn!(root = %id, %error, "its record cannot be read; trying again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// In whose place somebody else answers before its records are asked for a second time.
    fn misrouted() -> ObjectApi {
        let asked = Arc::new(AtomicBool::new(false));
        let service = tower::service_fn(move |request: Request<Body>| {
            let records = request.uri().path().ends_with("/federatedstatuses");
            let (status, body) = match records && asked.fetch_or(records, Ordering::Relaxed) {
                false => (404, "404 page not found\n".to_owned()),
                true => {
                    let record = json!({"metadata": {"name": "service.web", "namespace": "shop"}});
                    (200, json!({"items": [record]}).to_string())
                }
            };
            async move {
                let body = Body::from(body.into_bytes());
                Ok::<_, std::io::Error>(Response::builder().status(status).body(body).unwrap())
            }
        });
        ObjectApi::new(kube::Client::new(service, "default"))
    }

    #[tokio::test]
    async fn records_that_somebody_else_has_not_heard_of_are_asked_for_again() {
        let answer = tokio::time::timeout(Duration::from_secs(60), records(misrouted())).await;
        assert_eq!(answer.expect("no answer").len(), 1);
    }
}
