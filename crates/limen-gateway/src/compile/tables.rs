//! Compiled roots to the tables of a snapshot.
//!
//! ```text
//! a root comes, changes or goes ─► claims: who wants which place ─► what was touched is made again
//! ```
//!
//! Of those that claim the same path or the same name, the first in the order of keys has it. The
//! tables are copied into every snapshot, which shares with the one before all that is the same.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use limen_core::route::{Place, PlaceClaim, Routes, Shelves};

use super::{Compiled, Probed};
use crate::snapshot::{Ingress, Route, Snapshot};
use crate::tls::{Certificates, Mutual, ServerTls};
use limen_api::source::Key;

/// What goes into snapshots, and who is behind it.
#[derive(Default)]
pub(super) struct Tables {
    routes: Routes<Arc<Route>>,
    certificates: Certificates,
    ingresses: Shelves<Arc<Ingress>>,
    rules: Claims<Place>,
    names: Claims<Arc<str>>,
    /// Those that have something for requests that no rule matches.
    defaults: BTreeMap<Key, Arc<Compiled>>,
    /// Those whose clients must show a certificate.
    authorities: BTreeMap<Key, Arc<Compiled>>,
    /// Those that something is wrong with.
    troubled: BTreeMap<Key, Arc<Compiled>>,
    /// What was refused because somebody else had it.
    taken: BTreeMap<Place, Vec<String>>,
    mutual: Vec<Mutual>,
    probed: Probed,
}

/// Who claims what: roots, each with the number of its rule or certificate, in the order of their
/// keys.
struct Claims<P> {
    by: HashMap<P, Vec<(Arc<Compiled>, usize)>>,
    touched: HashSet<P>,
}

impl<P> Default for Claims<P> {
    fn default() -> Self {
        Self { by: HashMap::new(), touched: HashSet::new() }
    }
}

impl<P: Hash + Eq + Clone> Claims<P> {
    fn leave(&mut self, place: &P, root: &Compiled) {
        self.touched.insert(place.clone());
        if let Some(all) = self.by.get_mut(place) {
            all.retain(|(other, _)| other.key != root.key);
            if all.is_empty() {
                self.by.remove(place);
            }
        }
    }

    fn claim(&mut self, place: &P, root: &Arc<Compiled>, number: usize) {
        self.touched.insert(place.clone());
        let all = self.by.entry(place.clone()).or_default();
        let at =
            all.partition_point(|(other, earlier)| (&other.key, *earlier) < (&root.key, number));
        all.insert(at, (root.clone(), number));
    }

    fn of(&self, place: &P) -> &[(Arc<Compiled>, usize)] {
        self.by.get(place).map_or(&[], Vec::as_slice)
    }
}

impl Tables {
    /// A root goes.
    pub(super) fn remove(&mut self, root: &Compiled) {
        root.hosts.iter().for_each(|host| self.rules.leave(host.place(), root));
        root.ingress.names().for_each(|(_, name)| self.names.leave(name, root));
        self.ingresses.remove(&root.ingress.label);
        self.probed.remove(&root.ingress);
        for roots in [&mut self.defaults, &mut self.authorities, &mut self.troubled] {
            roots.remove(&root.key);
        }
    }

    /// A root comes.
    pub(super) fn insert(&mut self, root: &Arc<Compiled>) {
        let ingress = &root.ingress;
        for (number, host) in root.hosts.iter().enumerate() {
            self.rules.claim(host.place(), root, number);
        }
        for (number, name) in ingress.names() {
            self.names.claim(name, root, number);
        }
        self.ingresses.insert(ingress.label.as_str().into(), ingress.clone());
        self.probed.add(ingress);
        let troubled = !root.problems.is_empty() || !ingress.problems.is_empty();
        for (roots, is_one) in [
            (&mut self.defaults, root.default.is_some()),
            (&mut self.authorities, ingress.client_ca.is_some()),
            (&mut self.troubled, troubled),
        ] {
            if is_one {
                roots.insert(root.key.clone(), root.clone());
            }
        }
    }

    /// The probed addresses of all roots.
    pub(super) fn probed(&self) -> &Probed {
        &self.probed
    }

    /// Everything as it is now.
    pub(super) fn snapshot(&mut self, tls: &ServerTls) -> Snapshot {
        for place in std::mem::take(&mut self.rules.touched) {
            self.settle_rules(place);
        }
        for name in std::mem::take(&mut self.names.touched) {
            let first = self.names.of(&name).first();
            let key = first.map(|(root, number)| &root.ingress.certificates[*number].1);
            self.certificates.set(&name, key);
        }
        let default = self.defaults.values().next();
        self.routes.replace_default(default.and_then(|root| root.default.clone()));
        let mut problems: Vec<String> = Vec::new();
        for root in self.troubled.values() {
            problems.extend(root.ingress.problems.iter().chain(&root.problems).cloned());
        }
        problems.extend(self.taken.values().flatten().cloned());
        self.settle_authorities(tls, &mut problems);
        for root in self.defaults.values().skip(1) {
            let label = &root.ingress.label;
            problems.push(format!("{label}: another object has the default backend"));
        }
        Snapshot {
            routes: self.routes.clone(),
            ingresses: self.ingresses.clone(),
            certificates: self.certificates.clone(),
            problems,
            made: Some(std::time::Instant::now()),
        }
    }

    fn settle_rules(&mut self, place: Place) {
        let claims = self.rules.of(&place);
        let claimed = claims.iter().map(|(root, number)| PlaceClaim {
            rules: &root.hosts[*number],
            default: root.default.as_ref(),
        });
        let wrong = self.routes.settle(&place, &claimed.collect::<Vec<_>>());
        let said = wrong.into_iter().filter_map(|(number, error)| {
            let (root, _) = claims.get(number)?;
            Some(format!("{}: {error}", root.ingress.label))
        });
        let said: Vec<_> = said.collect();
        if said.is_empty() {
            self.taken.remove(&place);
        } else {
            self.taken.insert(place, said);
        }
    }

    fn settle_authorities(&mut self, tls: &ServerTls, problems: &mut Vec<String>) {
        self.certificates.require_none();
        let before = std::mem::take(&mut self.mutual);
        for ingress in self.authorities.values().map(|root| &root.ingress) {
            let Some(authority) = &ingress.client_ca else { continue };
            let known = self.mutual.iter().chain(&before);
            let known = known.into_iter().find(|mutual| mutual.authority == *authority).cloned();
            let made = known.map_or_else(
                || {
                    let config = Arc::new(tls.mutual(authority)?);
                    Ok(Mutual { config, authority: authority.clone() })
                },
                Ok::<_, crate::tls::CertificateError>,
            );
            match made {
                Ok(mutual) => {
                    for rule in &ingress.global.rules {
                        self.certificates.require(&rule.host, &mutual);
                    }
                    self.mutual.push(mutual);
                }
                Err(error) => {
                    let label = &ingress.label;
                    problems.push(format!("{label}: clientCaSecret: {error}"));
                }
            }
        }
    }
}
