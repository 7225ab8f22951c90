//! From a root, its policy and what members hold to the form that edges obey.
//!
//! ```text
//! Ingress ──────────┐
//! FederatedIngress ─┼─► Root ─┐
//!                             │
//! TrafficPolicy ────► Policy ─┼─ compile ──► Global ──► edges
//!                             │                │
//! Services, EndpointSlices, ──┴─► Member       └─► the next compile's `before`
//! Ingresses, Nodes of a member
//! ```
//!
//! A `Global` comes into being when a first target is ready, and is never emptied after that: a
//! member that cannot be reached keeps the targets that were last known, and when the last target
//! of a backend would go it stays, drained, because a bad way in is better than none.
//!
//! The result depends on what is known and not on the order in which it became known.

mod answers;
mod canary;
mod certificate_hosts;
mod drain;
mod edge_liveness;
mod endpoint_totals;
mod explain_request;
mod findings;
mod hosts;
mod losses;
mod member;
mod missing_backends;
mod observed;
mod policy;
mod precedence;
mod proof;
mod quorum;
mod root;
mod targets;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::global::{Backend, Global, Target, Verdict};

pub use answers::Answers;
pub use canary::{Figures, Phase, Progress, Trial};
pub use drain::{NextDrain, Objection, Reason, drained_percent, next_drain, objections};
pub use edge_liveness::EdgeLiveness;
pub use endpoint_totals::EndpointTotals;
pub use explain_request::{ExplainedRequest, explain_request, under_policy};
pub use findings::{Findings, ODD_FOR};
pub use hosts::{Claim, Claims, Denied, Standing, generated_host};
pub use member::{Digest, Member, ObservedKind, Touched};
pub use observed::{Key, Node, ObservedIngress, ObservedService, ServiceKind, ServicePort, Slice};
pub use policy::{Capacity, Group, Policy, PolicyProblem, TargetReference, Weights};
pub use precedence::{PolicyCandidate, conflicting_policy, governing_policy};
pub use proof::{Proof, Proofs, Unproven};
pub use quorum::{TargetAddress, quorum, reachable, remember};
pub use root::{BackendSource, HOST_ANNOTATION, Listed, ListedObject, PortName, Root, RootError};

/// All members, by name.
pub type Members = BTreeMap<Arc<str>, Member>;

/// What a root compiles to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compiled {
    /// What edges obey; nothing while no target has ever been ready.
    pub global: Option<Global>,
    /// What a person should know if it lasts: members that have endpoints and no way in, and the
    /// like.
    pub findings: Vec<String>,
}

/// Compiles one root. `before` is what it compiled to last; `canary` the share, in percent, that
/// the policy's canary has reached; `now` is in seconds since 1970.
pub fn compile(
    root: &Root,
    policy: &Policy,
    canary: Option<u8>,
    members: &Members,
    before: Option<&Global>,
    now: i64,
) -> Compiled {
    let mut findings = Vec::new();
    let mut backends = Vec::with_capacity(root.backends.len());
    for (name, source) in &root.backends {
        let old = before.and_then(|before| find(&before.backends, name));
        let old: &[Target] = old.map_or(&[], |backend| &backend.targets);
        let (found, lacking) =
            targets::of_backend(root, policy, source, members, old, now, &mut findings);
        if !found.iter().any(is_ready) {
            findings.extend(lacking.said(name));
        }
        backends.push(Backend { name: name.clone(), targets: found });
    }
    let ready = backends.iter().flat_map(|backend| &backend.targets).any(is_ready);
    if before.is_none() && !ready {
        return Compiled { global: None, findings };
    }
    let mut traffic = policy.rules(canary);
    if traffic.split.is_none() {
        traffic.split = root.own_split();
    }
    let client = match &policy.client {
        Some(client) => crate::global::ClientRules {
            redirect_to_https: client.redirect_to_https.or(root.client.redirect_to_https),
            ..client.clone()
        },
        None => root.client.clone(),
    };
    let global = Global {
        root: Some(root.reference.clone()),
        rules: root.rules.clone(),
        default_backend: root.default_backend.clone(),
        tls: root.tls.clone(),
        backends,
        client,
        traffic,
    };
    Compiled { global: Some(global), findings }
}

fn find<'a>(backends: &'a [Backend], name: &str) -> Option<&'a Backend> {
    backends.iter().find(|backend| backend.name == name)
}

/// Whether requests can go there, as far as the hub can tell.
pub fn is_ready(target: &Target) -> bool {
    !target.addresses.is_empty()
        && target.ready_endpoints != Some(0)
        && target.verdicts.endpoints != Verdict::Unhealthy
}
