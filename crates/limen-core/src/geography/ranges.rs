//! Networks cut into ranges that do not overlap, so that the longest match is one binary search,
//! and so that it is known how far around an address the answer is the same.

use std::cmp::Reverse;

/// Where each range starts, and the place of all up to the next start.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    starts: Vec<u128>,
    places: Vec<Option<u32>>,
}

impl Ranges {
    /// From networks (first, last, place), of which each two are either apart or one within the
    /// other.
    pub(super) fn new(mut networks: Vec<(u128, u128, u32)>, highest: u128) -> Self {
        networks.sort_by_key(|(first, last, _)| (*first, Reverse(*last)));
        let mut ranges = Self { starts: vec![0], places: vec![None] };
        let mut open: Vec<(u128, u32)> = Vec::new();
        for (first, last, place) in networks {
            ranges.close_before(first, highest, &mut open);
            ranges.start(first, Some(place));
            open.push((last, place));
        }
        ranges.close_before(u128::MAX, highest, &mut open);
        ranges
    }

    fn close_before(&mut self, first: u128, highest: u128, open: &mut Vec<(u128, u32)>) {
        while let Some((last, _)) = open.last().copied().filter(|(last, _)| *last < first) {
            open.pop();
            if last < highest {
                self.start(last + 1, open.last().map(|(_, place)| *place));
            }
        }
    }

    fn start(&mut self, at: u128, place: Option<u32>) {
        if self.starts.last() == Some(&at) {
            self.starts.pop();
            self.places.pop();
        }
        if self.places.last() != Some(&place) {
            self.starts.push(at);
            self.places.push(place);
        }
    }

    /// The place of an address of this many bits, and for how many bits around it the answer is
    /// the same.
    pub(super) fn find(&self, address: u128, bits: u32) -> (Option<u32>, u8) {
        let after = self.starts.partition_point(|start| *start <= address);
        let Some(index) = after.checked_sub(1) else { return (None, 0) };
        // A block must not reach the last address before the range, nor the first after it.
        let beyond = |other: u128| (address ^ other).leading_zeros() - (128 - bits) + 1;
        let before = self.starts[index].checked_sub(1).map_or(0, beyond);
        let behind = self.starts.get(after).copied().map_or(0, beyond);
        (self.places[index], before.max(behind) as u8)
    }
}
