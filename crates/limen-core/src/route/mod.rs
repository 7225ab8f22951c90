//! Which rule a request matches: host and path to whatever the rule leads to.
//!
//! The [Ingress specification](https://kubernetes.io/docs/concepts/services-networking/ingress/)
//! orders it like this, and so does [`Routes::find`]:
//!
//! ```text
//! host   exact name  ►  *.name, for one label  ►  rules without a host  ►  default
//! path   Exact  ►  Prefix by element, longest first
//! ```
//!
//! A rule matches when its host *and* its path match. So a request whose exact host has no
//! matching path goes on to the wildcard, then to the rules without a host ("applies to all
//! inbound traffic"), and last to the default.
//!
//! Finding costs one hash lookup for each kind of host and one for each element of the path, and
//! hardly grows with the number of hosts. It allocates nothing.

mod host;
mod paths;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::global::PathType;

pub use host::{HostBuffer, normal_host};
use paths::Paths;

/// A table of rules.
#[derive(Clone, Debug)]
pub struct Routes<T> {
    exact: HashMap<Box<str>, Paths<T>>,
    /// By what follows the asterisk and its dot.
    wildcard: HashMap<Box<str>, Paths<T>>,
    any: Paths<T>,
    default: Option<T>,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// An asterisk somewhere else than as the first label.
    #[error("host {0:?}: an asterisk may only be the whole first label, as in *.example.com")]
    Asterisk(String),
    /// Characters that no host has.
    #[error("host {0:?} is not a host name")]
    Host(String),
    /// A path that no request has.
    #[error("path {0:?} does not start with a slash")]
    Path(String),
    /// The same host, path and kind of path were taken by an earlier rule.
    #[error("host {host:?} path {path:?} is taken by an earlier rule")]
    Taken {
        /// The host.
        host: String,
        /// The path.
        path: String,
    },
}

/// How a request was matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchedHost {
    /// The rule names the host.
    Exact,
    /// The rule has an asterisk for its first label.
    Wildcard,
    /// The rule has no host.
    Any,
    /// No rule matched.
    Default,
}

impl<T> Default for Routes<T> {
    fn default() -> Self {
        Self {
            exact: HashMap::new(),
            wildcard: HashMap::new(),
            any: Paths::default(),
            default: None,
        }
    }
}

impl<T> Routes<T> {
    /// Adds a rule. The first one for a host, path and kind of path stays.
    pub fn add(
        &mut self,
        host: &str,
        path: &str,
        kind: PathType,
        leads_to: T,
    ) -> Result<(), RuleError> {
        // Nothing at all is what Ingress objects have for "everything below this host".
        let path = if path.is_empty() { "/" } else { path };
        if !path.starts_with('/') {
            return Err(RuleError::Path(path.to_owned()));
        }
        let paths = self.paths_of(host)?;
        if paths.add(path, kind, leads_to) {
            Ok(())
        } else {
            Err(RuleError::Taken { host: host.to_owned(), path: path.to_owned() })
        }
    }

    fn paths_of(&mut self, host: &str) -> Result<&mut Paths<T>, RuleError> {
        if host.is_empty() {
            return Ok(&mut self.any);
        }
        let (table, name) = match host.strip_prefix("*.") {
            Some(rest) => (&mut self.wildcard, rest),
            None => (&mut self.exact, host),
        };
        if name.contains('*') {
            return Err(RuleError::Asterisk(host.to_owned()));
        }
        let mut buffer = HostBuffer::default();
        let name =
            normal_host(name, &mut buffer).ok_or_else(|| RuleError::Host(host.to_owned()))?;
        Ok(table.entry(name.into()).or_default())
    }

    /// Sets what is found when no rule matches, unless it is set already.
    pub fn set_default(&mut self, leads_to: T) -> bool {
        let free = self.default.is_none();
        self.default.get_or_insert(leads_to);
        free
    }

    /// What the rule leads to that matches best. The host must be in normal form.
    pub fn find(&self, host: &str, path: &str) -> Option<(MatchedHost, &T)> {
        if let Some(found) = self.exact.get(host).and_then(|paths| paths.find(path)) {
            return Some((MatchedHost::Exact, found));
        }
        if !self.wildcard.is_empty()
            && let Some((label, rest)) = host.split_once('.')
            && !label.is_empty()
            && let Some(found) = self.wildcard.get(rest).and_then(|paths| paths.find(path))
        {
            return Some((MatchedHost::Wildcard, found));
        }
        if let Some(found) = self.any.find(path) {
            return Some((MatchedHost::Any, found));
        }
        self.default.as_ref().map(|found| (MatchedHost::Default, found))
    }

    /// Whether there is nothing to find.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty()
            && self.wildcard.is_empty()
            && self.any.is_empty()
            && self.default.is_none()
    }
}
