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
mod rules;
mod shelves;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::global::PathType;

pub use host::{HostBuffer, normal_host};
use paths::Paths;
pub use rules::{HostRules, Place};
pub use shelves::Shelves;

/// A table of rules. A copy shares everything with its original, and what is changed in it costs
/// what it changes.
#[derive(Clone, Debug)]
pub struct Routes<T> {
    exact: Shelves<Arc<Paths<T>>>,
    /// By what follows the asterisk and its dot.
    wildcard: Shelves<Arc<Paths<T>>>,
    any: Arc<Paths<T>>,
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
            exact: Shelves::default(),
            wildcard: Shelves::default(),
            any: Arc::default(),
            default: None,
        }
    }
}

impl<T: Clone> Routes<T> {
    /// Adds a rule. The first one for a host, path and kind of path stays.
    pub fn add(
        &mut self,
        host: &str,
        path: &str,
        kind: PathType,
        leads_to: T,
    ) -> Result<(), RuleError> {
        let mut rules = HostRules::new(host)?;
        rules.add(path, kind, leads_to)?;
        self.add_host(&rules).map_or(Ok(()), Err)
    }

    /// Adds all rules of a host. The first one for a host, path and kind of path stays; the answer
    /// is about one that could not be added.
    pub fn add_host(&mut self, rules: &HostRules<T>) -> Option<RuleError> {
        let known = match &rules.place {
            Place::Any => &mut self.any,
            Place::Exact(name) => self.exact.entry(name.clone()),
            Place::Wildcard(rest) => self.wildcard.entry(rest.clone()),
        };
        add_to(known, rules)
    }

    /// Has these rules in one place, and no others. The first one for a path and kind of path
    /// stays; the answer is about those that could not be added, by their number.
    pub fn replace<'a>(
        &mut self,
        place: &Place,
        all: impl IntoIterator<Item = &'a HostRules<T>>,
    ) -> Vec<(usize, RuleError)>
    where
        T: 'a,
    {
        let mut paths = Arc::default();
        let added = all.into_iter().map(|rules| add_to(&mut paths, rules)).enumerate();
        let wrong = added.filter_map(|(number, error)| Some((number, error?))).collect();
        let (table, name) = match place {
            Place::Any => {
                self.any = paths;
                return wrong;
            }
            Place::Exact(name) => (&mut self.exact, name),
            Place::Wildcard(rest) => (&mut self.wildcard, rest),
        };
        if paths.is_empty() {
            table.remove(name);
        } else {
            table.insert(name.clone(), paths);
        }
        wrong
    }
}

/// The claim of one root to a place: its rules there, and its default backend.
#[derive(Clone, Debug)]
pub struct PlaceClaim<'a, T> {
    /// The rules.
    pub rules: &'a HostRules<T>,
    /// The default backend of the root.
    pub default: Option<&'a T>,
}

impl<T: Clone> Routes<T> {
    /// Replaces the rules of one place by those of its claimants, given in the order of their
    /// keys. The first rule for a path and kind of path stays; errors name the claim by its
    /// number.
    ///
    /// The default backends of claimants follow all rules of the place, so that no default takes a
    /// path that another root has a rule for. Rules without a host leave defaults to
    /// [`Routes::replace_default`].
    pub fn settle(
        &mut self,
        place: &Place,
        claims: &[PlaceClaim<'_, T>],
    ) -> Vec<(usize, RuleError)> {
        let defaults = claims.iter().filter_map(|claim| claim.default);
        let defaults = defaults.filter(|_| *place != Place::Any);
        let defaults: Vec<_> =
            defaults.map(|default| HostRules::everything(place.clone(), default.clone())).collect();
        let rules = claims.iter().map(|claim| claim.rules);
        let mut errors = self.replace(place, rules.chain(&defaults));
        errors.retain(|(number, _)| *number < claims.len());
        errors
    }

    /// The table of several roots, given in the order of their keys: each the rules of its hosts,
    /// and its default backend.
    pub fn of_roots<'a>(roots: impl IntoIterator<Item = &'a (Vec<HostRules<T>>, Option<T>)>) -> Self
    where
        T: 'a,
    {
        let mut places: BTreeMap<&Place, Vec<PlaceClaim<'a, T>>> = BTreeMap::new();
        let mut routes = Self::default();
        for (hosts, default) in roots {
            for rules in hosts {
                let claim = PlaceClaim { rules, default: default.as_ref() };
                places.entry(rules.place()).or_default().push(claim);
            }
            if let Some(default) = default {
                routes.set_default(default.clone());
            }
        }
        for (place, claims) in places {
            // Edges report the rules that another root has.
            let _ = routes.settle(place, &claims);
        }
        routes
    }
}

/// Adds all rules to those that a host has.
fn add_to<T: Clone>(known: &mut Arc<Paths<T>>, rules: &HostRules<T>) -> Option<RuleError> {
    if known.is_empty() {
        *known = rules.paths.clone();
        return None;
    }
    let taken = Arc::make_mut(known).add_all(&rules.paths)?;
    Some(RuleError::Taken { host: rules.host.clone(), path: taken })
}

impl<T> Routes<T> {
    /// Sets what is found when no rule matches, unless it is set already.
    pub fn set_default(&mut self, leads_to: T) -> bool {
        let free = self.default.is_none();
        self.default.get_or_insert(leads_to);
        free
    }

    /// Sets what is found when no rule matches, or that nothing is.
    pub fn replace_default(&mut self, leads_to: Option<T>) {
        self.default = leads_to;
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
