//! One viewer's view, kept up to date with the viewer's own rights.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Event;
use kube::runtime::watcher::{self, Event as Change};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, Resource, ResourceExt};
use limen_api::{Cluster, Edge, GlobalIngress, TrafficPolicy};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use crate::view::{Objects, View};

/// Changes come in bursts; a view is sent at most so often.
const PACE: Duration = Duration::from_millis(250);
/// Rates move and edges fall silent without any object changing.
const AT_LEAST: Duration = Duration::from_secs(5);

/// What a viewer is sent.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Update {
    /// When it was made, in seconds since 1970.
    at: i64,
    view: View,
    /// What could not be read, and why: forbidden to this person, or the hub is away.
    missing: Vec<String>,
    /// Since when nothing at all could be read, in seconds since 1970: what is shown is that old.
    away_since: Option<i64>,
}

/// Objects of one kind, as they are now.
struct Listed<K> {
    objects: BTreeMap<String, K>,
    coming: BTreeMap<String, K>,
    loaded: bool,
    /// Why it is not known how they are now, and since when.
    trouble: Option<(String, i64)>,
}

impl<K> Default for Listed<K> {
    fn default() -> Self {
        let (objects, coming) = (BTreeMap::new(), BTreeMap::new());
        Self { objects, coming, loaded: false, trouble: None }
    }
}

impl<K: ResourceExt> Listed<K> {
    fn take(&mut self, change: Result<Change<K>, watcher::Error>) {
        let change = match change {
            Ok(change) => change,
            Err(error) => {
                let since = self.trouble.take().map_or_else(now, |(_, since)| since);
                self.trouble = Some((error.to_string(), since));
                return;
            }
        };
        self.trouble = None;
        let key = |object: &K| {
            format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
        };
        match change {
            Change::Init => self.coming.clear(),
            Change::InitApply(object) => drop(self.coming.insert(key(&object), object)),
            Change::InitDone => {
                self.objects = std::mem::take(&mut self.coming);
                self.loaded = true;
            }
            Change::Apply(object) => drop(self.objects.insert(key(&object), object)),
            Change::Delete(object) => drop(self.objects.remove(&key(&object))),
        }
    }

    fn settled(&self) -> bool {
        self.loaded || self.trouble.is_some()
    }

    fn complaint(&self, what: &str) -> Option<String> {
        self.trouble.as_ref().map(|(trouble, _)| format!("{what}: {trouble}"))
    }
}

type Changes<K> = BoxStream<'static, Result<Change<K>, watcher::Error>>;

fn changes<K>(client: &Client, config: watcher::Config) -> Changes<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    K::DynamicType: Eq + Hash,
{
    watch(Api::<K>::all(client.clone()), config).default_backoff().boxed()
}

/// Sends updates to a viewer for as long as they are received.
pub(crate) async fn follow(client: Client, send: mpsc::Sender<Update>) {
    let mut follow = Follow::new(&client);
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut due, mut last) = (true, Instant::now());
    loop {
        tokio::select! {
            () = follow.next() => due = true,
            () = send.closed() => return,
            _ = pace.tick() => {
                due |= last.elapsed() >= AT_LEAST;
                if !due || !follow.settled() {
                    continue;
                }
                (due, last) = (false, Instant::now());
                if send.send(follow.update(now())).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// The kinds that a view is made of.
struct Follow {
    clusters: Listed<Cluster>,
    edges: Listed<Edge>,
    globals: Listed<GlobalIngress>,
    policies: Listed<TrafficPolicy>,
    events: Listed<Event>,
    cluster_changes: Changes<Cluster>,
    edge_changes: Changes<Edge>,
    global_changes: Changes<GlobalIngress>,
    policy_changes: Changes<TrafficPolicy>,
    event_changes: Changes<Event>,
}

impl Follow {
    fn new(client: &Client) -> Self {
        let everything = watcher::Config::default;
        Self {
            clusters: Listed::default(),
            edges: Listed::default(),
            globals: Listed::default(),
            policies: Listed::default(),
            events: Listed::default(),
            cluster_changes: changes(client, everything()),
            edge_changes: changes(client, everything()),
            global_changes: changes(client, everything()),
            policy_changes: changes(client, everything()),
            event_changes: changes(client, everything().fields("source=limen")),
        }
    }

    /// Takes in one change.
    async fn next(&mut self) {
        tokio::select! {
            Some(change) = self.cluster_changes.next() => self.clusters.take(change),
            Some(change) = self.edge_changes.next() => self.edges.take(change),
            Some(change) = self.global_changes.next() => self.globals.take(change),
            Some(change) = self.policy_changes.next() => self.policies.take(change),
            Some(change) = self.event_changes.next() => self.events.take(change),
        }
    }

    fn settled(&self) -> bool {
        let settled = [self.clusters.settled(), self.edges.settled(), self.globals.settled()];
        settled == [true; 3] && self.policies.settled() && self.events.settled()
    }

    fn update(&self, at: i64) -> Update {
        let objects = Objects {
            clusters: self.clusters.objects.values().cloned().collect(),
            edges: self.edges.objects.values().cloned().collect(),
            globals: self.globals.objects.values().cloned().collect(),
            policies: self.policies.objects.values().cloned().collect(),
            events: self.events.objects.values().cloned().collect(),
        };
        let missing = [
            self.clusters.complaint("clusters"),
            self.edges.complaint("edges"),
            self.globals.complaint("global ingresses"),
            self.policies.complaint("traffic policies"),
            self.events.complaint("events"),
        ];
        let missing = missing.into_iter().flatten().collect();
        Update { at, view: View::new(&objects, at), missing, away_since: self.away_since() }
    }

    /// The newest of the times since when each kind cannot be read, if none can that could.
    fn away_since(&self) -> Option<i64> {
        fn since<K>(listed: &Listed<K>) -> Option<i64> {
            let trouble = listed.trouble.as_ref().filter(|_| listed.loaded);
            trouble.map(|(_, since)| *since)
        }
        let kinds = [
            since(&self.clusters),
            since(&self.edges),
            since(&self.globals),
            since(&self.policies),
            since(&self.events),
        ];
        kinds.into_iter().collect::<Option<Vec<i64>>>()?.into_iter().max()
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
