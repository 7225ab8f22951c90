//! How much traffic there is, and how it goes.

use limen_core::edge::Sent;
use serde::Serialize;

/// Requests in a second, and how they went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Traffic {
    pub(crate) rate: f64,
    pub(crate) success_percent: Option<f64>,
    pub(crate) p99_milliseconds: Option<f64>,
}

impl Traffic {
    /// This and that together. Success is weighed by requests; the slower is the p99.
    pub(crate) fn and(self, more: &Sent) -> Self {
        let rate = self.rate + more.requests_per_second;
        let success_percent = match (self.success_percent, more.success_percent) {
            (Some(one), Some(other)) if rate > 0.0 => {
                Some((one * self.rate + other * more.requests_per_second) / rate)
            }
            (one, other) => one.or(other),
        };
        let p99_milliseconds = match (self.p99_milliseconds, more.p99_milliseconds) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        };
        Self { rate, success_percent, p99_milliseconds }
    }

    pub(crate) fn of<'a>(sent: impl Iterator<Item = &'a Sent>) -> Self {
        sent.fold(Self::default(), Self::and)
    }
}
