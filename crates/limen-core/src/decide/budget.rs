//! How many retries there may be: a share of the requests, so that a backend in trouble is not
//! buried under retries.

/// Every request pays in a share of a retry; a retry takes a whole one out.
#[derive(Clone, Debug)]
pub struct RetryBudget {
    /// In hundredths of a retry.
    balance: u32,
    percent: u32,
}

/// What there is at the start: failures come in bursts, and before any request has paid in.
const RESERVE: u32 = 100 * 100;

/// What can be saved at most, so that a long calm does not pay for a long storm.
const MOST: u32 = 1000 * 100;

impl RetryBudget {
    /// A budget of this many retries in a hundred requests.
    pub fn new(percent: u8) -> Self {
        Self { balance: RESERVE, percent: u32::from(percent) }
    }

    /// A request came.
    pub fn request(&mut self) {
        self.balance = (self.balance + self.percent).min(MOST);
    }

    /// Whether there may be one more retry; it is taken from the budget.
    pub fn retry(&mut self) -> bool {
        if self.percent == 0 || self.balance < 100 {
            return false;
        }
        self.balance -= 100;
        true
    }
}
