//! The network between hubs and APIs: what becomes of each request and each answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::random::Random;

/// Fate of one request. Times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// From the sender to the API.
    pub there: u64,
    /// From the API to the sender.
    pub back: u64,
    /// The request never arrives.
    pub request_lost: bool,
    /// The answer never arrives.
    pub answer_lost: bool,
    /// The request arrives a second time, so much later.
    pub doubled: Option<u64>,
    /// The sender learns of a loss; otherwise it hears nothing at all.
    pub reset: bool,
}

/// How unreliable the network is, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// Requests that never arrive.
    pub requests_lost: u64,
    /// Answers that never arrive.
    pub answers_lost: u64,
    /// Requests that take seconds.
    pub late: u64,
    /// Answers that take seconds.
    pub answers_late: u64,
    /// Requests that arrive twice.
    pub doubled: u64,
}

/// An API that answers some requests with an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The API.
    pub server: String,
    /// The method, or all.
    pub method: Option<String>,
    /// The plural of the kind, or all.
    pub plural: Option<String>,
    /// The HTTP status.
    pub code: u16,
}

/// The state of one hub process, as the network sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// It runs.
    Running,
    /// It is suspended: it sends no writes and takes no events.
    Suspended,
    /// It is gone: nothing of it is sent or taken any more.
    Dead,
}

/// The network.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// How unreliable it is.
    pub weather: Weather,
    /// APIs that requests do not reach.
    pub requests_cut: BTreeMap<String, u32>,
    /// APIs whose answers and events do not arrive.
    pub answers_cut: BTreeMap<String, u32>,
    /// APIs that answer with errors.
    pub outages: Vec<Outage>,
    /// How late watches of a kind are, in milliseconds.
    pub watch_lag: BTreeMap<(String, Arc<str>), u64>,
    /// Hub processes.
    pub processes: BTreeMap<u32, Process>,
    /// Absences that have ended: the API, and from when to when, in milliseconds.
    pub absences: Vec<(String, u64, u64)>,
    /// Connections of each API were broken so often.
    pub resets: BTreeMap<String, u64>,
}

impl Network {
    /// Decides about one request to an API.
    pub fn fate(&self, server: &str, random: &mut Random) -> Fate {
        let weather = self.weather;
        let late = random.permille(weather.late);
        Fate {
            there: if late { random.between(500, 20_000) } else { random.between(1, 25) },
            back: match random.permille(weather.answers_late) {
                true => random.between(500, 5000),
                false => random.between(1, 25),
            },
            request_lost: random.permille(weather.requests_lost)
                || self.requests_cut.contains_key(server),
            answer_lost: random.permille(weather.answers_lost),
            doubled: random.permille(weather.doubled).then(|| random.between(1, 8000)),
            reset: random.permille(800),
        }
    }

    /// Whether answers and events of an API arrive.
    pub fn answers(&self, server: &str) -> bool {
        !self.answers_cut.contains_key(server)
    }

    /// The error that an API answers a request with, if it does.
    pub fn outage(&self, server: &str, method: &str, path: &[String]) -> Option<u16> {
        let fits = |outage: &&Outage| {
            outage.server == server
                && outage.method.as_ref().is_none_or(|wanted| wanted == method)
                && outage.plural.as_ref().is_none_or(|plural| path.contains(plural))
        };
        self.outages.iter().find(fits).map(|outage| outage.code)
    }

    /// How a process is.
    pub fn process(&self, id: u32) -> Process {
        self.processes.get(&id).copied().unwrap_or(Process::Dead)
    }

    /// How late watches of a kind are.
    pub fn lag(&self, server: &str, resource: &Arc<str>) -> u64 {
        let key = (server.to_owned(), resource.clone());
        let all = (server.to_owned(), Arc::from(""));
        self.watch_lag.get(&key).or_else(|| self.watch_lag.get(&all)).copied().unwrap_or(3)
    }

    /// Breaks every connection to an API.
    pub fn reset(&mut self, server: &str) {
        *self.resets.entry(server.to_owned()).or_default() += 1;
    }

    /// How often connections to an API were broken.
    pub fn resets(&self, server: &str) -> u64 {
        self.resets.get(server).copied().unwrap_or_default()
    }
}

/// Counts a cut that may overlap with others.
pub fn cut(cuts: &mut BTreeMap<String, u32>, server: &str) {
    *cuts.entry(server.to_owned()).or_default() += 1;
}

/// Ends a cut that may overlap with others.
pub fn mend(cuts: &mut BTreeMap<String, u32>, server: &str) {
    if let Some(count) = cuts.get_mut(server) {
        *count -= 1;
        if *count == 0 {
            cuts.remove(server);
        }
    }
}
