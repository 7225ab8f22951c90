//! Active health checks: one prober for each address and check, whatever the number of workers.
//!
//! A prober runs in the control thread for as long as somebody holds its [`Health`]. Workers only
//! read the verdict.

mod probe;
mod returning;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use limen_core::global::HealthCheck;

use crate::upstream::{Destination, UpstreamTls, milliseconds, random};
pub(crate) use returning::look_after;

/// What probes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No probe has been answered or given up yet.
    Unknown,
    Healthy,
    Unhealthy,
}

/// What is known of one address by probing it.
#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) destination: Destination,
    pub(crate) check: HealthCheck,
    /// The host that HTTP probes ask for.
    pub(crate) host: String,
    pub(crate) tls: Option<Arc<UpstreamTls>>,
    verdict: AtomicU8,
    since: AtomicU64,
    /// When the first of the probes began that were all answered since, if they are as many as
    /// make a target healthy; else 0.
    well_since: AtomicU64,
    /// How long a connection takes, in microseconds; 0 before there has been any.
    latency: AtomicU64,
    /// What the last failed probe met.
    reason: Mutex<String>,
}

impl Health {
    pub(crate) fn new(
        destination: Destination,
        check: HealthCheck,
        host: String,
        tls: Option<Arc<UpstreamTls>>,
    ) -> Self {
        let since = AtomicU64::new(milliseconds(Instant::now()));
        let [well_since, latency] = [0, 0].map(AtomicU64::new);
        let (verdict, reason) = (AtomicU8::new(0), Mutex::default());
        Self { destination, check, host, tls, verdict, since, well_since, latency, reason }
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

    /// Whether enough probes that began after this moment were answered, and none was not.
    pub(crate) fn is_well_since(&self, moment: u64) -> bool {
        self.well_since.load(Ordering::Relaxed) > moment
    }

    /// How long a connection takes, in milliseconds.
    pub(crate) fn latency(&self) -> Option<f64> {
        let micros = self.latency.load(Ordering::Relaxed);
        (micros > 0).then_some(micros as f64 / 1000.0)
    }

    /// A connection took so long. A single one says little.
    fn connected(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let before = self.latency.load(Ordering::Relaxed);
        let smooth = if before == 0 { micros } else { before / 5 * 4 + micros / 5 };
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
        tracing::info!(address = %self.destination, ?before, after = ?verdict, reason, "health");
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }
}

/// How many results in a row, of which kind.
#[derive(Debug, Default)]
struct Streak {
    good: u32,
    bad: u32,
    /// When the last good ones began, as many as make a target healthy.
    began: VecDeque<u64>,
}

impl Streak {
    /// A probe began at this moment. When the first of enough good ones in a row began.
    fn remember(&mut self, good: bool, began: u64, check: &HealthCheck) -> u64 {
        let enough = usize::try_from(check.healthy_threshold.max(1)).unwrap_or(usize::MAX);
        if !good {
            self.began.clear();
            return 0;
        }
        self.began.push_back(began);
        while self.began.len() > enough {
            self.began.pop_front();
        }
        self.began.front().copied().filter(|_| self.began.len() == enough).unwrap_or(0)
    }

    /// The new verdict, if this result changes it. The first result decides by itself: until then
    /// nobody knows anything.
    fn add(&mut self, good: bool, now: Verdict, check: &HealthCheck) -> Option<Verdict> {
        if good {
            (self.good, self.bad) = (self.good + 1, 0);
        } else {
            (self.good, self.bad) = (0, self.bad + 1);
        }
        match now {
            Verdict::Unknown if good => Some(Verdict::Healthy),
            Verdict::Unknown | Verdict::Healthy if self.bad >= check.unhealthy_threshold.max(1) => {
                Some(Verdict::Unhealthy)
            }
            Verdict::Unhealthy if self.good >= check.healthy_threshold.max(1) => {
                Some(Verdict::Healthy)
            }
            _ => None,
        }
    }
}

/// Probes for as long as somebody wants to know.
pub(crate) async fn keep_probing(health: Weak<Health>) {
    let mut streak = Streak::default();
    loop {
        let Some(health) = health.upgrade() else { return };
        let patience = Duration::from_millis(u64::from(health.check.timeout_milliseconds.max(1)));
        let began = milliseconds(Instant::now());
        let outcome = match tokio::time::timeout(patience, probe::probe(&health)).await {
            Ok(outcome) => outcome,
            Err(_) => Err("no answer in time".to_owned()),
        };
        let well_since = streak.remember(outcome.is_ok(), began, &health.check);
        health.well_since.store(well_since, Ordering::Relaxed);
        if let Some(verdict) = streak.add(outcome.is_ok(), health.verdict(), &health.check) {
            health.decide(verdict, outcome.err().unwrap_or_default());
        }
        let interval = u64::from(health.check.interval_milliseconds.max(10));
        drop(health);
        // A tenth more or less, so that probers that started together do not stay together.
        let jittered = interval * 9 / 10 + random() % (interval / 5 + 1);
        tokio::time::sleep(Duration::from_millis(jittered)).await;
    }
}
