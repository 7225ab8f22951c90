//! A retraction that looks like an accident waits for a person: a hub that has lost its objects
//! must not empty the zones of the world.

/// How much may be retracted without asking a person.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The share of all names that may go at once.
    pub share: f64,
    /// As many may always go, however few there are.
    pub always: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { share: 0.3, always: 10 }
    }
}

/// What would be retracted at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retraction {
    /// Names of the publisher itself that would go.
    pub own: usize,
    /// Names of publishers who are gone that would go.
    pub left_behind: usize,
    /// Names that the publisher has published.
    pub published: usize,
    /// Names that it wants to publish now.
    pub wanted: usize,
}

/// Why a retraction waits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Held {
    /// The hub looks as if it were empty.
    #[error("nothing is to be published any more, and {0} names would be retracted")]
    NothingWanted(usize),
    /// Too much goes at once.
    #[error("{going} of {published} names would be retracted at once")]
    TooMuch {
        /// Names that would go.
        going: usize,
        /// Names that are published.
        published: usize,
    },
}

/// Whether a retraction must wait. What publishers who are gone have left goes in any number, unless
/// nothing else is wanted either.
pub fn hold(retraction: Retraction, limits: Limits) -> Option<Held> {
    let Retraction { own, left_behind, published, wanted } = retraction;
    let going = own + left_behind;
    if going > 0 && wanted == 0 {
        return Some(Held::NothingWanted(going));
    }
    #[expect(clippy::cast_precision_loss, reason = "counts of names are far below 2^52")]
    let share = own as f64 / published.max(1) as f64;
    let too_much = own > limits.always && share > limits.share;
    too_much.then_some(Held::TooMuch { going: own, published })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_an_accident_waits() {
        let nothing = |names| Some(Held::NothingWanted(names));
        let too_much = |going, published| Some(Held::TooMuch { going, published });
        for ((own, left_behind, published, wanted), expected) in [
            ((0, 0, 0, 0), None),
            ((0, 0, 50, 50), None),
            // The hub looks empty.
            ((1, 0, 1, 0), nothing(1)),
            ((3, 4, 3, 0), nothing(7)),
            // A few may always go, and many where they are a small part.
            ((10, 0, 11, 1), None),
            ((11, 0, 12, 1), too_much(11, 12)),
            ((30, 0, 100, 70), None),
            ((31, 0, 100, 69), too_much(31, 100)),
            // What others left behind is for the survivors to clear away.
            ((0, 500, 2, 2), None),
        ] {
            let retraction = Retraction { own, left_behind, published, wanted };
            assert_eq!(hold(retraction, Limits::default()), expected, "{retraction:?}");
        }
    }
}
