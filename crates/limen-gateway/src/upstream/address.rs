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
