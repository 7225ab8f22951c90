//! What people ask of traffic: where it goes, and to take it away from a cluster.

use std::collections::BTreeMap;

use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use limen_api::{Cluster, ClusterSpec, Edge, GlobalIngress, error_text};
use limen_core::compile::{
    ExplainedRequest, NextDrain, Objection, Policy, explain_request, next_drain, objections,
    under_policy,
};
use limen_core::decide::Vantage;
use limen_core::edge::EdgeKind;
use limen_core::global::Global;
use limen_core::locality::Locality;
use serde_json::json;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The hub does not tell.
    #[error("cannot read {what} from the hub: {}", error_text(error))]
    Read {
        /// What.
        what: &'static str,
        /// Why not.
        error: kube::Error,
    },
    /// The hub does not take it.
    #[error("cannot change the cluster {cluster} on the hub: {}", error_text(error))]
    Write {
        /// The cluster.
        cluster: String,
        /// Why not.
        error: kube::Error,
    },
    /// No such cluster.
    #[error("no cluster {0} has joined; known are: {1}")]
    NoCluster(String, String),
    /// No such gateway.
    #[error("there is no gateway {0}; known are: {1}")]
    NoGateway(String, String),
    /// It would do harm.
    #[error("{0} must not be drained:{1}")]
    Refused(String, String),
}

/// How a cluster is to be drained.
#[derive(Clone, Debug)]
pub struct Drain {
    /// The cluster.
    pub cluster: String,
    /// In how many seconds; 0 is at once.
    pub over_seconds: u32,
    /// How many other clusters every backend must have left.
    pub keep: usize,
    /// Do it whatever speaks against it.
    pub force: bool,
    /// Only say what would be.
    pub dry_run: bool,
}

/// What a drain does.
#[derive(Clone, Debug, PartialEq)]
pub struct Drained {
    /// How it goes on from what the cluster was.
    pub next: NextDrain,
    /// Backends that the cluster serves.
    pub backends: usize,
    /// What speaks against it, if it was forced.
    pub objections: Vec<Objection>,
}

/// What the hub knows of traffic at one moment.
pub struct TrafficSnapshot {
    globals: BTreeMap<String, Global>,
    edges: BTreeMap<String, Edge>,
    clusters: BTreeMap<String, ClusterSpec>,
}

fn name_of(metadata: &kube::core::ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}

impl TrafficSnapshot {
    /// Reads it.
    pub async fn read(client: &Client) -> Result<Self, AskError> {
        let all = ListParams::default();
        let read = |what| move |error| AskError::Read { what, error };
        let globals: Api<GlobalIngress> = Api::all(client.clone());
        let globals = globals.list(&all).await.map_err(read("GlobalIngress objects"))?;
        let edges: Api<Edge> = Api::all(client.clone());
        let edges = edges.list(&all).await.map_err(read("Edge objects"))?;
        let clusters: Api<Cluster> = Api::all(client.clone());
        let clusters = clusters.list(&all).await.map_err(read("Cluster objects"))?;
        let key = |global: &GlobalIngress| {
            let namespace = global.metadata.namespace.clone().unwrap_or_default();
            format!("{namespace}/{}", name_of(&global.metadata))
        };
        Ok(Self {
            globals: globals.into_iter().map(|one| (key(&one), one.spec.global)).collect(),
            edges: edges.into_iter().map(|edge| (name_of(&edge.metadata), edge)).collect(),
            clusters: clusters.into_iter().map(|one| (name_of(&one.metadata), one.spec)).collect(),
        })
    }

    /// Requests in a second that clients want over all edges, by GlobalIngress and backend.
    fn demand(&self) -> BTreeMap<(String, String), f64> {
        let mut found = BTreeMap::new();
        let time = limen_sync::clock::now_seconds();
        let fresh = self.edges.values().filter(|edge| edge.heard(time).is_fresh(time));
        for report in fresh.filter_map(|edge| edge.status.as_ref()) {
            for demand in &report.demand {
                let key = (demand.global_ingress.clone(), demand.backend.clone());
                *found.entry(key).or_default() += demand.requests_per_second;
            }
        }
        found
    }

    /// The place that a client's requests come in: a gateway by name, or the one in the client's
    /// region, or any, or the client's own region when there are none.
    pub fn vantage(
        &self,
        at: Option<&str>,
        places: &[&str],
    ) -> Result<(Option<String>, Vantage), AskError> {
        let gateways = || self.edges.iter().filter(|(_, edge)| edge.spec.kind == EdgeKind::Gateway);
        let near = |edge: &Edge| {
            edge.spec.locality.region.as_deref().is_some_and(|region| places.contains(&region))
        };
        let chosen = match at {
            Some(name) => {
                let known =
                    || gateways().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
                let found = gateways().find(|(other, _)| *other == name);
                Some(found.ok_or_else(|| AskError::NoGateway(name.to_owned(), known()))?)
            }
            None => gateways().find(|(_, edge)| near(edge)).or_else(|| gateways().next()),
        };
        let Some((name, edge)) = chosen else {
            let region = places.first().map(|place| (*place).to_owned());
            let here = Locality { region, ..Locality::default() };
            return Ok((None, Vantage { here, ..Vantage::default() }));
        };
        let mut latencies = BTreeMap::new();
        for target in edge.status.iter().flat_map(|status| &status.targets) {
            if let Some(latency) = target.latency_milliseconds {
                let known = latencies.entry(target.cluster.clone()).or_insert(latency);
                *known = f64::min(*known, latency);
            }
        }
        Ok((Some(name.clone()), Vantage { here: edge.spec.locality.clone(), latencies }))
    }

    /// Where a client would be sent; nothing if nobody serves what it asks for.
    pub fn ask(
        &self,
        what: (&str, &str),
        client: &[&str],
        from: &Vantage,
    ) -> Option<ExplainedRequest> {
        let demand = self.demand();
        let wanted = |global: &str, backend: &str| {
            demand.get(&(global.to_owned(), backend.to_owned())).copied().unwrap_or(0.0)
        };
        let globals = self.globals.iter().map(|(name, global)| (name.as_str(), global));
        explain_request(globals, what, client, from, wanted)
    }

    /// The paths that are served of a host.
    pub fn paths_of(&self, host: &str) -> Vec<&str> {
        let rules = self.globals.values().flat_map(|global| &global.rules);
        let here = rules.filter(|rule| rule.host.eq_ignore_ascii_case(host));
        here.flat_map(|rule| &rule.paths).map(|path| path.path.as_str()).collect()
    }

    /// The same with one compiled root under another policy.
    pub fn with_policy(mut self, name: &str, policy: &Policy) -> Result<Self, String> {
        policy
            .check(self.clusters.keys().map(String::as_str))
            .map_err(|error| error.to_string())?;
        if let Some(global) = self.globals.get_mut(name) {
            *global = under_policy(global, policy)?;
        }
        Ok(self)
    }
}

/// Takes traffic away from a cluster, unless that would do harm. A cluster that has lost some
/// already never gets it back by this.
pub async fn drain(client: &Client, options: &Drain) -> Result<Drained, AskError> {
    let picture = TrafficSnapshot::read(client).await?;
    let name = &options.cluster;
    let Some(cluster) = picture.clusters.get(name) else {
        let known: Vec<_> = picture.clusters.keys().map(String::as_str).collect();
        return Err(AskError::NoCluster(name.clone(), known.join(", ")));
    };
    let globals = || picture.globals.iter().map(|(name, global)| (name.clone(), global));
    let objections = objections(globals(), name, options.keep, &picture.demand());
    if !objections.is_empty() && !options.force {
        let shown = objections.iter().take(10).map(|objection| format!("\n  {objection}"));
        let mut text: String = shown.collect();
        if objections.len() > 10 {
            text.push_str(&format!("\n  and {} more", objections.len() - 10));
        }
        return Err(AskError::Refused(name.clone(), text));
    }
    let serves = |global: &Global| {
        let of = |backend: &&limen_core::global::Backend| {
            backend.targets.iter().any(|target| target.cluster == *name)
        };
        global.backends.iter().filter(of).count()
    };
    let backends = globals().map(|(_, global)| serves(global)).sum();
    let schedule = cluster.drain_schedule.map(|plan| (plan.started_at, plan.over_seconds));
    let next =
        next_drain(cluster.drain, schedule, options.over_seconds, limen_sync::clock::now_seconds());
    if let (NextDrain::Schedule(schedule), false) = (next, options.dry_run) {
        let schedule = schedule
            .map(|(started_at, over)| json!({"startedAt": started_at, "overSeconds": over}));
        patch(client, name, &json!({"spec": {"drain": true, "drainSchedule": schedule}})).await?;
    }
    Ok(Drained { next, backends, objections })
}

/// Gives traffic back to a cluster.
pub async fn undrain(client: &Client, cluster: &str) -> Result<(), AskError> {
    patch(client, cluster, &json!({"spec": {"drain": null, "drainSchedule": null}})).await
}

async fn patch(client: &Client, name: &str, patch: &serde_json::Value) -> Result<(), AskError> {
    let clusters: Api<Cluster> = Api::all(client.clone());
    let patched = clusters.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    let failed = |error| AskError::Write { cluster: name.to_owned(), error };
    patched.map(drop).map_err(failed)
}
