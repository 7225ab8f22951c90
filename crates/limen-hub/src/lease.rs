//! Leader election by a Lease: of several hubs on one API, one federates.
//!
//! Every term has a [`Fence`], which is open only while no other hub can hold the lease, and every
//! holder of the lease a greater epoch than the holders before it.

use std::convert::Infallible;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::PostParams;
use kube::{Api, Client};
use limen_api::NAMESPACE;
use limen_sync::{Fence, clock};
use tokio::time::Instant;

const NAME: &str = "limen-hub";

/// Durations of an election.
#[derive(Clone, Copy, Debug)]
struct Terms {
    /// A lease that was not renewed for so long is free.
    lasts: Duration,
    /// A leader steps down this long after the last renewal that succeeded: its last requests must
    /// have ended before the lease is free.
    gives_up: Duration,
    /// Time between two renewals, and between two attempts.
    renew: Duration,
}

const TERMS: Terms = Terms {
    lasts: Duration::from_secs(15),
    gives_up: Duration::from_secs(10),
    renew: Duration::from_secs(3),
};

/// Reason for the end of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Another hub holds the lease.
    Taken,
    /// The lease was not renewed in time; perhaps no hub holds it.
    NotRenewed,
}

/// A candidate for the lease, or its holder.
pub struct Election {
    leases: Api<Lease>,
    identity: String,
    terms: Terms,
    /// Holder and renewal of the lease as last read, and when, by the clock of this machine: clocks
    /// of other machines are not comparable.
    seen: Option<(String, Option<MicroTime>, Instant)>,
    /// Time at which the last renewal that succeeded was sent: rivals count from a later time.
    renewed: Instant,
    epoch: u64,
    fence: Fence,
}

impl Election {
    /// A candidate. The identity must be unique to this process.
    pub fn new(client: Client, identity: String) -> Self {
        Self {
            leases: Api::namespaced(client, NAMESPACE),
            identity,
            terms: TERMS,
            seen: None,
            renewed: Instant::now(),
            epoch: 0,
            fence: Fence::closed(),
        }
    }

    /// The name of this candidate in the lease.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Number of holders that the lease has had, this one included; 0 before the first term.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The fence of this term. A fence that has closed at the end of its term stays closed.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Returns when this candidate holds the lease.
    pub async fn win(&mut self) {
        self.fence.close();
        self.fence = Fence::closed();
        while !self.attempt(Claim::IfFree).await {
            tokio::time::sleep(self.terms.renew).await;
        }
    }

    /// Takes the lease from any holder, for a hub whose store no other process can open. The fence
    /// stays open until the end of the process.
    pub async fn seize(&mut self) {
        while !self.attempt(Claim::Always).await {
            tokio::time::sleep(self.terms.renew).await;
        }
        self.fence = Fence::open();
    }

    /// Renews a seized lease for ever, so that its age shows whether the hub runs. Without rivals
    /// rarely is enough.
    pub async fn keep_seized(&mut self) -> Infallible {
        loop {
            tokio::time::sleep(self.terms.lasts).await;
            self.attempt(Claim::Renewal).await;
        }
    }

    /// Renews the lease, and returns when it is lost, with the fence closed.
    pub async fn keep(&mut self) -> Lost {
        let lost = self.renew_until_lost().await;
        self.fence.close();
        lost
    }

    async fn renew_until_lost(&mut self) -> Lost {
        let Terms { gives_up, renew, .. } = self.terms;
        loop {
            tokio::time::sleep(renew).await;
            let limit = gives_up.saturating_sub(self.renewed.elapsed());
            match tokio::time::timeout(limit, self.attempt(Claim::Renewal)).await {
                Ok(true) => {}
                // One failed renewal is no loss: the lease is not free yet.
                Ok(false) if self.held_by_us() && self.renewed.elapsed() < gives_up - renew => {}
                _ if self.held_by_us() => return Lost::NotRenewed,
                _ => return Lost::Taken,
            }
        }
    }

    fn held_by_us(&self) -> bool {
        self.seen.as_ref().is_none_or(|(holder, ..)| *holder == self.identity)
    }

    /// Takes or renews the lease, if that is allowed. A request that nobody answers is given up.
    async fn attempt(&mut self, claim: Claim) -> bool {
        // Both before the request: a request that is delayed, or a process that is stopped before
        // the answer, must not extend the term.
        let (sent, sent_nanos) = (Instant::now(), clock::boot_nanos());
        let limit = self.terms.gives_up;
        let Ok(outcome) = tokio::time::timeout(limit, self.try_attempt(claim)).await else {
            tracing::debug!(?limit, "the leader lease cannot be taken or renewed: no answer");
            return false;
        };
        match outcome {
            Ok(Some(epoch)) => {
                self.renewed = sent;
                self.epoch = epoch;
                self.fence.extend(sent_nanos, self.terms.gives_up);
                true
            }
            Ok(None) => false,
            Err(error) => {
                tracing::debug!(%error, "cannot take or renew the leader lease");
                false
            }
        }
    }

    /// The epoch, if the lease was taken or renewed.
    async fn try_attempt(&mut self, claim: Claim) -> kube::Result<Option<u64>> {
        let now = MicroTime(clock::now());
        let Some(mut lease) = self.leases.get_opt(NAME).await? else {
            let mut lease = Lease::default();
            lease.metadata.name = Some(NAME.to_owned());
            let epoch = self.sign(&mut lease, now);
            self.leases.create(&PostParams::default(), &lease).await?;
            self.seen = None;
            return Ok(Some(epoch));
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        let others = holder != self.identity && !holder.is_empty();
        if others && claim != Claim::Always && !self.is_free(holder, spec.renew_time, claim) {
            return Ok(None);
        }
        let epoch = self.sign(&mut lease, now);
        // The resourceVersion in the lease lets one of several simultaneous writes succeed.
        self.leases.replace(NAME, &PostParams::default(), &lease).await?;
        self.seen = None;
        Ok(Some(epoch))
    }

    /// Whether another holder has not renewed the lease for as long as it lasts. A leader never
    /// takes its lease back: that would be a new term.
    fn is_free(&mut self, holder: String, renewed: Option<MicroTime>, claim: Claim) -> bool {
        match &self.seen {
            Some((known, before, since)) if (known, before) == (&holder, &renewed) => {
                claim == Claim::IfFree && since.elapsed() >= self.terms.lasts
            }
            _ => {
                self.seen = Some((holder, renewed, Instant::now()));
                false
            }
        }
    }

    /// Writes this candidate into the lease as its holder; the epoch that this makes.
    fn sign(&self, lease: &mut Lease, now: MicroTime) -> u64 {
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.identity) {
            spec.acquire_time = Some(now.clone());
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0).saturating_add(1));
        }
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = i32::try_from(self.terms.lasts.as_secs()).ok();
        spec.renew_time = Some(now);
        spec.lease_transitions.and_then(|count| u64::try_from(count).ok()).unwrap_or(1)
    }
}

/// When a candidate may sign a lease that names another holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// When that holder has not renewed it for as long as it lasts.
    IfFree,
    /// At once.
    Always,
    /// Never.
    Renewal,
}

#[cfg(test)]
mod tests;
