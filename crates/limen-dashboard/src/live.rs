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
use limen_api::{Cluster, Edge, FederatedStatus, GlobalIngress, TrafficPolicy, error_text};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use crate::answer::status_of;
use crate::sessions::{Stay, Viewer};
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
    /// The hub does not know the viewer any more: they have to log in again.
    unknown: bool,
}

/// Objects of one kind, as they are now.
struct Listed<K> {
    objects: BTreeMap<String, K>,
    coming: BTreeMap<String, K>,
    loaded: bool,
    trouble: Option<Trouble>,
}

/// Why it is not known how things are now.
struct Trouble {
    why: String,
    since: i64,
    /// The hub does not know who asks.
    unknown: bool,
}

impl Trouble {
    fn new(error: &watcher::Error, since: i64) -> Self {
        use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
        let (why, code) = match error {
            InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => {
                (error_text(error), status_of(error).as_u16())
            }
            WatchError(status) => (status.message.clone(), status.code),
            other => (other.to_string(), 0),
        };
        Self { why, since, unknown: code == 401 }
    }
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
                let since = self.trouble.take().map_or_else(now, |trouble| trouble.since);
                self.trouble = Some(Trouble::new(&error, since));
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
        self.trouble.as_ref().map(|trouble| format!("{what}: {}", trouble.why))
    }

    fn unknown(&self) -> bool {
        self.trouble.as_ref().is_some_and(|trouble| trouble.unknown)
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

/// Sends updates to a viewer for as long as they are received and the viewer stays logged in.
pub(crate) async fn follow(viewer: Viewer, mut stay: Stay, send: mpsc::Sender<Update>) {
    tokio::select! {
        () = stay.over() => {}
        () = send_updates(&viewer, &send) => {}
    }
}

async fn send_updates(viewer: &Viewer, send: &mpsc::Sender<Update>) {
    let mut follow = Follow::new(viewer);
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut due, mut last) = (true, Instant::now());
    loop {
        tokio::select! {
            () = follow.next() => due = true,
            () = send.closed() => return,
            _ = pace.tick() => {
                due |= last.elapsed() >= AT_LEAST;
                let ready = due && follow.settled();
                if !ready && !viewer.ended(now()) {
                    continue;
                }
                (due, last) = (false, Instant::now());
                let update = follow.update(now());
                let unknown = update.unknown;
                if send.send(update).await.is_err() || unknown {
                    return;
                }
            }
        }
    }
}

/// The kinds that a view is made of.
struct Follow {
    viewer: Viewer,
    clusters: Listed<Cluster>,
    edges: Listed<Edge>,
    globals: Listed<GlobalIngress>,
    policies: Listed<TrafficPolicy>,
    records: Listed<FederatedStatus>,
    events: Listed<Event>,
    cluster_changes: Changes<Cluster>,
    edge_changes: Changes<Edge>,
    global_changes: Changes<GlobalIngress>,
    policy_changes: Changes<TrafficPolicy>,
    record_changes: Changes<FederatedStatus>,
    event_changes: Changes<Event>,
}

impl Follow {
    fn new(viewer: &Viewer) -> Self {
        let (client, everything) = (&viewer.client, watcher::Config::default);
        Self {
            viewer: viewer.clone(),
            clusters: Listed::default(),
            edges: Listed::default(),
            globals: Listed::default(),
            policies: Listed::default(),
            records: Listed::default(),
            events: Listed::default(),
            cluster_changes: changes(client, everything()),
            edge_changes: changes(client, everything()),
            global_changes: changes(client, everything()),
            policy_changes: changes(client, everything()),
            record_changes: changes(client, everything()),
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
            Some(change) = self.record_changes.next() => self.records.take(change),
            Some(change) = self.event_changes.next() => self.events.take(change),
        }
    }

    fn settled(&self) -> bool {
        self.clusters.settled()
            && self.edges.settled()
            && self.globals.settled()
            && self.policies.settled()
            && self.records.settled()
            && self.events.settled()
    }

    fn update(&self, at: i64) -> Update {
        let objects = Objects {
            clusters: self.clusters.objects.values().collect(),
            edges: self.edges.objects.values().collect(),
            globals: self.globals.objects.values().collect(),
            policies: self.policies.objects.values().collect(),
            records: self.records.objects.values().collect(),
            events: self.events.objects.values().collect(),
        };
        let missing = [
            self.clusters.complaint("clusters"),
            self.edges.complaint("edges"),
            self.globals.complaint("global ingresses"),
            self.policies.complaint("traffic policies"),
            self.records.complaint("leaves"),
            self.events.complaint("events"),
        ];
        let missing = missing.into_iter().flatten().collect();
        let (view, away_since) = (View::new(&objects, at), self.away_since());
        Update { at, view, missing, away_since, unknown: self.unknown(at) }
    }

    /// Whether the hub does not know the viewer any more.
    fn unknown(&self, at: i64) -> bool {
        self.viewer.ended(at)
            || self.clusters.unknown()
            || self.edges.unknown()
            || self.globals.unknown()
            || self.policies.unknown()
            || self.records.unknown()
            || self.events.unknown()
    }

    /// The newest of the times since when each kind cannot be read, if none can that could. Kinds
    /// that never could are forbidden to the viewer: they say nothing of the hub.
    fn away_since(&self) -> Option<i64> {
        fn since<K>(listed: &Listed<K>) -> Option<Option<i64>> {
            listed.loaded.then(|| listed.trouble.as_ref().map(|trouble| trouble.since))
        }
        let kinds = [
            since(&self.clusters),
            since(&self.edges),
            since(&self.globals),
            since(&self.policies),
            since(&self.records),
            since(&self.events),
        ];
        kinds.into_iter().flatten().collect::<Option<Vec<i64>>>()?.into_iter().max()
    }
}

pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use kube::Config;

    use super::*;
    use crate::sessions::{Credential, Sessions, client_of};

    #[tokio::test]
    async fn a_stream_ends_with_the_certificate() {
        let config = Config::new("https://127.0.0.1:1".parse().unwrap());
        let client = client_of(&config, Credential::token("t").unwrap()).unwrap();
        let viewer = Viewer { name: "ann".into(), client, until: Some(now() - 1) };
        let sessions = Sessions::default();
        let secret = sessions.enter(viewer.clone(), std::time::Instant::now());
        let stay = sessions.stay(&secret).unwrap();
        let (send, mut updates) = mpsc::channel(1);
        let following = tokio::spawn(follow(viewer, stay, send));
        assert!(updates.recv().await.unwrap().unknown, "they are told why");
        let end = tokio::time::timeout(Duration::from_secs(60), updates.recv()).await;
        assert!(end.expect("the stream ends").is_none());
        following.await.unwrap();
    }
}
