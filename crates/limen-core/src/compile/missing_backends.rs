//! Why nobody serves a backend, in words for whoever wonders.

use std::collections::BTreeMap;

/// What a cluster that holds a leaf lacks to serve a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Missing {
    /// The Service is there, and none of its pods is ready.
    Pods,
    /// The Service has no such port.
    Port,
    /// There is no such Service.
    Service,
}

/// Parts that clusters lack, by Service.
#[derive(Debug, Default)]
pub(super) struct MissingBackends(BTreeMap<(String, Missing), Vec<String>>);

impl MissingBackends {
    pub(super) fn note(
        &mut self,
        (namespace, name): &(String, String),
        missing: Missing,
        cluster: &str,
    ) {
        let service = format!("{namespace}/{name}");
        self.0.entry((service, missing)).or_default().push(cluster.to_owned());
    }

    /// The finding for a backend that nobody serves; nothing if nothing is known to be missing.
    pub(super) fn said(&self, backend: &str) -> Option<String> {
        let say = |((service, missing), clusters): (&(String, Missing), &Vec<String>)| {
            let clusters = clusters.join(", ");
            match missing {
                Missing::Pods => format!("no pod of the Service {service} is ready in {clusters}"),
                Missing::Port => format!("the Service {service} has no such port in {clusters}"),
                Missing::Service => format!("there is no Service {service} in {clusters}"),
            }
        };
        let said: Vec<String> = self.0.iter().map(say).collect();
        (!said.is_empty()).then(|| format!("nobody can serve {backend}: {}", said.join("; ")))
    }
}
