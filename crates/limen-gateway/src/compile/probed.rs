//! Which clusters lead to which probed addresses, however many backends do.

use std::collections::HashMap;
use std::sync::Arc;

use crate::health::Health;
use crate::snapshot::Ingress;

/// Probed addresses by cluster, each once, with how many lead there.
#[derive(Default)]
pub(crate) struct Probed(HashMap<Way, (Arc<Health>, usize)>);

/// A cluster, and where in memory what is known of an address is.
type Way = (String, usize);

impl Probed {
    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Health)> {
        self.0.iter().map(|((cluster, _), (health, _))| (cluster.as_str(), health.as_ref()))
    }

    pub(super) fn add(&mut self, ingress: &Ingress) {
        for (cluster, health) in ways(ingress) {
            let way = (cluster.clone(), Arc::as_ptr(health) as usize);
            self.0.entry(way).or_insert_with(|| (health.clone(), 0)).1 += 1;
        }
    }

    pub(super) fn remove(&mut self, ingress: &Ingress) {
        for (cluster, health) in ways(ingress) {
            let way = (cluster.clone(), Arc::as_ptr(health) as usize);
            let Some((_, count)) = self.0.get_mut(&way) else { continue };
            *count -= 1;
            if *count == 0 {
                self.0.remove(&way);
            }
        }
    }
}

fn ways(ingress: &Ingress) -> impl Iterator<Item = (&String, &Arc<Health>)> {
    let targets = ingress.backends.iter().flat_map(|backend| &backend.targets);
    targets.flat_map(|target| {
        let known = target.addresses.iter().filter_map(|address| address.health.as_ref());
        known.map(|health| (&target.target.cluster, health))
    })
}
