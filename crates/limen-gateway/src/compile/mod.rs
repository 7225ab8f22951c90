//! Objects to a snapshot.
//!
//! What has not changed since the last snapshot is taken over as it is: compiled roots, and within
//! changed roots the addresses with what is known of them. So a change costs what it changes plus
//! one entry in a table for each host, and no address forgets that it was ejected.

mod ingress;
mod shared;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Instant;

use limen_core::decide::{Plan, Vantage};
use limen_core::global::{Global, PathType};
use limen_core::locality::Locality;
use limen_core::route::{HostRules, RuleError};

use crate::health::Health;
use crate::snapshot::{Ingress, Route, Snapshot};
use crate::tls::{Mutual, ServerTls};
use limen_api::source::{Key, Objects};
use shared::Shared;

/// Makes snapshots, one after the other.
pub(crate) struct Compiler {
    from: Vantage,
    tls: Arc<ServerTls>,
    shared: Shared,
    compiled: HashMap<Key, Arc<Compiled>>,
    /// Whether the order of targets may be another in all of them.
    stale: bool,
    mutual: Vec<Mutual>,
}

/// One root as it goes into every snapshot until it changes.
struct Compiled {
    ingress: Arc<Ingress>,
    hosts: Vec<HostRules<Arc<Route>>>,
    default: Option<Arc<Route>>,
    /// What is wrong with its rules.
    problems: Vec<String>,
}

impl Compiler {
    /// With `probe_all`, addresses are probed that nobody asks to be.
    pub(crate) fn new(here: Locality, tls: Arc<ServerTls>, probe_all: bool) -> Self {
        let from = Vantage { here, ..Vantage::default() };
        let shared = Shared::new(probe_all);
        let (compiled, mutual) = (HashMap::new(), Vec::new());
        Self { from, tls, shared, compiled, stale: false, mutual }
    }

    /// How long connections to clusters take has become known, or has changed. Whether that
    /// may matter: then everything has to be looked at again.
    pub(crate) fn measured(&mut self, latencies: &BTreeMap<String, f64>) -> bool {
        let mut matters = false;
        for (cluster, latency) in latencies {
            let before = self.from.latencies.get(cluster);
            let same = before.is_some_and(|before| {
                let apart = (before - latency).abs();
                apart < 2.0 || apart < before.min(*latency) * 0.3
            });
            if !same {
                self.from.latencies.insert(cluster.clone(), *latency);
                matters = true;
            }
        }
        if matters {
            self.stale = true;
        }
        matters
    }

    /// The snapshot for these objects, and the addresses that have to be probed from now on.
    pub(crate) fn compile(&mut self, objects: &Objects) -> (Snapshot, Vec<Weak<Health>>) {
        let mut snapshot = Snapshot { made: Some(Instant::now()), ..Snapshot::default() };
        let mut still_used = Vec::new();
        let all = self.bring_up_to_date(objects);
        snapshot.routes.reserve(all.len());
        snapshot.certificates.reserve(all.len());
        snapshot.ingresses.reserve(all.len());
        for Compiled { ingress, hosts, problems, .. } in all.iter().map(Arc::as_ref) {
            snapshot.problems.extend(ingress.problems.iter().chain(problems).cloned());
            for host in hosts {
                if let Some(error) = snapshot.routes.add_host(host) {
                    snapshot.problems.push(format!("{}: {error}", ingress.label));
                }
            }
            for (hosts, certificate) in &ingress.certificates {
                for host in hosts {
                    snapshot.certificates.add(host, certificate);
                }
            }
            let Self { mutual, tls, .. } = self;
            add_client_authority(&mut snapshot, ingress, mutual, tls, &mut still_used);
            snapshot.ingresses.push(ingress.clone());
        }
        // After all rules, so that no default takes a path that somebody has a rule for.
        for compiled in &all {
            add_default(&mut snapshot, compiled);
        }
        self.mutual = still_used;
        (snapshot, self.shared.take_new_probes())
    }

    /// All roots in the order of their names, those that have changed compiled again.
    fn bring_up_to_date(&mut self, objects: &Objects) -> Vec<Arc<Compiled>> {
        let mut all = Vec::with_capacity(objects.ingresses.len());
        for (key, global) in &objects.ingresses {
            let before = self.compiled.get(key);
            if let Some(before) = before
                && is_current(&before.ingress, key, global, objects)
                && (!self.stale || is_planned_alike(&before.ingress, &self.from))
            {
                all.push(before.clone());
                continue;
            }
            let before = before.map(|before| &before.ingress);
            let ingress = self.shared.ingress(key, global, objects, before, &self.from);
            let compiled = Arc::new(Compiled::new(Arc::new(ingress)));
            self.compiled.insert(key.clone(), compiled.clone());
            all.push(compiled);
        }
        if self.compiled.len() > all.len() {
            self.compiled.retain(|key, _| objects.ingresses.contains_key(key));
        }
        self.stale = false;
        all
    }
}

fn is_current(before: &Ingress, key: &Key, global: &Arc<Global>, objects: &Objects) -> bool {
    let same_secret =
        |(name, used): &(String, Option<Arc<_>>)| match (used, objects.secret(&key.0, name)) {
            (Some(used), Some(found)) => Arc::ptr_eq(used, found) || used == found,
            (None, None) => true,
            _ => false,
        };
    (Arc::ptr_eq(&before.global, global) || before.global == *global)
        && before.secrets.iter().all(same_secret)
}

/// Whether what was measured since leaves every backend's targets in their order.
fn is_planned_alike(before: &Ingress, from: &Vantage) -> bool {
    let Global { backends, traffic, .. } = &*before.global;
    let mut both = backends.iter().zip(&before.backends);
    both.all(|(backend, made)| Plan::seen_from(backend, traffic, from) == made.plan)
}

impl Compiled {
    fn new(ingress: Arc<Ingress>) -> Self {
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
        Self { hosts, default, problems, ingress }
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

/// The default of a root is for the hosts that it names, and for all others if nobody else has
/// claimed them.
fn add_default(snapshot: &mut Snapshot, compiled: &Compiled) {
    let Compiled { ingress, default: Some(route), .. } = compiled else { return };
    for rule in ingress.global.rules.iter().filter(|rule| !rule.host.is_empty()) {
        // A rule for everything below the host is in the way, and rightly so.
        let _ = snapshot.routes.add(&rule.host, "/", PathType::Prefix, route.clone());
    }
    if !snapshot.routes.set_default(route.clone()) {
        let label = &ingress.label;
        snapshot.problems.push(format!("{label}: another object has the default backend"));
    }
}

fn add_client_authority(
    snapshot: &mut Snapshot,
    ingress: &Ingress,
    before: &[Mutual],
    tls: &ServerTls,
    used: &mut Vec<Mutual>,
) {
    let Some(authority) = &ingress.client_ca else { return };
    let known = used.iter().chain(before).find(|mutual| mutual.authority == *authority).cloned();
    let mutual = match known
        .map_or_else(|| tls.mutual(authority).map(Arc::new), |mutual| Ok(mutual.config))
    {
        Ok(config) => Mutual { config, authority: authority.clone() },
        Err(error) => {
            let label = &ingress.label;
            snapshot.problems.push(format!("{label}: clientCaSecret: {error}"));
            return;
        }
    };
    for rule in &ingress.global.rules {
        snapshot.certificates.require(&rule.host, &mutual);
    }
    used.push(mutual);
}
