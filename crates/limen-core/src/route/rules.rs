//! The rules of one host, made once and put into one table after the other.

use std::sync::Arc;

use super::host::{HostBuffer, normal_host};
use super::paths::Paths;
use super::{PathType, RuleError};

/// What leads where below one host.
#[derive(Clone, Debug)]
pub struct HostRules<T> {
    /// As somebody wrote it.
    pub(super) host: String,
    pub(super) place: Place,
    pub(super) paths: Arc<Paths<T>>,
}

/// Where in a table a host is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// At its name.
    Exact(Arc<str>),
    /// At what follows the asterisk and its dot.
    Wildcard(Arc<str>),
    /// With those that are for every host.
    Any,
}

impl Place {
    /// Where a rule's host is, however it is written.
    pub fn of(host: &str) -> Result<Self, RuleError> {
        Ok(if host.is_empty() {
            Self::Any
        } else if let Some(rest) = host.strip_prefix("*.") {
            Self::Wildcard(normal(host, rest)?)
        } else {
            Self::Exact(normal(host, host)?)
        })
    }

    /// The one way to write its host: two hosts are the same if this is.
    pub fn host(&self) -> String {
        match self {
            Self::Exact(name) => name.to_string(),
            Self::Wildcard(rest) => format!("*.{rest}"),
            Self::Any => String::new(),
        }
    }
}

impl<T: Clone> HostRules<T> {
    /// No rules yet. Without a host they are for all hosts.
    pub fn new(host: &str) -> Result<Self, RuleError> {
        Ok(Self { host: host.to_owned(), place: Place::of(host)?, paths: Arc::default() })
    }

    /// One rule, for everything in a place.
    pub fn everything(place: Place, leads_to: T) -> Self {
        let mut paths = Paths::default();
        paths.add("/", PathType::Prefix, leads_to);
        Self { host: place.host(), place, paths: Arc::new(paths) }
    }

    /// Where in a table they are.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Adds a rule. The first one for a path and kind of path stays.
    pub fn add(&mut self, path: &str, kind: PathType, leads_to: T) -> Result<(), RuleError> {
        // Nothing at all is what Ingress objects have for "everything below this host".
        let path = if path.is_empty() { "/" } else { path };
        if !path.starts_with('/') {
            return Err(RuleError::Path(path.to_owned()));
        }
        if Arc::make_mut(&mut self.paths).add(path, kind, leads_to) {
            Ok(())
        } else {
            Err(RuleError::Taken { host: self.host.clone(), path: path.to_owned() })
        }
    }
}

fn normal(host: &str, name: &str) -> Result<Arc<str>, RuleError> {
    if name.contains('*') {
        return Err(RuleError::Asterisk(host.to_owned()));
    }
    let mut buffer = HostBuffer::default();
    let name = normal_host(name, &mut buffer);
    // Others leave out a dot at the end, and would take such a name for another.
    let name = name.filter(|name| name.split('.').all(|label| !label.is_empty()));
    name.map(Into::into).ok_or_else(|| RuleError::Host(host.to_owned()))
}
