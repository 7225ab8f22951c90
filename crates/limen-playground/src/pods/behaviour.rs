//! What a pod has been told to be like.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Requests in a second that are all a pod can take, for the load it reports.
pub const POD_TAKES: f64 = 50.0;

/// What a pod has been told to be like; the usual one is quick and well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Behaviour {
    /// How much longer every answer takes.
    pub slow_milliseconds: u32,
    /// The share of answers, in percent, that are a failure.
    pub fail_percent: u8,
    /// The load it says it has, in percent; left out, that of the requests it gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_percent: Option<u32>,
    /// It says that it is not ready.
    pub unready: bool,
}

/// What a pod is like and how it is doing.
#[derive(Debug, Default)]
pub struct PodState {
    behaviour: Mutex<Behaviour>,
    requests: AtomicU64,
    measured: Mutex<Option<(Instant, u64, f64)>>,
}

/// Requests in a second are measured over at least this long.
const WINDOW: Duration = Duration::from_secs(1);

impl PodState {
    /// What it has been told to be like.
    pub fn behaviour(&self) -> Behaviour {
        *self.behaviour.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Tells it to be like that from the next request on.
    pub fn behave(&self, behaviour: Behaviour) {
        *self.behaviour.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = behaviour;
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Counts a request; its number.
    pub(super) fn count(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed)
    }

    /// Requests in a second, lately.
    pub fn rate(&self) -> f64 {
        let (now, count) = (Instant::now(), self.requests());
        let mut measured = self.measured.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (since, then, rate) = *measured.get_or_insert((now, count, 0.0));
        let passed = now - since;
        if passed < WINDOW {
            return rate;
        }
        let rate = (count - then) as f64 / passed.as_secs_f64();
        *measured = Some((now, count, rate));
        rate
    }

    /// How busy it is, in percent of what it can do.
    pub fn load(&self) -> f64 {
        match self.behaviour().load_percent {
            Some(percent) => f64::from(percent),
            None => self.rate() / POD_TAKES * 100.0,
        }
    }
}
