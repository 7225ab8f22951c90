//! The way to the targets: where they are, connections to them, and what is known of them.
//!
//! ```text
//! Address    one address of one target: outstanding requests, ejection       by backend
//!   └─ Endpoint   where to connect and what to speak there                   shared by backends
//!        └─ Pool       idle connections                                      one for each worker
//! ```

mod address;
mod body;
mod connect;
mod endpoint;
mod failure;
mod pool;
pub(crate) mod raw;
mod tls;

use std::cell::Cell;
use std::sync::LazyLock;
use std::time::Instant;

pub(crate) use address::{Address, Outstanding};
pub(crate) use body::{BodyProgress, ClientBody, OutBody};
pub(crate) use connect::tcp;
pub(crate) use endpoint::{Destination, Endpoint};
pub(crate) use failure::{Failure, FailureKind};
pub(crate) use pool::{Lease, Pool, lease};
pub(crate) use tls::{UpstreamTls, UpstreamTlsError};

/// Milliseconds since the process started.
pub(crate) fn milliseconds(now: Instant) -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(now.saturating_duration_since(*START).as_millis()).unwrap_or(u64::MAX)
}

/// A number that is random enough to spread load and to name requests.
pub(crate) fn random() -> u64 {
    thread_local!(static STATE: Cell<u64> = Cell::new(seed()));
    // SplitMix64.
    STATE.with(|state| {
        let next = state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        state.set(next);
        let mixed = (next ^ (next >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    })
}

fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
