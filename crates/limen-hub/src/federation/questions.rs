//! What must be asked before something can be decided, and what is done by the clock: what a
//! person wanted who deleted a root unseen, and new credentials for members.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use limen_api::dialect::identity;
use limen_core::federated::ObjectId;
use limen_sync::ObjectApi;
use tokio::task::JoinSet;

use super::Federation;
use crate::renewal::{renew, validity};
use crate::roots::Fate;
use crate::status;

/// How long to wait before asking again.
const PAUSE: Duration = Duration::from_millis(500);
/// How long to wait for members that cannot be asked for a new credential.
const PUT_OFF: Duration = Duration::from_secs(5);
/// How many records are read at a time: each tells of every member.
const RECORDS: usize = 50;

/// What came of asking.
pub(crate) enum Answer {
    /// Whether a person who deleted a root wanted its leaves to stay.
    Orphaned { root: Arc<ObjectId>, uid: String, orphaned: bool },
    /// A member has a new credential, or why it has none.
    Renewed { cluster: Arc<str>, outcome: Result<(), String> },
    /// The records that an earlier hub wrote.
    Records(BTreeMap<ObjectId, Box<str>>),
}

impl Federation {
    /// Asks what is to be asked.
    pub(crate) fn ask(&mut self, answers: &mut JoinSet<Answer>) {
        for id in std::mem::take(&mut self.unsure) {
            let Some(root) = self.roots.get(&id) else { continue };
            let (api, uid) = (self.api.clone(), root.uid().to_owned());
            answers.spawn(async move {
                let orphaned = was_orphaned(&api, &id, &uid).await;
                Answer::Orphaned { root: id, uid, orphaned }
            });
        }
        if self.started.is_some() && self.next_renewal <= Instant::now() {
            let all = self.renew_credentials(answers);
            let pause = if all { self.options.renew_every } else { PUT_OFF };
            self.next_renewal = Instant::now() + pause.min(self.options.renew_every);
        }
    }

    /// Renews what is due; false if some members cannot be asked now.
    fn renew_credentials(&self, answers: &mut JoinSet<Answer>) -> bool {
        let mut all = true;
        let now = limen_sync::clock::now_seconds();
        for (name, member) in &self.members {
            let Some(credentials) = &member.cluster.spec.credentials else { continue };
            let validity = self.secrets.get(&credentials.name).and_then(validity);
            let due = validity.filter(|life| life.is_due(self.options.renew_percent_left, now));
            let Some(life) = due else { continue };
            // What cannot be reached cannot be renewed, and its condition says so already.
            let client = member.client.clone().filter(|_| !member.away());
            all &= client.is_some();
            let Some(client) = client else { continue };
            let (api, cluster) = (self.api.clone(), name.clone());
            let secret = credentials.name.clone();
            answers.spawn(async move {
                let outcome = renew(&api, client.client(), &secret).await;
                let until = jiff::Timestamp::from_second(life.expires).unwrap_or_default();
                let outcome = outcome.map_err(|error| {
                    format!("the credential expires at {until} and cannot be renewed: {error}")
                });
                Answer::Renewed { cluster, outcome }
            });
        }
        all
    }

    pub(crate) fn answered(&mut self, answer: Answer) {
        match answer {
            Answer::Orphaned { root: id, uid, orphaned } => {
                let Some(root) = self.roots.get_mut(&id).filter(|root| root.uid() == uid) else {
                    return;
                };
                root.fate = Fate::Known;
                root.orphaned |= orphaned;
                self.dirty.insert(id);
            }
            Answer::Renewed { cluster, outcome } => {
                let Some(member) = self.members.get_mut(&cluster) else { return };
                if let Err(error) = &outcome {
                    tracing::warn!(%cluster, error, "a credential cannot be renewed");
                }
                member.renewal_error = outcome.err();
                self.record_member(&cluster);
            }
            Answer::Records(records) => self.records_before = Some(records),
        }
    }
}

/// Reads all records of roots, until it can. As text: as values they would take ten times the memory.
pub(crate) async fn records(api: ObjectApi) -> Answer {
    let kind = status::report_kind();
    loop {
        let mut records = BTreeMap::new();
        let read = api.each(&kind, "", RECORDS, |record| {
            records.insert(identity(&record, &kind), status::recorded(&record));
        });
        match read.await {
            Ok(_) => return Answer::Records(records),
            Err(error) => {
                if limen_sync::lacks(&api, &kind).await.unwrap_or(false) {
                    return Answer::Records(BTreeMap::new());
                }
                tracing::warn!(%error, "the records of roots cannot be read; trying again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Looks at the record of a root until it can be read.
async fn was_orphaned(api: &ObjectApi, id: &ObjectId, uid: &str) -> bool {
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
        let Answer::Records(records) = answer.expect("no answer") else { panic!("no records") };
        assert_eq!(records.len(), 1);
    }
}
