//! Response rate limiting: the same answer to the same network only so often.
//!
//! Who forges a victim's address gets no flood out of this server; a real client whose answers were
//! held back is told now and then to come by TCP, where addresses cannot be forged.

use std::hash::BuildHasher;
use std::net::IpAddr;

use foldhash::fast::RandomState;

/// How often the same answer goes to the same network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateLimit {
    /// In a second; 0 means as often as asked.
    pub(crate) per_second: u32,
    /// One of so many answers that are held back becomes a hint to come by TCP; 0 means none.
    pub(crate) slip: u32,
}

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Send,
    Truncate,
    Drop,
}

impl Verdict {
    /// Why there is no whole answer, in the log.
    pub(super) fn refusal(self) -> Option<&'static str> {
        match self {
            Self::Send => None,
            Self::Truncate => Some("rate limit, told to come by TCP"),
            Self::Drop => Some("rate limit"),
        }
    }
}

/// Accounts, each shared by whoever falls into it. There are so many that this seldom matters, and
/// a fixed number, so that nobody can fill the memory.
const ACCOUNTS: usize = 1 << 16;

#[derive(Clone, Copy, Default)]
struct Account {
    /// When it was last looked at, in milliseconds.
    seen: u64,
    /// Answers left, in thousandths.
    left: u32,
    held: u32,
}

/// The accounts of one worker.
pub(super) struct Limiter {
    limit: RateLimit,
    accounts: Vec<Account>,
    hasher: RandomState,
}

impl Limiter {
    pub(super) fn new(limit: RateLimit) -> Self {
        let count = if limit.per_second == 0 { 0 } else { ACCOUNTS };
        let accounts = vec![Account::default(); count];
        Self { limit, accounts, hasher: RandomState::default() }
    }

    /// Whether an answer goes out. `now` is in milliseconds.
    pub(super) fn ask(&mut self, client: IpAddr, answer: u64, now: u64) -> Verdict {
        if self.limit.per_second == 0 {
            return Verdict::Send;
        }
        let network = match client {
            IpAddr::V4(address) => u64::from(u32::from(address) >> 8),
            IpAddr::V6(address) => (u128::from(address) >> 72) as u64 | 1 << 63,
        };
        let index = self.hasher.hash_one((network, answer)) as usize % ACCOUNTS;
        let account = &mut self.accounts[index];
        let most = self.limit.per_second.saturating_mul(1000);
        // A second's worth can be saved up.
        let gained = now.saturating_sub(account.seen).min(1000) as u32 * self.limit.per_second;
        account.left = account.left.saturating_add(gained).min(most);
        account.seen = now;
        if account.left >= 1000 {
            account.left -= 1000;
            return Verdict::Send;
        }
        account.held = account.held.wrapping_add(1);
        if self.limit.slip != 0 && account.held.is_multiple_of(self.limit.slip) {
            return Verdict::Truncate;
        }
        Verdict::Drop
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_held_back_and_told_of_tcp_now_and_then() {
        let mut limiter = Limiter::new(RateLimit { per_second: 10, slip: 2 });
        let client = "192.0.2.1".parse().unwrap();
        let mut count = |client, now| {
            let verdicts: Vec<_> = (0..30).map(|_| limiter.ask(client, 7, now)).collect();
            let of = |kind| verdicts.iter().filter(|verdict| **verdict == kind).count();
            (of(Verdict::Send), of(Verdict::Truncate), of(Verdict::Drop))
        };
        assert_eq!(count(client, 1_000_000), (10, 10, 10));
        assert_eq!(count("192.0.2.200".parse().unwrap(), 1_000_000), (0, 15, 15), "one network");
        assert_eq!(count("192.0.3.1".parse().unwrap(), 1_000_000).0, 10, "another one");
        assert_eq!(count(client, 1_000_500).0, 5, "half a second later");
        let mut unlimited = Limiter::new(RateLimit { per_second: 0, slip: 2 });
        assert!((0..1000).all(|_| unlimited.ask(client, 7, 0) == Verdict::Send));
    }
}
