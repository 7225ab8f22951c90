//! What has happened, in sentences.

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
