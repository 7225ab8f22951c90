//! Turns at objects that several clients change at once.
//!
//! A change is made from what was read and refused if somebody wrote in between. With many clients
//! and a slow disk each of them would lose again and again, and some for ever. A client that lost
//! once therefore takes turns: it holds the object while it tries, and others wait for it. An
//! object that nobody fights for costs nothing.

use std::hash::{BuildHasher, RandomState};

use tokio::sync::{Mutex, MutexGuard};

/// Objects that are fought for at the same time are few; two that share a turn only wait longer.
const TURNS: usize = 256;

pub(crate) struct Turns {
    places: Box<[Mutex<()>]>,
    hasher: RandomState,
}

impl Turns {
    pub(crate) fn new() -> Self {
        let places = (0..TURNS).map(|_| Mutex::default()).collect();
        Self { places, hasher: RandomState::new() }
    }

    /// Waits for the turn at an object if it is fought for, and for nothing otherwise.
    pub(super) async fn enter(&self, key: &[u8]) -> Option<MutexGuard<'_, ()>> {
        let place = self.place(key);
        // The lock that proves that nobody fights is given back at once.
        if place.try_lock().is_ok() { None } else { Some(place.lock().await) }
    }

    /// Waits for the turn at an object that is fought for.
    pub(super) async fn take(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        self.place(key).lock().await
    }

    fn place(&self, key: &[u8]) -> &Mutex<()> {
        #[expect(clippy::cast_possible_truncation, reason = "any part of a hash will do")]
        let hash = self.hasher.hash_one(key) as usize;
        &self.places[hash % self.places.len()]
    }
}
