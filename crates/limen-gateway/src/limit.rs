//! How much one client may ask for.
//!
//! One table for the whole gateway, of a fixed size, without locks: sets of four slots, each with
//! the hash of a client and the moment when its next request would be on time. Who has not asked
//! for a while has nothing to remember, so its slot is free. When a set is full of busy clients
//! the one that is closest to being forgotten goes: a limit may then be too generous, never too
//! strict.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use limen_core::decide::{hash, meter_with};
use limen_core::global::ClientLimit;

const SETS: usize = 16 * 1024;
const WAYS: usize = 4;

/// What is remembered of clients.
pub(crate) struct Clients {
    slots: Vec<Slot>,
}

#[derive(Default)]
struct Slot {
    client: AtomicU64,
    next: AtomicU64,
}

impl Default for Clients {
    fn default() -> Self {
        Self { slots: (0..SETS * WAYS).map(|_| Slot::default()).collect() }
    }
}

impl Clients {
    /// Whether a client may ask once more; if not, after how many seconds.
    pub(crate) fn admit(
        &self,
        whose: u64,
        client: IpAddr,
        limit: &ClientLimit,
        milliseconds: u64,
    ) -> Result<(), u32> {
        let mut name = [0; 24];
        name[..8].copy_from_slice(&whose.to_le_bytes());
        match client.to_canonical() {
            IpAddr::V4(address) => name[8..12].copy_from_slice(&address.octets()),
            // One customer has a /64.
            IpAddr::V6(address) => name[8..16].copy_from_slice(&address.octets()[..8]),
        }
        let client = hash(&name).max(1);
        let now = milliseconds.saturating_mul(1_000_000);
        let slot = self.slot(client, now);
        let rate = limit.requests_per_second;
        let burst = limit.burst.map_or_else(|| rate.max(1.0), |burst| f64::from(burst).max(1.0));
        // The first of a burst is on time; the others come ahead of theirs.
        let ahead = ((burst - 1.0) / rate * 1e9) as u64;
        let later = |next| meter_with(next, now, rate, ahead);
        match slot.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later) {
            Ok(_) => Ok(()),
            Err(next) => {
                let wait = next.saturating_sub(now).saturating_sub(ahead);
                Err(u32::try_from(wait.div_ceil(1_000_000_000)).unwrap_or(u32::MAX).max(1))
            }
        }
    }

    fn slot(&self, client: u64, now: u64) -> &Slot {
        let set = (client as usize % SETS) * WAYS;
        let set = &self.slots[set..set + WAYS];
        if let Some(slot) = set.iter().find(|slot| slot.client.load(Ordering::Relaxed) == client) {
            return slot;
        }
        let (mut free, mut least) = (&set[0], u64::MAX);
        for slot in set {
            let next = slot.next.load(Ordering::Relaxed);
            if next < least {
                (free, least) = (slot, next);
            }
        }
        free.client.store(client, Ordering::Relaxed);
        free.next.store(now, Ordering::Relaxed);
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_its_burst_and_then_its_rate() {
        let clients = Clients::default();
        let limit = ClientLimit { requests_per_second: 10.0, burst: Some(5) };
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let at = |client, now| clients.admit(1, client, &limit, now);
        assert_eq!((0..5).filter(|_| at(one, 1000).is_ok()).count(), 5);
        assert_eq!(at(one, 1000), Err(1));
        assert!(at(other, 1000).is_ok());
        assert!(clients.admit(2, one, &limit, 1000).is_ok(), "another root counts by itself");
        let passed = (1000..6000).filter(|now| at(one, *now).is_ok()).count();
        assert!((49..=51).contains(&passed), "{passed}");
    }

    #[test]
    fn any_number_of_clients_takes_no_more_room_and_is_never_refused_for_others() {
        let clients = Clients::default();
        let limit = ClientLimit { requests_per_second: 1.0, burst: Some(1) };
        for number in 0..200_000_u32 {
            let client = IpAddr::V4(number.into());
            assert!(clients.admit(1, client, &limit, 1000).is_ok());
        }
    }
}
