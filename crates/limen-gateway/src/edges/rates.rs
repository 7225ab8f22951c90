//! How much comes and goes, from counters that only grow.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::metrics::TargetMetrics;
use crate::snapshot::{Backend, Snapshot};

/// How long figures about success and latency look back, at least.
const WINDOW: Duration = Duration::from_secs(10);

/// How much comes for every backend, and goes to every target.
#[derive(Default)]
pub(crate) struct Rates {
    measured: Option<Instant>,
    turned: Option<Instant>,
    backends: HashMap<(String, String), OfBackend>,
}

/// How much comes for one backend.
#[derive(Default)]
pub(crate) struct OfBackend {
    asked: Rate,
    targets: HashMap<(String, Option<String>), OfTarget>,
    /// When it was last seen in a snapshot.
    seen: Option<Instant>,
}

/// How much goes to one target.
#[derive(Default)]
pub(crate) struct OfTarget {
    pub(super) sent: Rate,
    /// The counters one and two windows ago.
    windows: [Figures; 2],
}

/// Counters at one moment.
#[derive(Clone, Default)]
pub(super) struct Figures {
    pub(super) requests: u64,
    pub(super) failed: u64,
    pub(super) latency: Vec<u64>,
}

/// The rate of a counter that only grows, smoothed over about a second.
#[derive(Default)]
pub(super) struct Rate {
    before: Option<u64>,
    now: f64,
}

impl Rate {
    fn measure(&mut self, count: u64, seconds: f64) {
        let before = self.before.replace(count);
        let Some(before) = before.filter(|_| seconds > 0.0) else { return };
        let latest = count.saturating_sub(before) as f64 / seconds;
        self.now = self.now * 0.5 + latest * 0.5;
        if self.now < 0.01 {
            self.now = 0.0;
        }
    }

    pub(super) fn get(&self) -> f64 {
        self.now
    }
}

impl Rates {
    /// Measures, and says how many seconds have gone by.
    pub(super) fn measure(&mut self, snapshot: &Snapshot, now: Instant) -> f64 {
        let seconds = self.measured.replace(now).map_or(0.0, |at| (now - at).as_secs_f64());
        let turn = self.turned.is_none_or(|at| now - at >= WINDOW);
        if turn {
            self.turned = Some(now);
        }
        for backend in snapshot.ingresses.iter().flat_map(|ingress| &ingress.backends) {
            // Nothing is kept of what nobody has ever asked for.
            let asked = backend.asked.get();
            if asked == 0 {
                continue;
            }
            let key = (backend.ingress.clone(), backend.name.clone());
            let rates = self.backends.entry(key).or_default();
            rates.asked.measure(asked, seconds);
            rates.seen = Some(now);
            for target in &backend.targets {
                let key = (target.target.cluster.clone(), target.target.group.clone());
                let rates = rates.targets.entry(key).or_default();
                let figures = figures(&target.metrics);
                rates.sent.measure(figures.requests, seconds);
                if turn {
                    let [last, _] = std::mem::take(&mut rates.windows);
                    rates.windows = [figures, last];
                }
            }
        }
        self.backends.retain(|_, rates| rates.seen == Some(now));
        seconds
    }

    pub(super) fn of(&self, backend: &Backend) -> Option<&OfBackend> {
        self.backends.get(&(backend.ingress.clone(), backend.name.clone()))
    }

    /// Requests in a second that clients send for a backend.
    pub(crate) fn wanted(&self, backend: &Backend) -> f64 {
        self.of(backend).map_or(0.0, |rates| rates.asked.get())
    }
}

impl OfBackend {
    pub(super) fn target(&self, cluster: &str, group: Option<&String>) -> Option<&OfTarget> {
        self.targets.get(&(cluster.to_owned(), group.cloned()))
    }
}

impl OfTarget {
    /// What happened lately: since one or two windows ago.
    pub(super) fn lately(&self, metrics: &TargetMetrics) -> Figures {
        let mut now = figures(metrics);
        let before = &self.windows[1];
        now.requests = now.requests.saturating_sub(before.requests);
        now.failed = now.failed.saturating_sub(before.failed);
        for (now, before) in now.latency.iter_mut().zip(&before.latency) {
            *now = now.saturating_sub(*before);
        }
        now
    }
}

fn figures(metrics: &TargetMetrics) -> Figures {
    Figures {
        requests: metrics.answers(),
        failed: metrics.requests[0].get() + metrics.requests[5].get(),
        latency: metrics.latencies().collect(),
    }
}
