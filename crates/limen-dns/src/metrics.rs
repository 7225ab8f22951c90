//! What is counted.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// Everything that is counted.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) queries: Counter,
    pub(crate) ignored: Counter,
    pub(crate) limited: Counter,
    pub(crate) tcp_connections: Counter,
    pub(crate) tcp_refused: Counter,
    pub(crate) reloads: Counter,
    pub(crate) reloads_failed: Counter,
    answers: [Counter; RCODES.len()],
}

const RCODES: [(Rcode, &str); 7] = [
    (Rcode::NoError, "NOERROR"),
    (Rcode::FormErr, "FORMERR"),
    (Rcode::NxDomain, "NXDOMAIN"),
    (Rcode::NotImp, "NOTIMP"),
    (Rcode::Refused, "REFUSED"),
    (Rcode::BadVers, "BADVERS"),
    (Rcode::BadCookie, "BADCOOKIE"),
];

impl Counters {
    /// The counter of a response code.
    pub(crate) fn of(&self, rcode: Rcode) -> &Counter {
        let index = RCODES.iter().position(|(other, _)| *other == rcode).unwrap_or_default();
        &self.answers[index]
    }

    /// In the text format of Prometheus.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (name, help, counter) in [
            ("queries", "Packets that came.", &self.queries),
            ("ignored", "Packets that must not be answered.", &self.ignored),
            ("rate_limited", "Answers held back by the rate limit.", &self.limited),
            ("tcp_connections", "Connections by TCP.", &self.tcp_connections),
            ("tcp_refused", "Connections above a limit.", &self.tcp_refused),
            ("reloads", "Changes taken over.", &self.reloads),
            ("reloads_failed", "Changes that could not be used.", &self.reloads_failed),
        ] {
            let value = counter.get();
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "# HELP limen_dns_{name}_total {help}\n# TYPE limen_dns_{name}_total counter\n\
                 limen_dns_{name}_total {value}"
            );
        }
        let name = "limen_dns_answers_total";
        let _ = writeln!(text, "# HELP {name} Answers by response code.\n# TYPE {name} counter");
        for (index, (_, label)) in RCODES.iter().enumerate() {
            let value = self.answers[index].get();
            let _ = writeln!(text, "{name}{{rcode=\"{label}\"}} {value}");
        }
        text
    }
}
