//! One address of one target of one backend: how busy it is, and whether it is to be left alone.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use limen_core::decide::{Outlier, OwnKnowledge, hash, slow_start_share};
use limen_core::global::Outliers;

use super::endpoint::Endpoint;
use crate::health::{Health, Verdict};

/// What is known of one address.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) endpoint: Arc<Endpoint>,
    /// What it is called by clients that keep to it.
    pub(crate) name: u64,
    pub(crate) health: Option<Arc<Health>>,
    outstanding: AtomicU32,
    /// Mirrors of what is in `outlier`, for those who only want to know.
    ejected_until: AtomicU64,
    suspect: AtomicBool,
    /// Taken only when something failed, or when something succeeded that had failed before.
    outlier: Mutex<Outlier>,
    pub(crate) ejections: AtomicU64,
    pub(crate) since: u64,
}

impl Address {
    pub(crate) fn new(endpoint: Arc<Endpoint>, health: Option<Arc<Health>>, now: u64) -> Self {
        Self {
            name: hash(endpoint.destination.to_string().as_bytes()),
            endpoint,
            health,
            outstanding: AtomicU32::new(0),
            ejected_until: AtomicU64::new(0),
            suspect: AtomicBool::new(false),
            outlier: Mutex::default(),
            ejections: AtomicU64::new(0),
            since: now,
        }
    }

    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding.load(Ordering::Relaxed)
    }

    pub(crate) fn is_ejected(&self, now: u64) -> bool {
        self.ejected_until.load(Ordering::Relaxed) > now
    }

    pub(crate) fn on_probation(&self, now: u64) -> bool {
        let until = self.ejected_until.load(Ordering::Relaxed);
        until > 0 && until <= now
    }

    /// What probes and requests say of it.
    pub(crate) fn knowledge(&self, now: u64) -> OwnKnowledge {
        if self.is_ejected(now) {
            return OwnKnowledge::Silent;
        }
        match self.health.as_ref().map(|health| health.verdict()) {
            None | Some(Verdict::Unknown) => OwnKnowledge::None,
            Some(Verdict::Healthy) => OwnKnowledge::Answers,
            Some(Verdict::Unhealthy) => OwnKnowledge::Silent,
        }
    }

    /// Whether nothing speaks against sending a request there.
    pub(crate) fn may_be_used(&self, now: u64) -> bool {
        self.knowledge(now) != OwnKnowledge::Silent
    }

    /// How busy it is; nothing if it should get no request now.
    pub(crate) fn load(&self, now: u64, slow_start: u64) -> Option<u32> {
        if self.knowledge(now) == OwnKnowledge::Silent {
            return None;
        }
        let outstanding = self.outstanding();
        // One request at a time finds out whether it is well again.
        if outstanding > 0 && self.on_probation(now) {
            return None;
        }
        if slow_start == 0 {
            return Some(outstanding);
        }
        let since = self.health.as_ref().map_or(self.since, |health| health.since());
        let share = slow_start_share(now.saturating_sub(since), slow_start);
        Some((outstanding + 1) * 100 / share)
    }

    /// An attempt failed. Whether that has ejected the address.
    pub(crate) fn failed(
        &self,
        rules: &Outliers,
        now: u64,
        may_eject: impl FnOnce() -> bool,
    ) -> bool {
        let mut outlier = self.outlier.lock().unwrap_or_else(PoisonError::into_inner);
        let ejected = outlier.failed(rules, now, may_eject);
        self.suspect.store(true, Ordering::Relaxed);
        self.ejected_until.store(outlier.ejected_until(), Ordering::Relaxed);
        if ejected {
            self.ejections.fetch_add(1, Ordering::Relaxed);
        }
        ejected
    }

    /// It was seen to be well while it was ejected. Whether that lets it back.
    pub(crate) fn seen_well(&self, now: u64) -> bool {
        let mut outlier = self.outlier.lock().unwrap_or_else(PoisonError::into_inner);
        let back = outlier.seen_well(now);
        self.ejected_until.store(outlier.ejected_until(), Ordering::Relaxed);
        back
    }

    /// An attempt succeeded.
    pub(crate) fn succeeded(&self) {
        if !self.suspect.load(Ordering::Relaxed) {
            return;
        }
        let mut outlier = self.outlier.lock().unwrap_or_else(PoisonError::into_inner);
        outlier.succeeded();
        if outlier.is_trusted() {
            self.suspect.store(false, Ordering::Relaxed);
            self.ejected_until.store(0, Ordering::Relaxed);
        }
    }
}

/// A request that is under way; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Outstanding(Arc<Address>);

impl Outstanding {
    pub(crate) fn new(address: Arc<Address>) -> Self {
        address.outstanding.fetch_add(1, Ordering::Relaxed);
        Self(address)
    }

    pub(crate) fn address(&self) -> &Arc<Address> {
        &self.0
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.0.outstanding.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use limen_core::global::Protocol;

    use super::super::endpoint::Destination;
    use super::*;

    fn address(since: u64) -> Arc<Address> {
        let destination = Destination::Ip("192.0.2.1:80".parse().unwrap());
        let endpoint = Arc::new(Endpoint::new(destination, Protocol::Http, None));
        Arc::new(Address::new(endpoint, None, since))
    }

    #[test]
    fn a_new_address_seems_busier_than_it_is_for_a_while() {
        let new = address(1000);
        let _busy = Outstanding::new(new.clone());
        let loads = [1000, 6000, 11_000, 60_000].map(|now| new.load(now, 10_000).unwrap());
        assert!(loads.is_sorted_by(|earlier, later| earlier >= later), "{loads:?}");
        assert!(loads[0] >= 10 * loads[2], "it starts with a small share: {loads:?}");
        assert_eq!(loads[2], loads[3], "and ends with the whole: {loads:?}");
        assert_eq!(new.load(1000, 0), Some(1), "where nothing is asked for, at once");
    }

    #[test]
    fn an_address_on_probation_gets_one_request_at_a_time() {
        let rules = Outliers { consecutive_failures: 1, eject_seconds: 1, ..Outliers::default() };
        let address = address(0);
        assert!(address.failed(&rules, 0, || true));
        assert_eq!(address.load(500, 0), None, "it is ejected");
        assert!(address.on_probation(1500));
        assert_eq!(address.load(1500, 0), Some(0));
        let one = Outstanding::new(address.clone());
        assert_eq!(address.load(1500, 0), None, "another finds out first");
        drop(one);
        address.succeeded();
        assert!(address.load(1500, 0).is_some());
    }

    #[test]
    fn an_address_that_is_seen_to_be_well_is_back_before_its_time_once() {
        let rules = Outliers { consecutive_failures: 1, eject_seconds: 10, ..Outliers::default() };
        let address = address(0);
        assert!(address.failed(&rules, 100, || true));
        assert!(address.is_ejected(1000));
        assert!(address.seen_well(1000));
        assert!(!address.is_ejected(1000) && address.on_probation(1000));
        assert!(address.failed(&rules, 1100, || true), "a failure on probation ejects it again");
        assert!(!address.seen_well(2000) && address.is_ejected(2000), "it had its chance");
    }
}
