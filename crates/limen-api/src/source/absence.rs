//! What to say about something that is away: once, then less and less often, and once when it is
//! back.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long it is until it is said a second time; from then on twice as long each time.
const FIRST: Duration = Duration::from_secs(15);
/// It is said at least this often.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// How long something has been away, by what of it does not answer.
#[derive(Debug, Default)]
pub struct Absence {
    failing: BTreeSet<&'static str>,
    since: Option<Instant>,
    /// When it is said again, and how long after the last time that is.
    again: Option<(Instant, Duration)>,
}

impl Absence {
    /// A part has not answered. Whether that should be said.
    pub fn failed(&mut self, part: &'static str, now: Instant) -> bool {
        self.failing.insert(part);
        self.since.get_or_insert(now);
        let pause = match self.again {
            None => FIRST,
            Some((due, _)) if now < due => return false,
            Some((_, pause)) => (pause * 2).min(LONGEST),
        };
        self.again = Some((now + pause, pause));
        true
    }

    /// A part has answered. How long the whole was away, if it is back only now.
    pub fn answered(&mut self, part: &'static str, now: Instant) -> Option<Duration> {
        if !self.failing.remove(part) || !self.failing.is_empty() {
            return None;
        }
        self.again = None;
        self.since.take().map(|since| now - since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_then_less_and_less_often_and_once_when_it_is_back() {
        let start = Instant::now();
        let mut absence = Absence::default();
        let at = |second: u64| start + Duration::from_secs(second);
        assert_eq!(absence.answered("routes", start), None, "nothing was away");
        let said = |second: &u64| absence.failed("routes", at(*second));
        let said: Vec<u64> = (0..4000).filter(said).collect();
        assert_eq!(said, [0, 15, 45, 105, 225, 465, 945, 1845, 2745, 3645]);
        assert_eq!(absence.answered("routes", at(4000)), Some(Duration::from_secs(4000)));
        assert_eq!(absence.answered("routes", at(4001)), None, "that has been said");
        assert!(absence.failed("routes", at(4002)), "and it starts anew");
    }

    #[test]
    fn it_is_back_when_all_of_it_is() {
        let start = Instant::now();
        let mut absence = Absence::default();
        assert!(absence.failed("routes", start));
        assert!(!absence.failed("certificates", start), "it is one absence");
        assert_eq!(absence.answered("routes", start), None);
        assert!(!absence.failed("routes", start), "one that comes and goes says nothing new");
        assert_eq!(absence.answered("routes", start), None);
        assert!(absence.answered("certificates", start).is_some());
    }
}
