//! The paths of one host.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::global::PathType;

/// What the paths of one host lead to.
#[derive(Clone, Debug)]
pub(super) struct Paths<T> {
    exact: HashMap<Box<str>, T>,
    /// By the path without its last slash: a request is compared at each of its own slashes.
    prefix: HashMap<Box<str>, T>,
    /// Nothing longer needs to be looked for, so that a path of a thousand slashes costs no more
    /// than the longest rule.
    longest_prefix: usize,
}

impl<T> Default for Paths<T> {
    fn default() -> Self {
        Self { exact: HashMap::new(), prefix: HashMap::new(), longest_prefix: 0 }
    }
}

impl<T> Paths<T> {
    /// Whether there was room: the first rule for a path stays.
    pub(super) fn add(&mut self, path: &str, kind: PathType, leads_to: T) -> bool {
        let (table, key) = match kind {
            PathType::Exact => (&mut self.exact, path),
            PathType::Prefix | PathType::ImplementationSpecific => {
                let key = path.strip_suffix('/').unwrap_or(path);
                self.longest_prefix = self.longest_prefix.max(key.len());
                (&mut self.prefix, key)
            }
        };
        if table.contains_key(key) {
            return false;
        }
        table.insert(key.into(), leads_to);
        true
    }

    /// Adds what others have. A path that was taken, if any was.
    pub(super) fn add_all(&mut self, others: &Self) -> Option<String>
    where
        T: Clone,
    {
        self.longest_prefix = self.longest_prefix.max(others.longest_prefix);
        let prefix = merge(&mut self.prefix, &others.prefix).map(|key| format!("{key}/"));
        merge(&mut self.exact, &others.exact).map(str::to_owned).or(prefix)
    }

    pub(super) fn find(&self, path: &str) -> Option<&T> {
        if !self.exact.is_empty()
            && let Some(found) = self.exact.get(path)
        {
            return Some(found);
        }
        if self.prefix.is_empty() {
            return None;
        }
        let bytes = path.as_bytes();
        let mut end = bytes.len();
        if end <= self.longest_prefix {
            if let Some(found) = self.prefix.get(path) {
                return Some(found);
            }
        } else {
            end = self.longest_prefix + 1;
        }
        while let Some(slash) = bytes[..end].iter().rposition(|byte| *byte == b'/') {
            // A slash is a character of its own, so the slice ends between characters.
            if let Some(found) = self.prefix.get(&path[..slash]) {
                return Some(found);
            }
            end = slash;
        }
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.prefix.is_empty()
    }
}

/// Adds to a table what another has. The first in alphabetical order of those that were taken.
fn merge<'a, T: Clone>(
    table: &mut HashMap<Box<str>, T>,
    others: &'a HashMap<Box<str>, T>,
) -> Option<&'a str> {
    let mut taken: Option<&str> = None;
    for (key, leads_to) in others {
        match table.entry(key.clone()) {
            Entry::Vacant(free) => {
                free.insert(leads_to.clone());
            }
            Entry::Occupied(_) => taken = Some(taken.map_or(key, |other| other.min(key))),
        }
    }
    taken
}
