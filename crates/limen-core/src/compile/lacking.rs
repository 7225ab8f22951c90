//! Why nobody serves a backend, in words for whoever wonders.

use std::collections::BTreeMap;

/// What a cluster that holds a leaf lacks to serve a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lack {
    /// The Service is there, and none of its pods is ready.
    Pods,
    /// The Service has no such port.
    Port,
    /// There is no such Service.
    Service,
}

/// What clusters lack, by Service.
#[derive(Debug, Default)]
pub(super) struct Lacking(BTreeMap<(String, Lack), Vec<String>>);

impl Lacking {
    pub(super) fn note(&mut self, (namespace, name): &(String, String), lack: Lack, cluster: &str) {
        let service = format!("{namespace}/{name}");
        self.0.entry((service, lack)).or_default().push(cluster.to_owned());
    }

    /// What to say of a backend that nobody serves; nothing if nothing is known to be lacking.
    pub(super) fn said(&self, backend: &str) -> Option<String> {
        let say = |((service, lack), clusters): (&(String, Lack), &Vec<String>)| {
            let clusters = clusters.join(", ");
            match lack {
                Lack::Pods => format!("no pod of the Service {service} is ready in {clusters}"),
                Lack::Port => format!("the Service {service} has no such port in {clusters}"),
                Lack::Service => format!("there is no Service {service} in {clusters}"),
            }
        };
        let said: Vec<String> = self.0.iter().map(say).collect();
        (!said.is_empty()).then(|| format!("nobody can serve {backend}: {}", said.join("; ")))
    }
}
