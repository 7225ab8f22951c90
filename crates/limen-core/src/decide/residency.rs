//! Which clusters may serve which clients. Nothing ever overrides this.

use crate::global::{Residency, Target};

/// Rules beyond this many are held against every client, so that none is ever broken.
const MOST_RULES: usize = 64;

/// Residency rules, made ready for one backend.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Residencies {
    rules: Vec<Vec<String>>,
    /// By target: the rules that refuse it, as bits.
    refused: Vec<u64>,
    /// The rules that hold for every client.
    always: u64,
}

impl Residencies {
    pub(super) fn new(rules: &[Residency], targets: &[Target]) -> Self {
        let mut made = Self { refused: vec![0; targets.len()], ..Self::default() };
        for (index, rule) in rules.iter().enumerate() {
            let bit = 1 << index.min(MOST_RULES - 1);
            if rule.clients.is_empty() || index >= MOST_RULES - 1 {
                made.always |= bit;
            }
            made.rules.push(rule.clients.clone());
            for (target, refused) in targets.iter().zip(&mut made.refused) {
                if !may_serve(rule, target.locality.region.as_deref()) {
                    *refused |= bit;
                }
            }
        }
        made
    }

    /// The rules that hold for a client who is in these places, as bits.
    pub(super) fn holding(&self, places: &[&str]) -> u64 {
        let mut held = self.always;
        for (index, clients) in self.rules.iter().enumerate().take(MOST_RULES - 1) {
            let there = |name: &String| places.iter().any(|place| matches(name, place));
            if clients.iter().any(there) {
                held |= 1 << index;
            }
        }
        held
    }

    pub(super) fn allow(&self, target: usize, held: u64) -> bool {
        self.refused[target] & (held | self.always) == 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

fn may_serve(rule: &Residency, region: Option<&str>) -> bool {
    let named = |names: &[String]| {
        region.is_some_and(|region| names.iter().any(|name| matches(name, region)))
    };
    (rule.allow.is_empty() || named(&rule.allow)) && !named(&rule.deny)
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}
