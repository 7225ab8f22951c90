//! The controllers of one member.
//!
//! ```text
//!   watches ──► World ──► reconcile, all of it ──► changes ──► API
//!                 ▲                                   │
//!                 └──────────── answers ◄─────────────┘
//! ```
//!
//! One task owns all that is known of the member. Whenever something has changed, every controller
//! looks at the whole of it and says what it wants changed; that is repeated until nobody wants
//! anything. A playground has tens of objects, so this is quicker than it sounds, and nothing can be
//! forgotten. All but the kubelet and the memory of autoscalers are pure functions.

mod autoscalers;
mod daemon_sets;
mod deployments;
mod endpoints;
mod fields;
mod furniture;
mod jobs;
mod kubelet;
mod replicas;
mod stateful_sets;
mod world;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use jiff::Timestamp;
use limen_core::federated::Kind;
use limen_sync::{ObjectApi, Seen, follow};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::autoscalers::Autoscalers;
use self::kubelet::Kubelet;
use self::world::{Change, KINDS, World, id, kind};
use crate::pods::Addresses;
use crate::topology::Place;

pub(crate) use furniture::furnish;
pub(crate) use kubelet::{Pods, pod_state};

/// Writes under way at once.
const WRITES: usize = 16;
/// A member that is not at peace after so many rounds is left alone for a moment.
const ROUNDS: usize = 50;
const PAUSE: Duration = Duration::from_millis(200);
/// How often autoscalers look.
const LOOK: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(60);

/// The controllers of one member.
pub(crate) struct Controllers {
    api: ObjectApi,
    place: Place,
    world: World,
    kubelet: Kubelet,
    autoscalers: Autoscalers,
    /// Somebody has told a pod to be different.
    told: Arc<Notify>,
}

impl Controllers {
    pub(crate) fn new(
        api: ObjectApi,
        place: &Place,
        second: u8,
        pods: Pods,
        told: Arc<Notify>,
        killed: CancellationToken,
    ) -> Self {
        let nodes = furniture::node_names(place);
        let kubelet = Kubelet::new(place.clone(), nodes, Addresses::new(second), pods, killed);
        let (world, autoscalers) = (World::default(), Autoscalers::default());
        Self { api, place: place.clone(), world, kubelet, autoscalers, told }
    }

    /// Works for as long as it is let.
    pub(crate) async fn run(mut self) {
        let (tell, mut seen) = mpsc::channel::<(Arc<Kind>, Seen)>(1024);
        let mut watches = JoinSet::new();
        for row in KINDS {
            let (api, kind) = (self.api.clone(), limen_api::kind(row));
            watches.spawn(follow(api, kind, String::new(), tell.clone()));
        }
        let mut due = Instant::now() + IDLE;
        loop {
            tokio::select! {
                Some((kind, news)) = seen.recv() => self.world.see(&kind, news),
                () = self.told.notified() => {}
                () = tokio::time::sleep_until(due.into()) => {}
            }
            while let Ok((kind, news)) = seen.try_recv() {
                self.world.see(&kind, news);
            }
            if self.world.complete() {
                let at_peace = self.settle().await;
                due = Instant::now() + if at_peace { self.rest() } else { PAUSE };
            }
        }
    }

    /// How long nothing will have to be done unless something happens.
    fn rest(&self) -> Duration {
        let pods = self.kubelet.due(&self.world);
        let pods = pods.map(|due| due.saturating_duration_since(Instant::now()));
        let scaling = self.world.all("HorizontalPodAutoscaler").next().map(|_| LOOK);
        pods.into_iter().chain(scaling).fold(IDLE, Duration::min)
    }

    /// Does what controllers want until they want nothing more; whether it came to that.
    async fn settle(&mut self) -> bool {
        for _ in 0..ROUNDS {
            let changes = self.wanted();
            if changes.is_empty() {
                return true;
            }
            let done: Vec<_> = futures::stream::iter(changes)
                .map(|change| carry_out(&self.api, change))
                .buffer_unordered(WRITES)
                .collect()
                .await;
            let mut all = true;
            for (change, answer) in done {
                all &= self.absorb(&change, answer);
            }
            if !all {
                return false;
            }
        }
        tracing::warn!("the controllers of {} do not come to rest", self.place.name);
        false
    }

    fn wanted(&mut self) -> Vec<Change> {
        let (now, moment) = (Timestamp::now(), Instant::now());
        let mut changes = Vec::new();
        self.kubelet.reconcile(&self.world, now, &mut changes);
        let (world, kubelet) = (&self.world, &self.kubelet);
        self.autoscalers.reconcile(world, |pod| kubelet.load(pod), moment, now, &mut changes);
        deployments::reconcile(world, now, &mut changes);
        replicas::reconcile(world, now, &mut changes);
        stateful_sets::reconcile(world, now, &mut changes);
        daemon_sets::reconcile(world, now, &mut changes);
        jobs::reconcile(world, now, &mut changes);
        endpoints::reconcile(world, &self.place.zone, &mut changes);
        self.kubelet.assign(&mut changes);
        changes
    }

    /// Takes in the answer to a change; whether it was done.
    fn absorb(&mut self, change: &Change, answer: kube::Result<Value>) -> bool {
        match (change, answer) {
            (Change::Delete(kind, key, uid), Ok(_)) => self.world.forget(kind, key, uid),
            (
                Change::Create(kind, _) | Change::Patch(kind, ..) | Change::Status(kind, ..),
                Ok(object),
            ) => self.world.take(kind, object),
            (_, Err(error)) => {
                tracing::debug!(%error, "{}", self.place.name);
                return false;
            }
        }
        true
    }
}

async fn carry_out(api: &ObjectApi, change: Change) -> (Change, kube::Result<Value>) {
    let answer = match &change {
        Change::Create(kind_name, object) => api.create(&kind(kind_name), object).await,
        Change::Patch(kind, key, patch) => api.merge(&id(kind, key), "", patch).await,
        Change::Status(kind, key, status) => {
            api.merge(&id(kind, key), "/status", &json!({"status": status})).await
        }
        Change::Delete(kind, key, uid) => {
            api.delete(&id(kind, key), uid).await.map(|()| Value::Null)
        }
    };
    (change, answer)
}
