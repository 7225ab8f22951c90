//! The fence: a hub writes only while it holds its lease.
//!
//! The election moves the deadline forward with every renewal; every writing request reads it
//! immediately before it is sent. The clock counts the time that the machine was suspended, so a hub
//! that was paused finds its fence closed when it resumes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock;

/// Permission to write, until a deadline that the holder of the lease moves.
#[derive(Clone, Debug)]
pub struct Fence {
    /// Nanoseconds of [`clock::boot_nanos`]; the maximum means for ever.
    deadline: Arc<AtomicU64>,
}

impl Fence {
    /// A fence that is never closed, for a hub without rivals.
    pub fn open() -> Self {
        Self { deadline: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    /// A fence that is closed until it is extended.
    pub fn closed() -> Self {
        Self { deadline: Arc::new(AtomicU64::new(0)) }
    }

    /// Allows writes until `lasting` after `from`, a reading of [`clock::boot_nanos`].
    pub fn extend(&self, from: u64, lasting: Duration) {
        let lasting = u64::try_from(lasting.as_nanos()).unwrap_or(u64::MAX);
        self.deadline.fetch_max(from.saturating_add(lasting), Ordering::AcqRel);
    }

    /// Allows nothing from now on.
    pub fn close(&self) {
        self.deadline.store(0, Ordering::Release);
    }

    /// Whether a write may be sent now.
    pub fn allows(&self) -> bool {
        let deadline = self.deadline.load(Ordering::Acquire);
        deadline == u64::MAX || clock::boot_nanos() < deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_open_exactly_until_its_deadline() {
        assert!(Fence::open().allows());
        let fence = Fence::closed();
        assert!(!fence.allows());
        let now = clock::boot_nanos();
        fence.extend(now, Duration::from_secs(3600));
        assert!(fence.allows());
        fence.extend(now, Duration::ZERO);
        assert!(fence.allows(), "an older renewal shortens nothing");
        fence.close();
        assert!(!fence.allows());
    }
}
