//! When a credential that expires is to be renewed.

/// From when to when a credential is good, in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// When it was made.
    pub issued: i64,
    /// When it ends.
    pub expires: i64,
}

impl Validity {
    /// Whether to renew it: when less than this percentage of its life is left. What is left is
    /// time to find out that renewing does not work, and to do something about it.
    pub fn is_due(self, percent_left: u8, now: i64) -> bool {
        let life = i128::from(self.expires) - i128::from(self.issued);
        let left = i128::from(self.expires) - i128::from(now);
        left * 100 < life * i128::from(percent_left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_renewed_in_the_last_part_of_its_life() {
        let year = Validity { issued: 1000, expires: 1000 + 365 * 86_400 };
        let day = |n: i64| 1000 + n * 86_400;
        for (now, due) in [(0, false), (200, false), (240, false), (245, true), (364, true)] {
            assert_eq!(year.is_due(33, day(now)), due, "on day {now}");
        }
        assert!(year.is_due(33, day(400)), "also when it has expired");
        assert!(!year.is_due(33, 0), "a clock that is behind is no reason");
    }
}
