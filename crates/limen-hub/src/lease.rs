//! Leader election by a Lease: of several hubs on one API, one federates.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::PostParams;
use kube::{Api, Client};
use limen_api::NAMESPACE;

const NAME: &str = "limen-hub";
/// A leader that has not renewed for so long is not one any more.
const LASTS: Duration = Duration::from_secs(15);
const RENEW: Duration = Duration::from_secs(3);

/// A claim to lead.
pub struct Election {
    leases: Api<Lease>,
    identity: String,
    /// The holder and renewal that were seen last, and when that was, by our own clock: clocks of
    /// other machines are not to be trusted.
    seen: Option<(String, Option<MicroTime>, tokio::time::Instant)>,
}

impl Election {
    /// Stands for election under a name that no other has.
    pub fn new(client: Client, identity: String) -> Self {
        Self { leases: Api::namespaced(client, NAMESPACE), identity, seen: None }
    }

    /// Returns when this one leads.
    pub async fn win(&mut self) {
        while !self.attempt().await {
            tokio::time::sleep(RENEW).await;
        }
    }

    /// Keeps the lead, and returns when it is lost.
    pub async fn keep(&mut self) {
        let mut renewed = tokio::time::Instant::now();
        loop {
            tokio::time::sleep(RENEW).await;
            let limit = LASTS.saturating_sub(renewed.elapsed());
            match tokio::time::timeout(limit, self.attempt()).await {
                Ok(true) => renewed = tokio::time::Instant::now(),
                // One failed renewal is no loss: nobody else may take over yet.
                Ok(false) if self.held_by_us() && renewed.elapsed() < LASTS - RENEW => {}
                _ => return,
            }
        }
    }

    fn held_by_us(&self) -> bool {
        self.seen.as_ref().is_none_or(|(holder, ..)| *holder == self.identity)
    }

    /// Takes or renews the lease, if it is free or ours.
    async fn attempt(&mut self) -> bool {
        match self.try_attempt().await {
            Ok(leads) => leads,
            Err(error) => {
                tracing::debug!(%error, "the lease cannot be taken");
                false
            }
        }
    }

    async fn try_attempt(&mut self) -> kube::Result<bool> {
        let now = MicroTime(jiff::Timestamp::now());
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
            let seen = (holder, spec.renew_time, tokio::time::Instant::now());
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
