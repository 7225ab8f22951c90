//! Times to live, as leases.
//!
//! A lease costs etcd more than a key does, so puts with the same time to live that come soon
//! after one another share one. Each lease is granted for a little longer than the time to live:
//! one half of that slack is how long the lease is handed out, and the other half is for the put
//! to reach etcd. So every key lives for its time, and for the slack longer at most.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Etcd;
use super::endpoints::Repeat;
use super::wire::LeaseGrantRequest;
use crate::Result;

#[derive(Default)]
pub(super) struct Leases {
    /// By time to live in seconds.
    granted: Mutex<HashMap<u64, Lease>>,
}

struct Lease {
    id: i64,
    handed_out_until: Instant,
}

/// etcd grants none for longer.
const LONGEST: u64 = 9_000_000_000;

impl Leases {
    pub(super) fn forget(&self) {
        self.locked(HashMap::clear);
    }

    fn locked<T>(&self, work: impl FnOnce(&mut HashMap<u64, Lease>) -> T) -> T {
        work(&mut self.granted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Etcd {
    /// A lease under which a key that is put now lives for `ttl`.
    pub(super) async fn lease(&self, ttl: Duration) -> Result<i64> {
        let seconds = whole_seconds(ttl);
        // Two puts at once may both find none and get a lease each: a waste, and no harm.
        let now = Instant::now();
        let known = self.leases.locked(|granted| {
            granted.retain(|_, lease| lease.handed_out_until > now);
            granted.get(&seconds).map(|lease| lease.id)
        });
        if let Some(id) = known {
            return Ok(id);
        }

        let slack = slack(seconds);
        let request = LeaseGrantRequest { ttl: (seconds + slack).min(LONGEST) as i64 };
        let id = self.endpoints.call(request, Repeat::Freely).await?.id;
        let handed_out_until = now + Duration::from_secs(slack) / 2;
        self.leases.locked(|granted| granted.insert(seconds, Lease { id, handed_out_until }));
        Ok(id)
    }
}

fn whole_seconds(ttl: Duration) -> u64 {
    let up = u64::from(ttl.subsec_nanos() > 0);
    ttl.as_secs().saturating_add(up).min(LONGEST)
}

fn slack(seconds: u64) -> u64 {
    (seconds / 20).clamp(1, 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up() {
        let cases = [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2), (60_000, 60)];
        for (millis, seconds) in cases {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds, "{millis}");
        }
        assert_eq!(whole_seconds(Duration::MAX), LONGEST);
    }

    #[test]
    fn a_key_lives_little_longer_than_it_should() {
        assert_eq!([0, 5, 60, 3600, 86_400].map(slack), [1, 1, 3, 60, 60]);
    }
}
