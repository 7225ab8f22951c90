//! Room for what is sent along. No tasks here: who finds none is sent away.

use std::collections::HashMap;

/// The least that a body counts for, so that small ones are bounded in number as well.
const LEAST: usize = 16 * 1024;

/// How many bytes are held for whom.
///
/// Nobody may hold more than is left for others: the first gets a half, the next one half of what
/// is left, and so on, so that there is something left for whoever comes.
#[derive(Debug)]
pub(super) struct Rooms {
    free: usize,
    /// Only users who hold something are in here.
    held: HashMap<String, usize>,
}

impl Rooms {
    pub(super) fn new(bytes: usize) -> Self {
        Self { free: bytes, held: HashMap::new() }
    }

    /// Takes room for so many bytes; what it counts for, if there is room.
    pub(super) fn take(&mut self, user: &str, bytes: usize) -> Option<usize> {
        let bytes = bytes.max(LEAST);
        let free = self.free.checked_sub(bytes)?;
        let held = self.held.get(user).map_or(0, |held| *held) + bytes;
        if held > free {
            return None;
        }
        self.free = free;
        match self.held.get_mut(user) {
            Some(before) => *before = held,
            None => drop(self.held.insert(user.to_owned(), held)),
        }
        Some(bytes)
    }

    /// Gives back what was taken.
    pub(super) fn give_back(&mut self, user: &str, bytes: usize) {
        let Some(held) = self.held.get_mut(user) else { return };
        *held -= bytes;
        self.free += bytes;
        if *held == 0 {
            self.held.remove(user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn fill(rooms: &mut Rooms, user: &str) -> usize {
        std::iter::from_fn(|| rooms.take(user, MIB)).count()
    }

    #[test]
    fn however_much_one_takes_there_is_room_for_another() {
        let mut rooms = Rooms::new(120 * MIB);
        assert_eq!(fill(&mut rooms, "greedy"), 60);
        assert_eq!(fill(&mut rooms, "ann"), 30);
        assert_eq!(fill(&mut rooms, "bob"), 15);
        assert_eq!(fill(&mut rooms, "greedy"), 0);
        rooms.give_back("greedy", 60 * MIB);
        assert_eq!(fill(&mut rooms, "carol"), 37);
    }

    #[test]
    fn what_is_given_back_leaves_no_trace() {
        let mut rooms = Rooms::new(MIB);
        let taken: Vec<usize> = std::iter::from_fn(|| rooms.take("ann", 1)).collect();
        assert_eq!(taken.len(), MIB / LEAST / 2, "small bodies are bounded in number");
        taken.into_iter().for_each(|bytes| rooms.give_back("ann", bytes));
        assert_eq!((rooms.free, rooms.held.len()), (MIB, 0));
        assert_eq!(rooms.take("ann", 2 * MIB), None);
    }
}
