//! How a person wants traffic to a root to be shared: the spec of a `TrafficPolicy`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::global::{
    Affinity, ClientRules, DnsRules, HeaderMatch, HealthCheck, Mirror, Outliers, Residency,
    Retries, Split, Timeouts, TrafficRules, UpstreamTls, is_default,
};

use super::canary::Trial;

/// How traffic to a root is shared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// The root; left out, every root of the namespace that no other policy names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetReference>,
    /// Version groups, for weights, canaries and blue/green.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map"))]
    #[schemars(extend("x-kubernetes-list-map-keys" = ["name"]))]
    pub groups: Vec<Group>,
    /// Exact shares, whatever the geography.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Weights>,
    /// Keep groups and clusters of weight 0 without traffic even when no weighted one is ready.
    /// By default they serve before any target that is less ready.
    #[serde(default, skip_serializing_if = "is_default")]
    pub strict: bool,
    /// Requests with such a header or cookie go to a group whatever the weights say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub matches: Vec<HeaderMatch>,
    /// Keep a client with the group it was given first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sticky: bool,
    /// A group that gets more and more for as long as it does well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Trial>,
    /// The one group that gets everything; changed back as quickly as it was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_group: Option<String>,
    /// Clusters in the order in which they take over, in place of the nearest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "set"))]
    pub failover: Vec<String>,
    /// How much clusters can take; what is more goes to the next nearest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// Which clients may be served where.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub residency: Vec<Residency>,
    /// Send some requests to a second place as well, whose answers nobody sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<Mirror>,
    /// When fewer than this share of clusters, in percent, are ready, health is not believed and
    /// all of them are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100))]
    pub panic_percent: Option<u8>,
    /// What keeps a client with its target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// How edges find out whether a target is well. Without it gateways try to connect every few
    /// seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
    /// When a failing address is left alone for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outliers: Option<Outliers>,
    /// What is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<Retries>,
    /// How long anything may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Timeouts>,
    /// How targets that speak TLS are verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_tls: Option<UpstreamTls>,
    /// Connections that one edge may have open to one address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
    /// For how long an address that has become well gets less than its share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_start_seconds: Option<u32>,
    /// How DNS servers answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsRules>,
    /// How clients are met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientRules>,
}

/// A root in the namespace of the policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetReference {
    /// `Ingress` or `FederatedIngress`.
    #[serde(default = "ingress")]
    pub kind: String,
    /// Its name.
    pub name: String,
}

fn ingress() -> String {
    "Ingress".to_owned()
}

/// Targets that run the same version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// What weights call it: `v2`.
    pub name: String,
    /// The clusters that run it; none means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub clusters: Vec<String>,
    /// The Service that runs it, where it is another than the root names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

/// Exact shares. What is not named has weight 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Weights {
    /// By cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub clusters: BTreeMap<String, u32>,
    /// By version group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub groups: BTreeMap<String, u32>,
}

/// How much clusters can take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    /// Requests in a second that one ready endpoint can take, unless its Service says otherwise
    /// with the annotation `limen.dev/requests-per-endpoint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_endpoint: Option<f64>,
    /// Requests in a second that a whole cluster can take, whatever its endpoints.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub clusters: BTreeMap<String, f64>,
}

/// Why a policy cannot be in force.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PolicyProblem {
    /// A cluster that has not joined.
    #[error("{field} names the cluster {name}, which has not joined; known are: {known}")]
    UnknownCluster {
        /// Where it is named.
        field: &'static str,
        /// The name.
        name: String,
        /// All that have joined.
        known: String,
    },
    /// A group that nothing belongs to.
    #[error("{field} names the group {name}, which spec.groups does not")]
    UnknownGroup {
        /// Where it is named.
        field: &'static str,
        /// The name.
        name: String,
    },
    /// Weights that add up to nothing.
    #[error("the weights in {0} are all zero; one of them must get something")]
    AllZero(&'static str),
    /// Several ways to share that contradict each other.
    #[error(
        "give only one of weights.groups, canary and activeGroup: each says which group gets how much"
    )]
    SeveralShares,
    /// The same twice.
    #[error("{field} names {name} twice")]
    Twice {
        /// Where.
        field: &'static str,
        /// What.
        name: String,
    },
    /// One cluster's endpoints in two groups.
    #[error(
        "cluster {cluster} is in the groups {one} and {other} with the same Service; give one of them a service of its own"
    )]
    TwoGroups {
        /// The cluster.
        cluster: String,
        /// One group.
        one: String,
        /// The other.
        other: String,
    },
    /// A canary that does not get anywhere.
    #[error("canary.steps must rise from step to step, within 1 and 100")]
    Steps,
    /// A figure that cannot be.
    #[error("{0} must be more than zero")]
    NotPositive(&'static str),
}

impl Policy {
    /// The groups that a cluster runs.
    pub(super) fn groups_of(&self, cluster: &str) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(move |group| {
            group.clusters.is_empty() || group.clusters.iter().any(|name| name == cluster)
        })
    }

    /// Whether it can be in force, given the clusters that have joined.
    pub fn check<'a>(&self, clusters: impl Iterator<Item = &'a str>) -> Result<(), PolicyProblem> {
        self.check_clusters(&clusters.collect())?;
        self.check_groups()?;
        let shares = [
            self.weights.as_ref().is_some_and(|weights| !weights.groups.is_empty()),
            self.canary.is_some(),
            self.active_group.is_some(),
        ];
        if shares.iter().filter(|given| **given).count() > 1 {
            return Err(PolicyProblem::SeveralShares);
        }
        if let Some(weights) = &self.weights {
            let zero = |weights: &BTreeMap<String, u32>| {
                !weights.is_empty() && weights.values().all(|weight| *weight == 0)
            };
            if zero(&weights.clusters) {
                return Err(PolicyProblem::AllZero("weights.clusters"));
            }
            if zero(&weights.groups) {
                return Err(PolicyProblem::AllZero("weights.groups"));
            }
        }
        if let Some(trial) = &self.canary
            && !trial.rises()
        {
            return Err(PolicyProblem::Steps);
        }
        let positive = |value: f64| value.is_finite() && value > 0.0;
        match &self.capacity {
            Some(capacity)
                if capacity.requests_per_endpoint.is_some_and(|rate| !positive(rate)) =>
            {
                Err(PolicyProblem::NotPositive("capacity.requestsPerEndpoint"))
            }
            Some(capacity) if !capacity.clusters.values().all(|rate| positive(*rate)) => {
                Err(PolicyProblem::NotPositive("capacity.clusters"))
            }
            _ => Ok(()),
        }
    }

    fn check_clusters(&self, known: &BTreeSet<&str>) -> Result<(), PolicyProblem> {
        let weights = self.weights.iter().flat_map(|weights| weights.clusters.keys());
        let capacities = self.capacity.iter().flat_map(|capacity| capacity.clusters.keys());
        let named = weights
            .map(|name| ("weights.clusters", name))
            .chain(self.failover.iter().map(|name| ("failover", name)))
            .chain(capacities.map(|name| ("capacity.clusters", name)))
            .chain(
                self.groups.iter().flat_map(|group| &group.clusters).map(|name| ("groups", name)),
            );
        for (field, name) in named {
            if !known.contains(name.as_str()) {
                let known: Vec<_> = known.iter().copied().take(20).collect();
                return Err(PolicyProblem::UnknownCluster {
                    field,
                    name: name.clone(),
                    known: known.join(", "),
                });
            }
        }
        let mut seen = BTreeSet::new();
        match self.failover.iter().find(|name| !seen.insert(*name)) {
            Some(name) => Err(PolicyProblem::Twice { field: "failover", name: name.clone() }),
            None => Ok(()),
        }
    }

    fn check_groups(&self) -> Result<(), PolicyProblem> {
        for (index, group) in self.groups.iter().enumerate() {
            for other in &self.groups[..index] {
                if other.name == group.name {
                    return Err(PolicyProblem::Twice { field: "groups", name: group.name.clone() });
                }
                let everywhere = group.clusters.is_empty() || other.clusters.is_empty();
                let common = group.clusters.iter().find(|name| other.clusters.contains(name));
                if other.service == group.service && (everywhere || common.is_some()) {
                    return Err(PolicyProblem::TwoGroups {
                        cluster: common.map_or("(each)", String::as_str).to_owned(),
                        one: other.name.clone(),
                        other: group.name.clone(),
                    });
                }
            }
        }
        // Groups may also be named by the Services of members, and then any name can be meant.
        if self.groups.is_empty() {
            return Ok(());
        }
        let weights = self.weights.iter().flat_map(|weights| weights.groups.keys());
        let named = weights
            .map(|name| ("weights.groups", name))
            .chain(self.canary.iter().map(|trial| ("canary", &trial.group)))
            .chain(self.active_group.iter().map(|name| ("activeGroup", name)))
            .chain(self.mirror.iter().filter_map(|mirror| Some(("mirror", mirror.group.as_ref()?))))
            .chain(self.matches.iter().map(|found| ("matches", &found.group)));
        for (field, name) in named {
            if !self.groups.iter().any(|group| group.name == *name) {
                return Err(PolicyProblem::UnknownGroup { field, name: name.clone() });
            }
        }
        Ok(())
    }

    /// The rules that edges obey, with a canary that has reached this share.
    pub fn rules(&self, canary: Option<u8>) -> TrafficRules {
        TrafficRules {
            split: self.split(canary),
            strict: self.strict,
            requests_per_endpoint: self
                .capacity
                .as_ref()
                .and_then(|capacity| capacity.requests_per_endpoint),
            failover: self.failover.clone(),
            residency: self.residency.clone(),
            mirror: self.mirror.clone(),
            panic_percent: self.panic_percent,
            affinity: self.affinity.clone(),
            health_check: self.health_check.clone(),
            outliers: self.outliers.clone(),
            retries: self.retries.clone(),
            timeouts: self.timeouts.clone(),
            upstream_tls: self.upstream_tls.clone(),
            max_connections: self.max_connections,
            slow_start_seconds: self.slow_start_seconds,
            dns: self.dns.clone(),
        }
    }

    fn split(&self, canary: Option<u8>) -> Option<Split> {
        let weights = self.weights.clone().unwrap_or_default();
        let groups = match (&self.canary, &self.active_group) {
            (Some(trial), _) => {
                trial.weights(self.groups.iter().map(|group| &group.name), canary.unwrap_or(0))
            }
            (None, Some(active)) => BTreeMap::from([(active.clone(), 100)]),
            (None, None) => weights.groups,
        };
        let split = Split {
            groups,
            clusters: weights.clusters,
            matches: self.matches.clone(),
            sticky: self.sticky,
        };
        (split != Split::default()).then_some(split)
    }
}
