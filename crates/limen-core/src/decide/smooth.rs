//! Weighted turns, as even as they can be.
//!
//! Of every hundred turns a weight of 1 beside 99 gets exactly one, and equal weights alternate.
//! Each turn gives everyone their weight in credit; who has most credit is next and pays for the
//! round.

/// The credit of everyone who takes turns.
#[derive(Clone, Debug, Default)]
pub struct SmoothWeights {
    credit: Vec<i64>,
}

impl SmoothWeights {
    /// For this many, who all start without credit.
    pub fn new(count: usize) -> Self {
        Self { credit: vec![0; count] }
    }

    /// Who is next, among those that have a weight now; nobody if none has.
    ///
    /// Those without a weight neither gain nor lose credit, so that they come back to their turn
    /// and not to a burst.
    pub fn next(&mut self, weight: impl Fn(usize) -> u32) -> Option<usize> {
        self.next_of(0..self.credit.len(), weight)
    }

    /// The same among some of them.
    pub fn next_of(
        &mut self,
        who: impl Iterator<Item = usize>,
        weight: impl Fn(usize) -> u32,
    ) -> Option<usize> {
        let mut round = 0;
        let mut best = None;
        for index in who {
            let weight = i64::from(weight(index));
            if weight == 0 {
                continue;
            }
            round += weight;
            let credit = &mut self.credit[index];
            *credit += weight;
            if best.is_none_or(|(_, most)| *credit > most) {
                best = Some((index, *credit));
            }
        }
        let (index, _) = best?;
        self.credit[index] -= round;
        Some(index)
    }
}
