//! Who may serve which host.
//!
//! A host belongs to the namespace of the oldest root that claims it, and in that namespace each
//! of its paths to the oldest root that claims the path. Rules without a host are claimed path by
//! path. Where hosts have to be proven, a proof goes before age, and a claim that is neither proven
//! nor served yet keeps nobody away. What a root does not get is left out of what it compiles to,
//! and said.

use std::collections::{BTreeMap, BTreeSet};

use super::observed::Key;
use super::root::Root;
use crate::global::{PathRule, PathType, Rule};

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

/// How good a claim to a host is; the first is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is proven, or needs no proof.
    Proven,
    /// It is not proven, and the host is served for it.
    Served,
    /// It is not proven, and does not count.
    Unproven,
}

/// A path of a host.
type Place = (String, String, bool);

/// All claims.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    hosts: BTreeMap<String, BTreeSet<Claim>>,
    paths: BTreeMap<Place, BTreeSet<Claim>>,
    /// Who has a certificate for a host, or for one below a wildcard, whether or not it claims it.
    certified: BTreeMap<String, BTreeSet<Claim>>,
}

/// What a root does not get, and who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The host, or the host with a path.
    pub what: String,
    /// The kind, namespace and name of the root that has it.
    pub owner: (String, String, String),
    /// Whether that root is older; if not, its claim is proven or served, and this one is not.
    pub older: bool,
}

impl std::fmt::Display for Denied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, namespace, name) = &self.owner;
        let why =
            if self.older { "which is older" } else { "whose claim is proven or served already" };
        write!(f, "{} belongs to the {kind} {namespace}/{name}, {why}", self.what)
    }
}

/// Where a path is, as edges compare it: they take nothing for a slash, and prefixes with and
/// without a slash at their end for the same.
fn place(rule: &Rule, path: &PathRule) -> Place {
    let exact = path.path_type == PathType::Exact;
    let text = match (path.path.as_str(), exact) {
        ("", true) => "/",
        (text, true) => text,
        (text, false) => text.strip_suffix('/').unwrap_or(text),
    };
    (rule.host.clone(), text.to_owned(), exact)
}

fn places(root: &Root) -> impl Iterator<Item = Place> {
    root.rules.iter().flat_map(|rule| rule.paths.iter().map(|path| place(rule, path)))
}

/// The hosts that a root has certificates for, and the wildcards around them.
fn certified(root: &Root) -> impl Iterator<Item = String> {
    let hosts = root.tls.iter().flat_map(|tls| &tls.hosts);
    hosts.flat_map(|host| std::iter::once(host.clone()).chain(around(host)))
}

/// The wildcard that a host is below; a wildcard is its own.
pub(super) fn around(host: &str) -> Option<String> {
    host.split_once('.').map(|(_, rest)| format!("*.{rest}"))
}

fn withdraw<K: Ord>(claims: &mut BTreeMap<K, BTreeSet<Claim>>, key: &K, claim: &Claim) {
    if let Some(known) = claims.get_mut(key) {
        known.remove(claim);
        if known.is_empty() {
            claims.remove(key);
        }
    }
}

impl Claims {
    /// What all of these roots claim.
    pub fn of<'a>(roots: impl IntoIterator<Item = &'a Root>) -> Self {
        let mut claims = Self::default();
        for root in roots {
            claims.insert(root, &Claim::of(root));
        }
        claims
    }

    /// A root claims its hosts. Returns others that this concerns.
    pub fn add(&mut self, root: &Root) -> BTreeSet<Claim> {
        let claim = Claim::of(root);
        self.insert(root, &claim);
        self.rivals(root, &claim)
    }

    fn insert(&mut self, root: &Root, claim: &Claim) {
        for rule in root.rules.iter().filter(|rule| !rule.host.is_empty()) {
            self.hosts.entry(rule.host.clone()).or_default().insert(claim.clone());
        }
        for place in places(root) {
            self.paths.entry(place).or_default().insert(claim.clone());
        }
        for host in certified(root) {
            self.certified.entry(host).or_default().insert(claim.clone());
        }
    }

    /// A root claims nothing any more. Returns others that this concerns.
    pub fn remove(&mut self, root: &Root) -> BTreeSet<Claim> {
        let claim = Claim::of(root);
        let rivals = self.rivals(root, &claim);
        for rule in &root.rules {
            withdraw(&mut self.hosts, &rule.host, &claim);
        }
        for place in places(root) {
            withdraw(&mut self.paths, &place, &claim);
        }
        for host in certified(root) {
            withdraw(&mut self.certified, &host, &claim);
        }
        rivals
    }

    fn rivals(&self, root: &Root, claim: &Claim) -> BTreeSet<Claim> {
        let hosts = root.rules.iter().filter_map(|rule| self.hosts.get(&rule.host));
        let paths = places(root).filter_map(|place| self.paths.get(&place)).collect::<Vec<_>>();
        let certified = root.rules.iter().filter_map(|rule| self.certified.get(&rule.host));
        hosts
            .chain(paths)
            .chain(certified)
            .flatten()
            .filter(|other| *other != claim)
            .cloned()
            .collect()
    }

    /// Whose namespace has a host: that of the oldest among the best claims.
    pub(super) fn owner(
        &self,
        host: &str,
        standing: impl Fn(&Claim, &str) -> Standing,
    ) -> Option<&Claim> {
        let mut served = None;
        for claim in self.hosts.get(host)? {
            match standing(claim, host) {
                Standing::Proven => return Some(claim),
                Standing::Served => served = served.or(Some(claim)),
                Standing::Unproven => {}
            }
        }
        served
    }

    /// The rules that a root gets, and what it does not get. `standing` tells how good a claim to
    /// a host is.
    pub fn granted(
        &self,
        root: &Root,
        standing: impl Fn(&Claim, &str) -> Standing,
    ) -> (Vec<Rule>, Vec<Denied>) {
        let claim = Claim::of(root);
        let mut denied = Vec::new();
        let mut refuse = |what: String, owner: &Claim| {
            let (kind, namespace, name) = owner.root();
            let older = *owner < claim;
            let owner = (kind.to_owned(), namespace.to_owned(), name.to_owned());
            let refusal = Denied { what, owner, older };
            if !denied.contains(&refusal) {
                denied.push(refusal);
            }
        };
        let mut granted = Vec::new();
        for rule in &root.rules {
            let owner = self.owner(&rule.host, &standing);
            if let Some(owner) = owner.filter(|owner| owner.key.0 != claim.key.0) {
                refuse(rule.host.clone(), owner);
                continue;
            }
            let mut paths = rule.paths.clone();
            paths.retain(|path| {
                // The oldest of those that may have the host at all.
                let owner = self
                    .paths
                    .get(&place(rule, path))
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
