//! Requests that a decision waits for, and those that are made by the clock: the wish of a person who
//! deleted a root unseen, and new credentials for members.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use limen_core::federated::ObjectId;
use tokio::task::JoinSet;

use super::Federation;
use crate::effects::records::was_orphaned;
use crate::effects::renewal::{renew, validity};
use crate::roots::Fate;

/// How long to wait for members that cannot be asked for a new credential.
const PUT_OFF: Duration = Duration::from_secs(5);

/// The answer to a request.
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
