//! The history, in sentences.

use crate::actor::Actor;
use crate::api::{Cause, Change, Effect};

/// What has happened.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    lines: Vec<(u64, String)>,
    /// FNV-1a over every effect, in order: equal traces have equal digests.
    digest: u64,
}

impl Trace {
    /// Notes an event.
    pub fn note(&mut self, at: u64, text: String) {
        self.mix(at, &text);
        self.lines.push((at, text));
    }

    /// Notes a change of an object; lines are kept of what hubs do in members.
    pub fn effect(&mut self, at: u64, server: &str, effect: &Effect) {
        let verb = match (effect.change, effect.cause) {
            (Change::Created, _) => "creates",
            (Change::Updated, _) => "updates",
            (Change::Marked, Cause::Request) => "marks for deletion",
            (Change::Removed, Cause::Request) => "deletes",
            (_, Cause::Namespace) => "deletes, with its namespace,",
            (_, Cause::Collection) => "collects",
        };
        let text = format!("{} {verb} {} in {server}", effect.actor, effect.key);
        let object = effect.after.as_ref().or(effect.before.as_ref());
        let object = object.map(ToString::to_string).unwrap_or_default();
        self.mix(at, &format!("{text}{object}"));
        let own = effect.key.namespace.starts_with("limen-");
        let as_member = matches!(&effect.actor, Actor::Hub { cluster, .. } if !cluster.is_empty());
        if as_member && !own {
            self.lines.push((at, text));
        }
    }

    fn mix(&mut self, at: u64, text: &str) {
        for byte in text.bytes().chain(at.to_le_bytes()) {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// A hash of everything that was noted.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Every line, with its time.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.lines.iter().map(|(at, text)| format!("{} {text}", clock(*at)))
    }
}

/// Milliseconds as a person reads them: `01:02.345`.
pub fn clock(millis: u64) -> String {
    let (seconds, millis) = (millis / 1000, millis % 1000);
    match seconds / 3600 {
        0 => format!("{:02}:{:02}.{millis:03}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}.{millis:03}", seconds / 60 % 60, seconds % 60),
    }
}

/// Lines of a trace, with long runs of the same kind of change as one.
pub fn condensed(lines: &[String]) -> Vec<String> {
    // The time, the name of the object and the cluster differ within a run.
    let shape = |line: &str| -> String {
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        match words.iter().position(|word| word.contains('/')) {
            Some(name) if line.contains(" hub ") => words[..name].join(" "),
            _ => line.to_owned(),
        }
    };
    let mut shown = Vec::new();
    let mut rest = lines;
    while let Some(first) = rest.first() {
        let alike = rest.iter().take_while(|line| shape(line) == shape(first)).count();
        match alike {
            0..=4 => shown.extend_from_slice(&rest[..alike]),
            _ => {
                shown.push(first.clone());
                shown.push(format!("{:9} ... {} more like it", "", alike - 2));
                shown.push(rest[alike - 1].clone());
            }
        }
        rest = &rest[alike..];
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_of_the_same_change_are_condensed() {
        let run =
            (0..9).map(|n| format!("00:0{n}.000 hub 1 creates configmaps shop/many-{n} in asia"));
        let mut lines: Vec<String> = run.collect();
        lines.push("00:10.000 a person deletes Namespace shop on the hub".to_owned());
        let shown = condensed(&lines);
        assert_eq!(shown.len(), 4, "{shown:#?}");
        assert_eq!(shown.last(), lines.last());
        assert!(shown[1].ends_with("... 7 more like it"), "{shown:#?}");
    }

    #[test]
    fn times_read_like_a_clock() {
        assert_eq!(clock(62_345), "01:02.345");
        assert_eq!(clock(3_600_000), "1:00:00.000");
    }
}
