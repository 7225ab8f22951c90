//! Whose turn it is. No time and no tasks here: who waits is a `W`, to be called later.

use std::collections::{HashMap, VecDeque};

/// Seats, and queues of those who wait for one.
#[derive(Debug)]
pub(super) struct Turns<W> {
    seats: usize,
    taken: usize,
    queue_length: usize,
    total_length: usize,
    waiting: usize,
    next_ticket: u64,
    /// Only users who wait are in here, so it is bounded by `total_length`.
    queues: HashMap<String, VecDeque<(u64, W)>>,
    /// The users who wait, each once, in the order of their turns.
    order: VecDeque<String>,
}

/// What becomes of somebody who arrives.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Seated,
    Waiting(u64),
    Full,
}

impl<W> Turns<W> {
    pub(super) fn new(seats: usize, queue_length: usize, total_length: usize) -> Self {
        Self {
            seats,
            taken: 0,
            queue_length,
            total_length,
            waiting: 0,
            next_ticket: 0,
            queues: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Takes a seat, or a place in the user's queue.
    pub(super) fn arrive(&mut self, user: &str, waiter: W) -> Arrival {
        // While anybody waits, all seats are taken.
        if self.taken < self.seats {
            self.taken += 1;
            return Arrival::Seated;
        }
        let length = self.queues.get(user).map_or(0, VecDeque::len);
        if length >= self.queue_length || self.waiting >= self.total_length {
            return Arrival::Full;
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting += 1;
        if length == 0 {
            self.order.push_back(user.to_owned());
        }
        self.queues.entry(user.to_owned()).or_default().push_back((ticket, waiter));
        Arrival::Waiting(ticket)
    }

    /// Gives a seat back. If somebody waits, the seat is theirs, and they are to be told.
    pub(super) fn leave(&mut self) -> Option<W> {
        let Some(user) = self.order.pop_front() else {
            self.taken -= 1;
            return None;
        };
        let queue = self.queues.get_mut(&user)?;
        let (_, waiter) = queue.pop_front()?;
        self.waiting -= 1;
        if queue.is_empty() {
            self.queues.remove(&user);
        } else {
            self.order.push_back(user);
        }
        Some(waiter)
    }

    /// Leaves a queue. Does nothing if the turn has come already.
    pub(super) fn give_up(&mut self, user: &str, ticket: u64) {
        let Some(queue) = self.queues.get_mut(user) else { return };
        let Some(place) = queue.iter().position(|(held, _)| *held == ticket) else { return };
        queue.remove(place);
        self.waiting -= 1;
        if queue.is_empty() {
            self.queues.remove(user);
            self.order.retain(|waiting| waiting != user);
        }
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        (self.taken, self.waiting, self.queues.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn seats_go_to_users_in_turn() {
        let mut turns = Turns::new(1, 10, 100);
        assert_eq!(turns.arrive("greedy", 0), Arrival::Seated);
        for n in 1..=5 {
            turns.arrive("greedy", n);
        }
        turns.arrive("ann", 10);
        turns.arrive("bob", 20);
        let called: Vec<i32> = std::iter::from_fn(|| turns.leave()).collect();
        assert_eq!(called, [1, 10, 20, 2, 3, 4, 5]);
        assert_eq!(turns.counts(), (0, 0, 0));
    }

    #[test]
    fn queues_are_bounded() {
        let mut turns = Turns::new(0, 2, 3);
        assert_eq!(turns.arrive("a", ()), Arrival::Waiting(0));
        assert_eq!(turns.arrive("a", ()), Arrival::Waiting(1));
        assert_eq!(turns.arrive("a", ()), Arrival::Full);
        assert_eq!(turns.arrive("b", ()), Arrival::Waiting(2));
        assert_eq!(turns.arrive("c", ()), Arrival::Full);
        turns.give_up("a", 0);
        assert_eq!(turns.arrive("c", ()), Arrival::Waiting(3));
        turns.give_up("a", 0);
        assert_eq!(turns.counts(), (0, 3, 3));
    }

    proptest! {
        #[test]
        fn seats_and_places_are_never_lost(steps in prop::collection::vec((0..3u8, 0..3u8), 0..200)) {
            let mut turns = Turns::new(2, 3, 6);
            let (mut seated, mut waiting) = (0usize, Vec::new());
            for (step, user) in steps {
                let user = user.to_string();
                match step {
                    0 => match turns.arrive(&user, ()) {
                        Arrival::Seated => seated += 1,
                        Arrival::Waiting(ticket) => waiting.push((user, ticket)),
                        Arrival::Full => prop_assert!(seated == 2),
                    },
                    1 if seated > 0 && turns.leave().is_none() => seated -= 1,
                    2 => if let Some((user, ticket)) = waiting.pop() {
                        turns.give_up(&user, ticket);
                    },
                    _ => {}
                }
                let (taken, in_queues, queues) = turns.counts();
                prop_assert_eq!(taken, seated);
                prop_assert!(in_queues <= 6 && queues <= 3 && taken <= 2);
                prop_assert!(in_queues == 0 || taken == 2);
            }
            while turns.counts().0 > 0 {
                turns.leave();
            }
            prop_assert_eq!(turns.counts(), (0, 0, 0));
        }
    }
}
