//! Objects to a snapshot.
//!
//! What has not changed since the last snapshot is taken over as it is: compiled roots, and within
//! changed roots the addresses with what is known of them. So a change costs what it changes plus a
//! look at every root to see that it is the same, and no address forgets that it was ejected.

mod ingress;
mod probed;
mod shared;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Weak};

use limen_core::decide::{Plan, Vantage};
use limen_core::global::Global;
use limen_core::locality::Locality;
use limen_core::route::{HostRules, RuleError};

use crate::health::Health;
use crate::snapshot::{Ingress, Route, Snapshot};
use crate::tls::ServerTls;
use limen_api::source::{Key, Objects, SecretData};
pub(crate) use probed::Probed;
use shared::Shared;
use tables::Tables;

/// Makes snapshots, one after the other.
pub(crate) struct Compiler {
    from: Vantage,
    tls: Arc<ServerTls>,
    shared: Shared,
    compiled: BTreeMap<Key, Arc<Compiled>>,
    /// Secrets as they were last.
    secrets: HashMap<Key, Arc<SecretData>>,
    /// Clusters that are nearer or farther than they were.
    moved: BTreeSet<String>,
    tables: Tables,
}

/// One root as it goes into every snapshot until it changes.
struct Compiled {
    key: Key,
    ingress: Arc<Ingress>,
    hosts: Vec<HostRules<Arc<Route>>>,
    default: Option<Arc<Route>>,
    /// What is wrong with its rules.
    problems: Vec<String>,
}

/// Roots that are no more, and those that have to be compiled.
struct Differences<'a> {
    gone: Vec<Arc<Compiled>>,
    changed: Vec<(&'a Key, &'a Arc<Global>)>,
}

impl Compiler {
    /// With `probe_all`, addresses are probed that nobody asks to be.
    pub(crate) fn new(here: Locality, tls: Arc<ServerTls>, probe_all: bool) -> Self {
        let from = Vantage { here, ..Vantage::default() };
        Self {
            from,
            tls,
            shared: Shared::new(probe_all),
            compiled: BTreeMap::new(),
            secrets: HashMap::new(),
            moved: BTreeSet::new(),
            tables: Tables::default(),
        }
    }

    /// How long connections to clusters take has become known, or has changed. Whether that may
    /// matter: then roots that lead there have to be looked at again.
    pub(crate) fn measured(&mut self, latencies: &BTreeMap<String, f64>) -> bool {
        for (cluster, latency) in latencies {
            let before = self.from.latencies.get(cluster);
            let same = before.is_some_and(|before| {
                let apart = (before - latency).abs();
                apart < 2.0 || apart < before.min(*latency) * 0.3
            });
            if !same {
                self.from.latencies.insert(cluster.clone(), *latency);
                self.moved.insert(cluster.clone());
            }
        }
        !self.moved.is_empty()
    }

    /// The probed addresses of the last snapshot.
    pub(crate) fn probed(&self) -> &Probed {
        self.tables.probed()
    }

    /// The snapshot for these objects, and the addresses that have to be probed from now on.
    pub(crate) fn compile(&mut self, objects: &Objects) -> (Snapshot, Vec<Weak<Health>>) {
        let Differences { gone, changed } = self.differences(objects);
        for root in gone {
            self.compiled.remove(&root.key);
            self.tables.remove(&root);
        }
        for (key, global) in changed {
            let before = self.compiled.get(key);
            let ingress = before.map(|before| &before.ingress);
            let ingress = self.shared.ingress(key, global, objects, ingress, &self.from);
            let root = Arc::new(Compiled::new(key.clone(), Arc::new(ingress)));
            if let Some(before) = self.compiled.insert(key.clone(), root.clone()) {
                self.tables.remove(&before);
            }
            self.tables.insert(&root);
        }
        self.moved.clear();
        let mut snapshot = self.tables.snapshot(&self.tls);
        snapshot.problems.extend(objects.denied.iter().cloned());
        (snapshot, self.shared.take_new_probes())
    }

    fn differences<'a>(&mut self, objects: &'a Objects) -> Differences<'a> {
        let secrets = self.changed_secrets(objects);
        let (mut gone, mut changed) = (Vec::new(), Vec::new());
        // Both are in the order of their keys.
        let mut known = self.compiled.values().peekable();
        for (key, global) in &objects.ingresses {
            while let Some(root) = known.next_if(|root| root.key < *key) {
                gone.push(root.clone());
            }
            let before = known.next_if(|root| root.key == *key);
            let current = |root: &Arc<Compiled>| {
                root.is_current(global, &secrets) && !root.is_elsewhere(&self.moved, &self.from)
            };
            if !before.is_some_and(current) {
                changed.push((key, global));
            }
        }
        gone.extend(known.cloned());
        Differences { gone, changed }
    }

    /// The Secrets that are not what they were.
    fn changed_secrets(&mut self, objects: &Objects) -> HashSet<Key> {
        let differs = |(key, secret): &(&Key, &Arc<SecretData>), others: &HashMap<Key, Arc<_>>| {
            let other = others.get(*key);
            !other.is_some_and(|other| Arc::ptr_eq(other, secret) || other == *secret)
        };
        let (before, now) = (&self.secrets, &objects.secrets);
        let new = now.iter().filter(|secret| differs(secret, before));
        let gone = before.iter().filter(|(key, _)| !now.contains_key(*key));
        let changed: HashSet<Key> = new.chain(gone).map(|(key, _)| key.clone()).collect();
        if !changed.is_empty() {
            self.secrets.clone_from(now);
        }
        changed
    }
}

impl Compiled {
    /// Whether it is made of these.
    fn is_current(&self, global: &Arc<Global>, changed: &HashSet<Key>) -> bool {
        let Ingress { global: before, secrets, .. } = self.ingress.as_ref();
        let secret_changed = || {
            let key = |name: &String| (self.key.0.clone(), name.clone());
            secrets.iter().any(|name| changed.contains(&key(name)))
        };
        (Arc::ptr_eq(before, global) || before == global)
            && (changed.is_empty() || !secret_changed())
    }

    /// Whether clusters that have moved put the targets of any backend in another order.
    fn is_elsewhere(&self, moved: &BTreeSet<String>, from: &Vantage) -> bool {
        if moved.is_empty() {
            return false;
        }
        let Global { backends, traffic, .. } = &*self.ingress.global;
        let mut both = backends.iter().zip(&self.ingress.backends);
        both.any(|(backend, made)| {
            // How near a cluster is matters where there is another one to go to.
            backend.targets.len() > 1
                && backend.targets.iter().any(|target| moved.contains(&target.cluster))
                && Plan::seen_from(backend, traffic, from) != made.plan
        })
    }

    fn new(key: Key, ingress: Arc<Ingress>) -> Self {
        let (mut hosts, mut problems) = (Vec::new(), Vec::new());
        let global = &ingress.global;
        let mut wrong = |error: RuleError| problems.push(format!("{}: {error}", ingress.label));
        for rule in &global.rules {
            let mut rules = match HostRules::new(&rule.host) {
                Ok(rules) => rules,
                Err(error) => {
                    wrong(error);
                    continue;
                }
            };
            let tls = has_tls(global, &rule.host);
            for path in &rule.paths {
                let route = Arc::new(Route {
                    ingress: ingress.clone(),
                    backend: ingress.backend(&path.backend),
                    host: rule.host.clone(),
                    path: path.path.clone(),
                    redirect_to_https: tls && global.client.redirect_to_https.unwrap_or(true),
                    tls,
                });
                if let Err(error) = rules.add(&path.path, path.path_type, route) {
                    wrong(error);
                }
            }
            hosts.push(rules);
        }
        let default = global.default_backend.as_ref().map(|name| {
            Arc::new(Route {
                ingress: ingress.clone(),
                backend: ingress.backend(name),
                host: String::new(),
                path: String::new(),
                redirect_to_https: false,
                tls: false,
            })
        });
        Self { key, hosts, default, problems, ingress }
    }
}

fn has_tls(global: &Global, host: &str) -> bool {
    global.tls.iter().any(|tls| {
        tls.hosts.is_empty()
            || tls.hosts.iter().any(|name| {
                name == host
                    || name.strip_prefix("*.").is_some_and(|rest| {
                        host.split_once('.').is_some_and(|(_, below)| below == rest)
                    })
            })
    })
}
