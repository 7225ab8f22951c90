//! How much comes and goes, from counters that only grow.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::metrics::{Count, TargetMetrics};
use crate::snapshot::{Backend, TargetState};

/// How long figures about success and latency look back, at least.
const WINDOW: Duration = Duration::from_secs(10);

/// How much comes for every backend, and goes to every target.
///
/// Both are known by where their counters are in memory, which stay with them for as long as they
/// live, whatever else of them changes.
#[derive(Default)]
pub(crate) struct Rates {
    measured: Option<Instant>,
    turned: Option<Instant>,
    backends: HashMap<usize, OfBackend>,
}

/// How much comes for one backend.
pub(crate) struct OfBackend {
    /// Held, so that no other counter takes its place.
    counter: Arc<Count>,
    /// What the backend was called when it was last seen, and when that was.
    id: u64,
    seen: Instant,
    asked: Rate,
    targets: Vec<OfTarget>,
}

/// How much goes to one target.
pub(crate) struct OfTarget {
    metrics: Arc<TargetMetrics>,
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
    /// Measures those that are asked for, and says how many seconds have gone by.
    pub(super) fn measure<'a>(
        &mut self,
        backends: impl Iterator<Item = &'a Arc<Backend>>,
        now: Instant,
    ) -> f64 {
        let seconds = self.measured.replace(now).map_or(0.0, |at| (now - at).as_secs_f64());
        let turn = self.turned.is_none_or(|at| now - at >= WINDOW);
        if turn {
            self.turned = Some(now);
        }
        for backend in backends {
            // Nothing is kept of what nobody has ever asked for.
            let asked = backend.asked.get();
            if asked == 0 {
                continue;
            }
            let rates = self.backends.entry(place(&backend.asked));
            let rates = rates.or_insert_with(|| OfBackend::new(backend, now));
            (rates.id, rates.seen) = (backend.id, now);
            rates.asked.measure(asked, seconds);
            rates.follow(&backend.targets);
            for (rates, target) in rates.targets.iter_mut().zip(&backend.targets) {
                rates.sent.measure(target.metrics.answers(), seconds);
                if turn {
                    let [last, _] = std::mem::take(&mut rates.windows);
                    rates.windows = [figures(&target.metrics), last];
                }
            }
        }
        self.backends.retain(|_, rates| rates.seen == now);
        seconds
    }

    pub(super) fn of(&self, backend: &Backend) -> Option<&OfBackend> {
        let rates = self.backends.get(&place(&backend.asked))?;
        Arc::ptr_eq(&rates.counter, &backend.asked).then_some(rates)
    }

    /// Requests in a second that clients send for a backend.
    pub(crate) fn wanted(&self, backend: &Backend) -> f64 {
        self.of(backend).map_or(0.0, |rates| rates.asked.get())
    }

    /// The same for all that anybody asks for, by id.
    pub(super) fn all_wanted(&self) -> HashMap<u64, f64> {
        let all = self.backends.values().map(|rates| (rates.id, rates.asked.get()));
        all.filter(|(_, wanted)| *wanted > 0.0).collect()
    }
}

impl OfBackend {
    fn new(backend: &Backend, now: Instant) -> Self {
        let (counter, id) = (backend.asked.clone(), backend.id);
        Self { counter, id, seen: now, asked: Rate::default(), targets: Vec::new() }
    }

    /// What goes to a target, which is this one of the backend's.
    pub(super) fn target(&self, index: usize, target: &TargetState) -> Option<&OfTarget> {
        self.targets.get(index).filter(|known| Arc::ptr_eq(&known.metrics, &target.metrics))
    }

    /// Has the same targets as the backend, in the same order.
    fn follow(&mut self, targets: &[TargetState]) {
        let same = |(known, target): (&OfTarget, &TargetState)| {
            Arc::ptr_eq(&known.metrics, &target.metrics)
        };
        if self.targets.len() == targets.len() && self.targets.iter().zip(targets).all(same) {
            return;
        }
        let mut before = std::mem::take(&mut self.targets);
        self.targets.extend(targets.iter().map(|target| {
            let known = before.iter().position(|known| same((known, target)));
            known.map(|index| before.swap_remove(index)).unwrap_or_else(|| OfTarget {
                metrics: target.metrics.clone(),
                sent: Rate::default(),
                windows: Default::default(),
            })
        }));
    }
}

impl OfTarget {
    /// What happened lately: since one or two windows ago.
    pub(super) fn lately(&self) -> Figures {
        let mut now = figures(&self.metrics);
        let before = &self.windows[1];
        now.requests = now.requests.saturating_sub(before.requests);
        now.failed = now.failed.saturating_sub(before.failed);
        for (now, before) in now.latency.iter_mut().zip(&before.latency) {
            *now = now.saturating_sub(*before);
        }
        now
    }
}

fn place(counter: &Arc<Count>) -> usize {
    Arc::as_ptr(counter) as usize
}

fn figures(metrics: &TargetMetrics) -> Figures {
    Figures {
        requests: metrics.answers(),
        failed: metrics.requests[0].get() + metrics.requests[5].get(),
        latency: metrics.latencies().collect(),
    }
}
