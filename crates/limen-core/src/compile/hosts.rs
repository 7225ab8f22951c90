//! Who may serve which host.
//!
//! A host belongs to the namespace of the oldest root that claims it, and in that namespace each
//! of its paths to the oldest root that claims the path. Rules without a host are claimed path by
//! path. What a root does not get is left out of what it compiles to, and said.

use std::collections::{BTreeMap, BTreeSet};

use super::root::Root;
use super::seen::Key;
use crate::global::{PathType, Rule};

/// Whose claim is older: by time, then by namespace and name, then by kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    created: String,
    key: Key,
    kind: String,
}

impl Claim {
    /// The claim of a root.
    pub fn of(root: &Root) -> Self {
        Self {
            created: root.created.clone(),
            key: (root.namespace.clone(), root.reference.name.clone()),
            kind: root.reference.kind.clone(),
        }
    }

    /// The kind, namespace and name of the root.
    pub fn root(&self) -> (&str, &str, &str) {
        (&self.kind, &self.key.0, &self.key.1)
    }
}

/// A path of a host.
type Place = (String, String, bool);

/// All claims.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    hosts: BTreeMap<String, BTreeSet<Claim>>,
    paths: BTreeMap<Place, BTreeSet<Claim>>,
}

/// What a root does not get, and who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The host, or the host with a path.
    pub what: String,
    /// The kind, namespace and name of the root that has it.
    pub owner: (String, String, String),
}

impl std::fmt::Display for Denied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, namespace, name) = &self.owner;
        write!(f, "{} belongs to the {kind} {namespace}/{name}, which is older", self.what)
    }
}

fn places(root: &Root) -> impl Iterator<Item = Place> {
    root.rules.iter().flat_map(|rule| {
        let exact = |path_type: PathType| path_type == PathType::Exact;
        rule.paths
            .iter()
            .map(move |path| (rule.host.clone(), path.path.clone(), exact(path.path_type)))
    })
}

impl Claims {
    /// A root claims its hosts. Returns others that this concerns.
    pub fn add(&mut self, root: &Root) -> BTreeSet<Claim> {
        let claim = Claim::of(root);
        for rule in root.rules.iter().filter(|rule| !rule.host.is_empty()) {
            self.hosts.entry(rule.host.clone()).or_default().insert(claim.clone());
        }
        for place in places(root) {
            self.paths.entry(place).or_default().insert(claim.clone());
        }
        self.rivals(root, &claim)
    }

    /// A root claims nothing any more. Returns others that this concerns.
    pub fn remove(&mut self, root: &Root) -> BTreeSet<Claim> {
        let claim = Claim::of(root);
        let rivals = self.rivals(root, &claim);
        for rule in &root.rules {
            if let Some(claims) = self.hosts.get_mut(&rule.host) {
                claims.remove(&claim);
                if claims.is_empty() {
                    self.hosts.remove(&rule.host);
                }
            }
        }
        for place in places(root) {
            if let Some(claims) = self.paths.get_mut(&place) {
                claims.remove(&claim);
                if claims.is_empty() {
                    self.paths.remove(&place);
                }
            }
        }
        rivals
    }

    fn rivals(&self, root: &Root, claim: &Claim) -> BTreeSet<Claim> {
        let hosts = root.rules.iter().filter_map(|rule| self.hosts.get(&rule.host));
        let paths = places(root).filter_map(|place| self.paths.get(&place)).collect::<Vec<_>>();
        hosts.chain(paths).flatten().filter(|other| *other != claim).cloned().collect()
    }

    /// The rules that a root gets, and what it does not get.
    pub fn granted(&self, root: &Root) -> (Vec<Rule>, Vec<Denied>) {
        let claim = Claim::of(root);
        let mut denied = Vec::new();
        let mut refuse = |what: String, owner: &Claim| {
            let (kind, namespace, name) = owner.root();
            let owner = (kind.to_owned(), namespace.to_owned(), name.to_owned());
            let refusal = Denied { what, owner };
            if !denied.contains(&refusal) {
                denied.push(refusal);
            }
        };
        let mut granted = Vec::new();
        for rule in &root.rules {
            let owner = self.hosts.get(&rule.host).and_then(BTreeSet::first);
            if let Some(owner) = owner.filter(|owner| owner.key.0 != claim.key.0) {
                refuse(rule.host.clone(), owner);
                continue;
            }
            let mut paths = rule.paths.clone();
            paths.retain(|path| {
                let exact = path.path_type == PathType::Exact;
                let place = (rule.host.clone(), path.path.clone(), exact);
                // The oldest of those that may have the host at all.
                let owner = self
                    .paths
                    .get(&place)
                    .into_iter()
                    .flatten()
                    .find(|other| rule.host.is_empty() || other.key.0 == claim.key.0);
                match owner {
                    Some(owner) if *owner != claim => {
                        refuse(format!("{}{}", rule.host, path.path), owner);
                        false
                    }
                    _ => true,
                }
            });
            if !paths.is_empty() || rule.paths.is_empty() {
                granted.push(Rule { host: rule.host.clone(), paths });
            }
        }
        (granted, denied)
    }
}

/// A host of its own for a root, under the managed domain. It depends on nothing but the root, and
/// tells roots apart whose names run together.
pub fn generated_host(namespace: &str, name: &str, uid: &str, domain: &str) -> String {
    let mut hash: u32 = 0x811c_9dc5;
    for byte in namespace.bytes().chain([b'/']).chain(name.bytes()).chain([b'/']).chain(uid.bytes())
    {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    let readable: String =
        format!("{name}-{namespace}").replace('.', "-").chars().take(54).collect();
    format!("{}-{hash:08x}.{}", readable.trim_end_matches('-'), domain.trim_start_matches('.'))
}
