//! What workers count, and how it is written down.
//!
//! Counters are plain atomics that stay with what they measure: a target of a backend has its own,
//! so a request adds to them without looking anything up, and there are as many series as there
//! are targets, never as many as clients can think of.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use limen_core::decide::Readiness;

/// Upper bounds of the latency histogram, in microseconds.
pub(crate) const BOUNDS: [u64; 14] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What happened at one target of one backend.
#[derive(Debug, Default)]
pub(crate) struct TargetMetrics {
    /// By class of status: 1xx to 5xx, and at 0 what got no answer.
    pub(crate) requests: [Count; 6],
    pub(crate) retries: Count,
    pub(crate) failures: Count,
    pub(crate) bytes_received: Count,
    pub(crate) bytes_sent: Count,
    /// Requests that came here although the target was draining, stale or unhealthy.
    pub(crate) fallbacks: [Count; 4],
    /// Requests that came here as a nearer target was full.
    pub(crate) overflows: Count,
    /// Requests that came here although every target was full.
    pub(crate) crowded: Count,
    pub(crate) mirrored: Count,
    latency: [Count; BOUNDS.len() + 1],
    latency_sum: Count,
}

impl TargetMetrics {
    /// All requests that have come to an end.
    pub(crate) fn answers(&self) -> u64 {
        self.requests.iter().map(Count::get).sum()
    }

    /// How many took how long, by [`BOUNDS`] and beyond.
    pub(crate) fn latencies(&self) -> impl Iterator<Item = u64> {
        self.latency.iter().map(Count::get)
    }

    pub(crate) fn finished(&self, status: u16, took: Duration) {
        self.requests[usize::from(status / 100).min(5)].add(1);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.iter().position(|bound| micros <= *bound).unwrap_or(BOUNDS.len());
        self.latency[bucket].add(1);
        self.latency_sum.add(micros);
    }
}

/// What happened at the gateway as a whole.
#[derive(Debug, Default)]
pub(crate) struct GatewayMetrics {
    pub(crate) connections: Count,
    pub(crate) connections_closed: Count,
    pub(crate) connections_refused: Count,
    pub(crate) handshakes_failed: Count,
    /// Requests that are not HTTP as it should be.
    pub(crate) malformed: Count,
    pub(crate) unmatched: Count,
    pub(crate) refused: Count,
    /// Requests of clients that asked more often than they may.
    pub(crate) limited: Count,
    pub(crate) log_dropped: Count,
    pub(crate) reloads: Count,
    pub(crate) reloads_failed: Count,
    pub(crate) snapshots_failed: Count,
}

/// The text form of Prometheus.
#[derive(Default)]
pub(crate) struct Text(String);

impl Text {
    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(crate) fn line(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        value: impl std::fmt::Display,
    ) {
        self.0.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{value}\"", if index == 0 { '{' } else { ',' });
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

/// Who a target's metrics are about: ingress, backend, cluster.
pub(crate) type Labels<'a> = [(&'a str, &'a str); 3];

/// Writes the metrics of all targets, family by family.
pub(crate) fn write_targets(text: &mut Text, targets: &[(Labels<'_>, &TargetMetrics)]) {
    text.family("limen_gateway_requests_total", "counter", "Requests by class of answer");
    for (labels, metrics) in targets {
        for (class, count) in
            ["none", "1xx", "2xx", "3xx", "4xx", "5xx"].iter().zip(&metrics.requests)
        {
            if count.get() > 0 {
                let [a, b, c] = *labels;
                text.line(
                    "limen_gateway_requests_total",
                    &[a, b, c, ("class", class)],
                    count.get(),
                );
            }
        }
    }
    type Counter<'a> = (&'a str, &'a str, fn(&TargetMetrics) -> u64);
    let counters: [Counter<'_>; 7] = [
        ("limen_gateway_retries_total", "Attempts after the first", |m| m.retries.get()),
        ("limen_gateway_failures_total", "Attempts without an answer", |m| m.failures.get()),
        ("limen_gateway_received_bytes_total", "Bytes of request bodies", |m| {
            m.bytes_received.get()
        }),
        ("limen_gateway_sent_bytes_total", "Bytes of answer bodies", |m| m.bytes_sent.get()),
        ("limen_gateway_overflows_total", "Requests here because a nearer cluster was full", |m| {
            m.overflows.get()
        }),
        ("limen_gateway_crowded_total", "Requests here although every cluster was full", |m| {
            m.crowded.get()
        }),
        ("limen_gateway_mirrored_total", "Copies of requests for a mirror", |m| m.mirrored.get()),
    ];
    for (name, help, value) in counters {
        text.family(name, "counter", help);
        for (labels, metrics) in targets {
            text.line(name, labels, value(metrics));
        }
    }
    let name = "limen_gateway_fallbacks_total";
    text.family(
        name,
        "counter",
        "Requests to targets that were not ready, as nothing better was left",
    );
    for (labels, metrics) in targets {
        for readiness in &Readiness::ALL[1..] {
            let count = metrics.fallbacks[*readiness as usize].get();
            if count > 0 {
                let [a, b, c] = *labels;
                text.line(name, &[a, b, c, ("readiness", readiness.name())], count);
            }
        }
    }
    write_latency(text, targets);
}

fn write_latency(text: &mut Text, targets: &[(Labels<'_>, &TargetMetrics)]) {
    let name = "limen_gateway_request_duration_seconds";
    text.family(name, "histogram", "From the head of a request to the end of its answer");
    for (labels, metrics) in targets {
        let [a, b, c] = *labels;
        let mut total = 0;
        for (count, bound) in metrics.latency.iter().zip(BOUNDS.iter().map(Some).chain([None])) {
            total += count.get();
            let bound =
                bound.map_or("+Inf".to_owned(), |micros| (*micros as f64 / 1e6).to_string());
            text.line(&format!("{name}_bucket"), &[a, b, c, ("le", &bound)], total);
        }
        text.line(&format!("{name}_sum"), labels, metrics.latency_sum.get() as f64 / 1e6);
        text.line(&format!("{name}_count"), labels, total);
    }
}
