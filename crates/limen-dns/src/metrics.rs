//! What is counted.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::query_log::QueryLog;
use crate::wire::Rcode;

/// A number that goes up.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one worker counts. Nobody else writes to it, so that workers do not wait for each other.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) queries: Counter,
    pub(crate) ignored: Counter,
    pub(crate) limited: Counter,
    answers: [Counter; Rcode::ALL.len()],
}

/// Everything that is counted.
#[derive(Default)]
pub(crate) struct AllCounters {
    pub(crate) tcp_connections: Counter,
    pub(crate) tcp_refused: Counter,
    pub(crate) transfers: Counter,
    pub(crate) reloads: Counter,
    pub(crate) reloads_failed: Counter,
    workers: Mutex<Vec<Arc<Counters>>>,
}

impl Counters {
    /// The counter of a response code.
    pub(crate) fn of(&self, rcode: Rcode) -> &Counter {
        let index = Rcode::ALL.iter().position(|other| *other == rcode).unwrap_or_default();
        &self.answers[index]
    }
}

impl AllCounters {
    /// Counters for one more worker.
    pub(crate) fn for_worker(&self) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(counters.clone());
        counters
    }

    /// In the text format of Prometheus.
    pub(crate) fn text(&self, log: &QueryLog) -> String {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = |of: &dyn Fn(&Counters) -> &Counter| {
            workers.iter().map(|worker| of(worker).get()).sum::<u64>()
        };
        let mut text = String::new();
        for (name, help, value) in [
            ("queries", "Packets that came.", sum(&|worker| &worker.queries)),
            ("ignored", "Packets that must not be answered.", sum(&|worker| &worker.ignored)),
            ("rate_limited", "Answers held back by the limit.", sum(&|worker| &worker.limited)),
            ("tcp_connections", "Connections by TCP.", self.tcp_connections.get()),
            ("tcp_refused", "Connections above a limit.", self.tcp_refused.get()),
            ("transfers", "Zones given to secondaries.", self.transfers.get()),
            ("reloads", "Changes taken over.", self.reloads.get()),
            ("reloads_failed", "Changes that could not be used.", self.reloads_failed.get()),
            ("dropped_log_entries", "Entries missing from the query log.", log.dropped.get()),
        ] {
            let name = format!("limen_dns_{name}_total");
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}");
        }
        let name = "limen_dns_answers_total";
        let _ = writeln!(text, "# HELP {name} Answers by response code.\n# TYPE {name} counter");
        for (index, rcode) in Rcode::ALL.iter().enumerate() {
            let (label, value) = (rcode.text(), sum(&|worker| &worker.answers[index]));
            let _ = writeln!(text, "{name}{{rcode=\"{label}\"}} {value}");
        }
        text
    }
}
