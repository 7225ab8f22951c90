//! Active health checks: one prober for each question, whoever wants to know the answer.
//!
//! ```text
//! routes ─► Question: address, kind of check, and what that kind uses ─► one prober
//!    ▲                                                                      │
//!    └─────────────────────────── Health: the verdict ◄────────────────────┘
//! ```
//!
//! Ten thousand routes that lead to one address share one [`Health`], and workers only read it. A
//! prober runs in the control thread for as long as somebody holds its `Health`. Where nobody asks
//! for a check, addresses get the usual one: a connection now and then, few at a time.

mod pace;
mod probe;
mod prober;
mod returning;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use limen_core::global::{HealthCheck, HealthCheckKind};
use limen_core::health::Thresholds;
use tokio::sync::Notify;

use crate::upstream::{Destination, UpstreamTls, milliseconds};
pub(crate) use pace::Pace;
pub(crate) use prober::keep_probing;
pub(crate) use returning::look_after;

/// What probes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No probe has been answered or given up yet.
    Unknown,
    Healthy,
    Unhealthy,
}

/// What is asked of an address, and how. What a kind of check does not use is empty, so that those
/// who would ask the same thing are seen to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    pub(crate) destination: Destination,
    pub(crate) kind: HealthCheckKind,
    /// The host that is asked for, and shown in TLS.
    pub(crate) host: String,
    pub(crate) path: String,
    /// Tells apart who is verified how.
    pub(crate) tls: String,
    interval: u32,
    timeout: u32,
    failures: u32,
    successes: u32,
    /// Whether nobody asked for it, so that it may wait.
    usual: bool,
}

impl Question {
    /// A check that somebody asks for.
    pub(crate) fn asked(
        destination: Destination,
        check: &HealthCheck,
        host: &str,
        tls: Option<&str>,
    ) -> Self {
        let used = |used: bool, text: &str| if used { text.to_owned() } else { String::new() };
        let speaks = check.kind != HealthCheckKind::Tcp;
        Self {
            destination,
            kind: check.kind,
            host: used(speaks, host),
            path: used(speaks && check.kind != HealthCheckKind::Grpc, &check.path),
            tls: used(speaks, tls.unwrap_or_default()),
            interval: check.interval_milliseconds.max(10),
            timeout: check.timeout_milliseconds.max(1),
            failures: check.unhealthy_threshold.max(1),
            successes: check.healthy_threshold.max(1),
            usual: false,
        }
    }

    /// What is asked where nobody asks for anything.
    pub(crate) fn usual(destination: Destination) -> Self {
        Self { usual: true, ..Self::asked(destination, &HealthCheck::usual(), "", None) }
    }

    fn thresholds(&self) -> Thresholds {
        Thresholds { failures: self.failures, successes: self.successes }
    }
}

/// What is known of one address by probing it.
#[derive(Debug)]
pub(crate) struct Health {
    question: Question,
    tls: Option<Arc<UpstreamTls>>,
    verdict: AtomicU8,
    since: AtomicU64,
    /// When the first of the probes began that were all answered since, if they are as many as
    /// make a target healthy; else 0.
    well_since: AtomicU64,
    /// How long a connection takes, in microseconds; 0 before there has been any.
    latency: AtomicU64,
    /// Whether one probe has come to an end.
    asked: AtomicBool,
    /// Ejected addresses that wait to hear that it is well.
    waiting: AtomicU32,
    /// Somebody has begun to wait. The prober has it too while it sleeps.
    hurry: Arc<Notify>,
    /// A probe has come to an end.
    news: Notify,
    /// What the last failed probe met.
    reason: Mutex<String>,
}

impl Health {
    pub(crate) fn new(question: Question, tls: Option<Arc<UpstreamTls>>) -> Self {
        let [well_since, latency] = [0, 0].map(AtomicU64::new);
        Self {
            question,
            tls,
            verdict: AtomicU8::new(0),
            since: AtomicU64::new(milliseconds(Instant::now())),
            well_since,
            latency,
            asked: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
            hurry: Arc::default(),
            news: Notify::new(),
            reason: Mutex::default(),
        }
    }

    /// Where it is.
    pub(crate) fn destination(&self) -> &Destination {
        &self.question.destination
    }

    pub(crate) fn verdict(&self) -> Verdict {
        match self.verdict.load(Ordering::Relaxed) {
            0 => Verdict::Unknown,
            1 => Verdict::Healthy,
            _ => Verdict::Unhealthy,
        }
    }

    /// Since when the verdict is what it is.
    pub(crate) fn since(&self) -> u64 {
        self.since.load(Ordering::Relaxed)
    }

    /// Whether how long a connection takes will be known when the first probe has come to an end.
    pub(crate) fn is_to_be_measured(&self) -> bool {
        !self.question.usual && !self.asked.load(Ordering::Relaxed)
    }

    /// Whether enough probes that began after this moment were answered, and none was not.
    fn is_well_since(&self, moment: u64) -> bool {
        self.well_since.load(Ordering::Relaxed) > moment
    }

    /// How long a connection takes, in milliseconds.
    pub(crate) fn latency(&self) -> Option<f64> {
        let micros = self.latency.load(Ordering::Relaxed);
        (micros > 0).then_some(micros as f64 / 1000.0)
    }

    /// A connection took so long. A single one says little, and one that took long says more of
    /// how busy somebody was than of how far away they are. Usual checks are too few to say who is
    /// nearer.
    fn connected(&self, took: Duration) {
        if self.question.usual {
            return;
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let smooth = match self.latency.load(Ordering::Relaxed) {
            0 => micros,
            before => before / 5 * 4 + micros.min(before.saturating_mul(4)) / 5,
        };
        self.latency.store(smooth.max(1), Ordering::Relaxed);
    }

    /// Why it is unhealthy.
    pub(crate) fn reason(&self) -> String {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn decide(&self, verdict: Verdict, reason: String) {
        let before = self.verdict();
        self.verdict.store(verdict as u8, Ordering::Relaxed);
        self.since.store(milliseconds(Instant::now()), Ordering::Relaxed);
        let address = &self.question.destination;
        if (before, verdict) == (Verdict::Unknown, Verdict::Healthy) {
            // As it should be, and thousands of them when a gateway starts.
            tracing::debug!(%address, "health: answers");
        } else {
            tracing::info!(%address, ?before, after = ?verdict, reason, "health");
        }
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }
}
