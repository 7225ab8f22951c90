//! What the server finds out by itself: which addresses answer, and what host names stand for.
//!
//! A task for each address and check, and one for each name, sends what it finds to [`Health`],
//! which owns all of it. A task ends when nobody wants to know any more.

mod probe;
mod tls;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use foldhash::fast::FixedState;
use limen_core::global::Verdict;
use limen_core::health::{Judged, Thresholds};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::knowledge::{Asked, Knowledge};
use crate::zone::Zones;

/// How often names are looked up again: half the usual TTL.
const LOOK_UP: Duration = Duration::from_secs(15);
/// How soon after a lookup that failed.
const LOOK_UP_AGAIN: Duration = Duration::from_secs(2);

/// What a task has found.
enum Finding {
    Answers(Asked, bool),
    Addresses(String, Vec<IpAddr>),
    NotFound(String),
}

/// Owns everything that is found out.
pub(crate) struct Health {
    knowledge: Knowledge,
    probes: HashMap<Asked, AbortHandle>,
    lookups: HashMap<String, AbortHandle>,
    send: mpsc::Sender<Finding>,
    findings: mpsc::Receiver<Finding>,
    enabled: bool,
}

impl Health {
    /// Without probes if not `enabled`; names are looked up all the same.
    pub(crate) fn new(enabled: bool) -> Self {
        let (send, findings) = mpsc::channel(256);
        let (probes, lookups) = (HashMap::new(), HashMap::new());
        Self { knowledge: Knowledge::default(), probes, lookups, send, findings, enabled }
    }

    /// What is known now.
    pub(crate) fn knowledge(&self) -> &Knowledge {
        &self.knowledge
    }

    /// Waits until something is known that was not.
    pub(crate) async fn changed(&mut self) {
        loop {
            // It holds a sender itself, so that there always may be more.
            let Some(finding) = self.findings.recv().await else { continue };
            if self.take(finding) {
                break;
            }
        }
    }

    /// Takes in what else has been found since.
    pub(crate) fn catch_up(&mut self) {
        while let Ok(finding) = self.findings.try_recv() {
            self.take(finding);
        }
    }

    fn take(&mut self, finding: Finding) -> bool {
        match finding {
            // What nobody asks about any more was on its way.
            Finding::Answers(probe, _) if !self.probes.contains_key(&probe) => false,
            Finding::Answers(probe, answers) => self.knowledge.answers(probe, answers),
            Finding::Addresses(name, _) | Finding::NotFound(name)
                if !self.lookups.contains_key(&name) =>
            {
                false
            }
            Finding::Addresses(name, addresses) => self.knowledge.stands_for(name, addresses),
            Finding::NotFound(name) => self.knowledge.not_found(name),
        }
    }

    /// Whether every name has been looked up, with success or in vain.
    pub(crate) fn has_looked_up(&self) -> bool {
        let Knowledge { addresses, not_found, .. } = &self.knowledge;
        let is_done = |name: &String| addresses.contains_key(name) || not_found.contains(name);
        self.lookups.keys().all(is_done)
    }

    /// Asks about exactly what these zones want to know.
    pub(crate) fn follow(&mut self, zones: &Zones) {
        let hosts = || zones.nodes.values().filter_map(|node| node.host.as_ref());
        let mut wanted: HashSet<&Asked, FixedState> = HashSet::default();
        if self.enabled {
            wanted.extend(hosts().flat_map(|host| host.plan.questions.probes.iter().flatten()));
        }
        self.probes.retain(|probe, task| keep(wanted.contains(probe), task));
        self.knowledge.answering.retain(|probe, _| wanted.contains(probe));
        for probe in wanted {
            if !self.probes.contains_key(probe) {
                let task = tokio::spawn(keep_probing(probe.clone(), self.send.clone()));
                self.probes.insert(probe.clone(), task.abort_handle());
            }
        }
        let mut names: HashSet<&str> =
            hosts().flat_map(|host| host.plan.names_to_look_up()).collect();
        names.extend(zones.lookups.iter().map(String::as_str));
        self.lookups.retain(|name, task| keep(names.contains(name.as_str()), task));
        self.knowledge.addresses.retain(|name, _| names.contains(name.as_str()));
        self.knowledge.not_found.retain(|name| names.contains(name.as_str()));
        for name in names {
            if !self.lookups.contains_key(name) {
                let task = tokio::spawn(keep_looking_up(name.to_owned(), self.send.clone()));
                self.lookups.insert(name.to_owned(), task.abort_handle());
            }
        }
    }
}

fn keep(wanted: bool, task: &AbortHandle) -> bool {
    if !wanted {
        task.abort();
    }
    wanted
}

async fn keep_probing(asked: Asked, send: mpsc::Sender<Finding>) {
    let probe = asked.probe();
    let thresholds = Thresholds { failures: probe.failures, successes: probe.successes };
    let patience = Duration::from_millis(u64::from(probe.timeout));
    let mut judged = Judged::default();
    loop {
        let outcome = match tokio::time::timeout(patience, probe::probe(probe)).await {
            Ok(outcome) => outcome,
            Err(_) => Err("no answer in time".to_owned()),
        };
        let before = judged.verdict;
        judged = judged.after(outcome.is_ok(), thresholds, 0);
        if judged.verdict != before {
            let address = format!("{}:{}", probe.address.host, probe.address.port);
            let reason = outcome.err().unwrap_or_default();
            tracing::info!(address, after = ?judged.verdict, reason, "health");
            let answers = judged.verdict == Verdict::Healthy;
            if send.send(Finding::Answers(asked.clone(), answers)).await.is_err() {
                return;
            }
        }
        let interval = u64::from(probe.interval);
        // A tenth more or less, so that probers that started together do not stay together.
        let jittered = interval * 9 / 10 + rand::random::<u64>() % (interval / 5 + 1);
        tokio::time::sleep(Duration::from_millis(jittered)).await;
    }
}

async fn keep_looking_up(name: String, send: mpsc::Sender<Finding>) {
    loop {
        let pause = match tokio::net::lookup_host((name.as_str(), 0)).await {
            Ok(found) => {
                let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
                addresses.sort_unstable();
                addresses.dedup();
                if send.send(Finding::Addresses(name.clone(), addresses)).await.is_err() {
                    return;
                }
                LOOK_UP
            }
            // The last addresses stay: a resolver in trouble says nothing about the cluster.
            Err(error) => {
                tracing::warn!(name, %error, "a way in cannot be looked up");
                if send.send(Finding::NotFound(name.clone())).await.is_err() {
                    return;
                }
                LOOK_UP_AGAIN
            }
        };
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_have_been_looked_up_when_each_was_found_or_not() {
        let mut health = Health::new(false);
        assert!(health.has_looked_up(), "there are none");
        // No resolver is asked for either.
        let lookups = ["localhost".to_owned(), "x".repeat(300)].into();
        health.follow(&Zones { lookups, ..Zones::default() });
        let mut news = 0;
        while !health.has_looked_up() {
            health.changed().await;
            news += 1;
        }
        assert_eq!(news, 2);
        assert!(!health.knowledge().resolved("localhost").is_empty());
        health.follow(&Zones::default());
        assert_eq!(health.knowledge().not_found.len(), 0);
    }
}
