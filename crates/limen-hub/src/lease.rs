//! Leader election by a Lease: of several hubs on one API, one federates.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::PostParams;
use kube::{Api, Client};
use limen_api::NAMESPACE;
use tokio::time::Instant;

const NAME: &str = "limen-hub";
/// A leader that has not renewed for so long is not one any more.
const LASTS: Duration = Duration::from_secs(15);
/// A leader that could not renew for so long leads no more: what it still does must have ended
/// before another one begins.
const GIVES_UP: Duration = Duration::from_secs(10);
const RENEW: Duration = Duration::from_secs(3);

/// Why a hub leads no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Another one leads.
    Taken,
    /// The lease could not be renewed in time; perhaps nobody leads.
    NotRenewed,
}

/// A claim to lead.
pub struct Election {
    leases: Api<Lease>,
    identity: String,
    /// The holder and renewal that were seen last, and when that was, by our own clock: clocks of
    /// other machines are not to be trusted.
    seen: Option<(String, Option<MicroTime>, Instant)>,
    /// When the renewal that succeeded last was asked for: others count from some time after that.
    renewed: Instant,
}

impl Election {
    /// Stands for election under a name that no other has.
    pub fn new(client: Client, identity: String) -> Self {
        let leases = Api::namespaced(client, NAMESPACE);
        Self { leases, identity, seen: None, renewed: Instant::now() }
    }

    /// Returns when this one leads.
    pub async fn win(&mut self) {
        while !self.attempt().await {
            tokio::time::sleep(RENEW).await;
        }
    }

    /// Keeps the lead, and returns when it is lost.
    pub async fn keep(&mut self) -> Lost {
        loop {
            tokio::time::sleep(RENEW).await;
            let limit = GIVES_UP.saturating_sub(self.renewed.elapsed());
            match tokio::time::timeout(limit, self.attempt()).await {
                Ok(true) => {}
                // One failed renewal is no loss: nobody else may take over yet.
                Ok(false) if self.held_by_us() && self.renewed.elapsed() < GIVES_UP - RENEW => {}
                _ if self.held_by_us() => return Lost::NotRenewed,
                _ => return Lost::Taken,
            }
        }
    }

    fn held_by_us(&self) -> bool {
        self.seen.as_ref().is_none_or(|(holder, ..)| *holder == self.identity)
    }

    /// Takes or renews the lease, if it is free or ours.
    async fn attempt(&mut self) -> bool {
        let asked = Instant::now();
        match self.try_attempt().await {
            Ok(leads) => {
                if leads {
                    self.renewed = asked;
                }
                leads
            }
            Err(error) => {
                tracing::debug!(%error, "the lease cannot be taken");
                false
            }
        }
    }

    async fn try_attempt(&mut self) -> kube::Result<bool> {
        let now = MicroTime(limen_sync::clock::now());
        let Some(mut lease) = self.leases.get_opt(NAME).await? else {
            let mut lease = Lease::default();
            lease.metadata.name = Some(NAME.to_owned());
            self.claim(&mut lease, now);
            self.leases.create(&PostParams::default(), &lease).await?;
            return Ok(true);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        if holder != self.identity && !holder.is_empty() {
            let seen = (holder, spec.renew_time, Instant::now());
            match &self.seen {
                Some((holder, renewed, since)) if (holder, renewed) == (&seen.0, &seen.1) => {
                    if since.elapsed() < LASTS {
                        return Ok(false);
                    }
                }
                _ => {
                    self.seen = Some(seen);
                    return Ok(false);
                }
            }
        }
        self.claim(&mut lease, now);
        // The version in the lease makes sure that of two at once only one succeeds.
        self.leases.replace(NAME, &PostParams::default(), &lease).await?;
        self.seen = None;
        Ok(true)
    }

    fn claim(&self, lease: &mut Lease, now: MicroTime) {
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.identity) {
            spec.acquire_time = Some(now.clone());
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0) + 1);
        }
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = i32::try_from(LASTS.as_secs()).ok();
        spec.renew_time = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Method, Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// What a lease that others read says lasts from when the API wrote it, which is before its
    /// answer comes and can be long before.
    #[tokio::test]
    async fn the_lead_lasts_from_the_request_and_not_from_the_answer() {
        let written = Arc::new(Mutex::new(None));
        let noted = written.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let write = *request.method() != Method::GET;
            if write {
                *noted.lock().unwrap() = Some(Instant::now());
            }
            let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": NAME, "namespace": NAMESPACE}});
            async move {
                if write {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                let body = Body::from(lease.to_string().into_bytes());
                Ok::<_, std::io::Error>(Response::new(body))
            }
        });
        let mut election = Election::new(Client::new(service, "default"), "one".to_owned());
        election.win().await;
        let written = written.lock().unwrap().expect("the lease was written");
        assert!(election.renewed <= written, "it would lead for longer than others wait");
        assert!(GIVES_UP < LASTS, "others must find that it has ended");
    }

    /// Wins, and loses when its API answers all else with this.
    async fn lost_to(code: u16, holder: &str) -> Lost {
        let won = Arc::new(Mutex::new(false));
        let has_won = won.clone();
        let lease = |holder: &str| {
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": NAME, "namespace": NAMESPACE},
                "spec": {"holderIdentity": holder}})
        };
        let (free, held) = (lease("").to_string(), lease(holder).to_string());
        let service = tower::service_fn(move |_: Request<Body>| {
            let (code, lease) = match *has_won.lock().unwrap() {
                true => (code, held.clone()),
                false => (200, free.clone()),
            };
            let answer = Response::builder().status(code).body(Body::from(lease.into_bytes()));
            async move { Ok::<_, std::io::Error>(answer.unwrap()) }
        });
        let mut election = Election::new(Client::new(service, "default"), "one".to_owned());
        election.win().await;
        *won.lock().unwrap() = true;
        election.keep().await
    }

    #[tokio::test]
    async fn a_lead_that_cannot_be_renewed_is_not_said_to_be_anothers() {
        let (taken, away) = tokio::join!(lost_to(200, "two"), lost_to(503, ""));
        assert_eq!((taken, away), (Lost::Taken, Lost::NotRenewed));
    }
}
