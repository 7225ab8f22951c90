//! How an address that was ejected comes back before its time.
//!
//! Most addresses are ejected because the member behind them is gone, and are well the moment it
//! is back. Where addresses are probed, the probes tell. Where they are not, and connections were
//! refused or not answered, opening one tells. An address that accepts connections and then fails
//! is left alone for its whole time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::upstream::{Address, milliseconds, tcp};

/// How often a connection is tried, and how long it may take.
const KNOCK: Duration = Duration::from_millis(1000);
const PATIENCE: Duration = Duration::from_millis(800);

/// Connections in a row that are believed.
const ENOUGH: u32 = 2;

/// How often probes are asked for what they know.
const ASK: Duration = Duration::from_millis(100);

/// Looks after an address for as long as it is ejected. `unreachable` says that it was ejected
/// because there was no connection.
pub(crate) async fn look_after(address: Arc<Address>, unreachable: bool) {
    let ejected = milliseconds(Instant::now());
    let mut good = 0;
    loop {
        tokio::time::sleep(if address.health.is_some() { ASK } else { KNOCK }).await;
        if !address.is_ejected(milliseconds(Instant::now())) {
            return;
        }
        let well = match &address.health {
            Some(health) => health.is_well_since(ejected),
            None if unreachable => {
                let connected =
                    tokio::time::timeout(PATIENCE, tcp(&address.endpoint.destination)).await;
                good = if matches!(connected, Ok(Ok(_))) { good + 1 } else { 0 };
                good >= ENOUGH
            }
            None => return,
        };
        if well {
            let back = address.seen_well(milliseconds(Instant::now()));
            let to = &address.endpoint.destination;
            if back {
                tracing::info!(address = %to, "seen to be well again, and on probation");
            }
            return;
        }
    }
}
