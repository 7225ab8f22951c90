//! How an address that was ejected comes back before its time.
//!
//! Most addresses are ejected because the member behind them is gone, and are well the moment it
//! is back. Where addresses are probed, the probes tell. Where they are not, and connections were
//! refused or not answered, opening one tells. An address that accepts connections and then fails
//! is left alone for its whole time, unless probes ask for more than a connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use limen_core::global::HealthCheckKind;

use super::Health;
use crate::upstream::{Address, milliseconds, tcp};

/// How often a connection is tried, and how long it may take.
const KNOCK: Duration = Duration::from_millis(1000);
const PATIENCE: Duration = Duration::from_millis(800);

/// Connections in a row that are believed.
const ENOUGH: u32 = 2;

/// Looks after an address for as long as it is ejected. `unreachable` says that it was ejected
/// because there was no connection.
pub(crate) async fn look_after(address: Arc<Address>, unreachable: bool) {
    let well = match &address.health {
        Some(health) if unreachable || health.question.kind != HealthCheckKind::Tcp => {
            probes_say_so(&address, health).await
        }
        None if unreachable => connections_say_so(&address).await,
        _ => false,
    };
    if well && address.seen_well(milliseconds(Instant::now())) {
        let to = &address.endpoint.destination;
        tracing::info!(address = %to, "seen to be well again, and on probation");
    }
}

/// Whether probes find it well while it is ejected.
async fn probes_say_so(address: &Address, health: &Health) -> bool {
    let ejected = milliseconds(Instant::now());
    let _waiting = Waiting::new(health);
    loop {
        // Before anything is looked at, so that no news is missed.
        let news = health.news.notified();
        if health.is_well_since(ejected) {
            return true;
        }
        // Probes may take longer than the ejection.
        let _ = tokio::time::timeout(KNOCK, news).await;
        if !address.is_ejected(milliseconds(Instant::now())) {
            return false;
        }
    }
}

/// Whether connections in a row are accepted while it is ejected.
async fn connections_say_so(address: &Address) -> bool {
    let mut good = 0;
    while good < ENOUGH {
        tokio::time::sleep(KNOCK).await;
        if !address.is_ejected(milliseconds(Instant::now())) {
            return false;
        }
        let connected = tokio::time::timeout(PATIENCE, tcp(&address.endpoint.destination)).await;
        good = if matches!(connected, Ok(Ok(_))) { good + 1 } else { 0 };
    }
    true
}

/// Makes the prober hurry for as long as somebody waits.
struct Waiting<'a>(&'a Health);

impl<'a> Waiting<'a> {
    fn new(health: &'a Health) -> Self {
        health.waiting.fetch_add(1, Ordering::Relaxed);
        health.hurry.notify_one();
        Self(health)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
