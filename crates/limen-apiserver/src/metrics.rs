//! What the server counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// The counters of one server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    turned_away: Counter,
    unlogged: Counter,
}

/// Verbs and codes are few, so these labels are bounded.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answered {
    verb: String,
    code: u16,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("limen_apiserver");
        let requests = Family::default();
        registry.register("requests", "Requests answered", requests.clone());
        let (turned_away, unlogged) = (Counter::default(), Counter::default());
        registry.register("turned_away", "Requests refused with 429", turned_away.clone());
        registry.register("audit_dropped", "Lines missing from the audit log", unlogged.clone());
        Self { registry, requests, turned_away, unlogged }
    }

    pub(crate) fn answered(&self, verb: &str, code: u16) {
        self.requests.get_or_create(&Answered { verb: verb.to_owned(), code }).inc();
    }

    /// Everything, in the text form of Prometheus, with what others have counted so far.
    pub(crate) fn text(&self, turned_away: u64, unlogged: u64) -> String {
        self.turned_away.inc_by(turned_away.saturating_sub(self.turned_away.get()));
        self.unlogged.inc_by(unlogged.saturating_sub(self.unlogged.get()));
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
