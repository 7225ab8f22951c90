//! Objects from a hub, watched: GlobalIngress objects, and with them Secrets for a gateway and
//! zones for a DNS server. A gateway sees no Secrets but the copies that the hub makes for it.
//!
//! The last objects are kept on disk. An edge that starts while the hub is away serves them, and
//! one that runs while the hub goes away goes on with what it has.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher;
use kube::{Api, Client};
use limen_core::edge::EdgeKind;
use limen_core::global::Global;
use tokio::sync::{mpsc, watch};

use super::absence::Absence;
use super::burst::Burst;
use super::keeper::Keeper;
use super::listed::{Listed, events, events_of, is_answer, secret_data};
use super::meet::{Met, Silence};
use super::objects::{Key, Objects, SecretData};
use super::{News, OwnEdge, Running, Source, disk, meet};
use crate::{
    COPY_OF, DnsChallenge, DnsChallengeSpec, DnsZone, DnsZoneSpec, Edge, GATEWAYS, GlobalIngress,
};

/// Changes come in bursts; one is over after so long a pause.
const PAUSE: Duration = Duration::from_millis(5);

/// The hub.
pub struct Hub {
    client: Client,
    snapshot_dir: Option<PathBuf>,
    /// Who is asking. Neither is allowed, nor needs, to see what the other does.
    edge: EdgeKind,
}

impl Source for Hub {
    fn run(self: Box<Self>, publish: mpsc::Sender<News>, own: watch::Receiver<OwnEdge>) -> Running {
        Box::pin(async move {
            if let Some(folder) = &self.snapshot_dir {
                let news = match disk::read(folder, self.file_name()) {
                    Ok(Some(objects)) => Some(News::Objects(objects)),
                    Ok(None) => None,
                    Err(error) => Some(News::Trouble(error)),
                };
                if let Some(news) = news
                    && publish.send(news).await.is_err()
                {
                    return;
                }
            }
            let reporting = meet::keep_reporting(self.client.clone(), self.edge, own);
            let edges = self.follow_edges(&publish);
            tokio::join!(self.follow(&publish), reporting, edges);
        })
    }
}

impl Hub {
    /// For a gateway, which needs the Secrets. The last objects are kept in `snapshot_dir`.
    pub fn for_gateway(client: Client, snapshot_dir: Option<PathBuf>) -> Self {
        Self { client, snapshot_dir, edge: EdgeKind::Gateway }
    }

    /// For a DNS server, which needs the zones and sees no Secret.
    pub fn for_dns(client: Client, snapshot_dir: Option<PathBuf>) -> Self {
        Self { client, snapshot_dir, edge: EdgeKind::Dns }
    }

    fn file_name(&self) -> &'static str {
        match self.edge {
            EdgeKind::Gateway => "gateway-objects.json",
            EdgeKind::Dns => "dns-objects.json",
        }
    }

    async fn follow(&self, publish: &mpsc::Sender<News>) {
        let mut ingresses: Listed<Arc<Global>> = Listed::default();
        let mut secrets: Listed<(Key, Arc<SecretData>)> = Listed::default();
        let mut zones: Listed<Arc<DnsZoneSpec>> = Listed::default();
        let mut ingress_events = events::<GlobalIngress>(&self.client);
        let copies: Api<Secret> = Api::namespaced(self.client.clone(), GATEWAYS);
        let mut secret_events = events_of(copies);
        let mut zone_events = events::<DnsZone>(&self.client);
        let mut challenges: Listed<Arc<DnsChallengeSpec>> = Listed::default();
        let mut challenge_events = events::<DnsChallenge>(&self.client);
        // What is not polled is not asked for.
        let (gateway, dns) = (self.edge == EdgeKind::Gateway, self.edge == EdgeKind::Dns);
        let keeper = self.keeper(publish);
        let mut absence = Absence::default();
        let mut burst = Burst::new(PAUSE);
        loop {
            let mut due = false;
            let heard = tokio::select! {
                Some(event) = ingress_events.next() => ("GlobalIngress", event.map(|event| {
                    let answer = is_answer(&event);
                    due |= ingresses.take(event, |object| Some(Arc::new(object.spec.global.clone())));
                    answer
                })),
                Some(event) = zone_events.next(), if dns => ("DnsZone", match event {
                    // A hub that does not know the kind has no zones.
                    Err(error) if is_unknown_kind(&error) => {
                        due |= !std::mem::replace(&mut zones.loaded, true);
                        Ok(true)
                    }
                    event => event.map(|event| {
                        let answer = is_answer(&event);
                        due |= zones.take(event, |object| Some(Arc::new(object.spec.clone())));
                        answer
                    }),
                }),
                // Nothing waits for challenges, which seldom are there; a hub may not know them.
                Some(event) = challenge_events.next(), if dns => {
                    if let Ok(event) = event {
                        let kept = |object: &DnsChallenge| Some(Arc::new(object.spec.clone()));
                        burst.add(challenges.take(event, kept), Instant::now());
                    }
                    continue;
                }
                Some(event) = secret_events.next(), if gateway => ("Secret", event.map(|event| {
                    let answer = is_answer(&event);
                    due |= secrets.take(event, |copy| Some((copy_of(copy)?, secret_data(copy))));
                    answer
                })),
                () = burst.over(), if ingresses.loaded && (secrets.loaded || zones.loaded) => {
                    burst.clear();
                    let objects = Objects {
                        ingresses: ingresses.now.clone(),
                        zones: zones.now.clone(),
                        challenges: challenges.now.clone(),
                        secrets: secrets.now.values().cloned().collect(),
                        ..Objects::default()
                    };
                    let kept = keeper.as_ref().map(|keeper| (keeper, objects.clone()));
                    if publish.send(News::Objects(objects)).await.is_err() {
                        return;
                    }
                    if let Some((keeper, objects)) = kept {
                        keeper.keep(objects);
                    }
                    continue;
                }
            };
            let (kind, outcome) = heard;
            let now = Instant::now();
            burst.add(due, now);
            match outcome {
                Ok(true) => {
                    if let Some(away) = absence.answered(kind, now) {
                        tracing::info!(?away, "the hub is back");
                    }
                }
                Ok(false) => {}
                // The watches try again by themselves, and what is in force stays.
                Err(error) if absence.failed(kind, now) => {
                    let text = format!("the hub cannot be watched: {error}; the last routes stay");
                    if publish.send(News::Trouble(text)).await.is_err() {
                        return;
                    }
                }
                Err(_) => {}
            }
        }
    }

    /// What keeps the last objects on disk, if that is wanted.
    fn keeper(&self, publish: &mpsc::Sender<News>) -> Option<Keeper> {
        let folder = self.snapshot_dir.clone()?;
        let started = Keeper::start(folder, self.file_name(), publish.clone());
        let said = "the last objects will not be kept on disk";
        started.inspect_err(|error| tracing::error!(%error, "{said}")).ok()
    }

    /// Other edges come and go by themselves: nothing else waits for them.
    async fn follow_edges(&self, publish: &mpsc::Sender<News>) {
        let mut edges: Listed<Met> = Listed::default();
        let mut silence = Silence::default();
        let mut edge_events = events::<Edge>(&self.client);
        while let Some(event) = edge_events.next().await {
            // A hub that has no such objects, or is away: gateways do without each other.
            let Ok(event) = event else { continue };
            if !edges.take(event, |edge| Some(Met::new(edge))) || !edges.loaded {
                continue;
            }
            // Gateways look after the objects of those that are gone; others may not.
            if self.edge == EdgeKind::Gateway
                && let Some(((_, name), met)) = silence.listen(&edges.now, Instant::now())
            {
                tokio::spawn(meet::remove(self.client.clone(), name.clone(), met.unchanged()));
            }
            let now = edges.now.iter().map(|((_, name), met)| (name.clone(), met.peer.clone()));
            if publish.send(News::Edges(now.collect())).await.is_err() {
                return;
            }
        }
    }
}

/// The Secret that a Secret for gateways is a copy of.
fn copy_of(copy: &Secret) -> Option<Key> {
    let (namespace, name) = copy.metadata.annotations.as_ref()?.get(COPY_OF)?.split_once('/')?;
    Some((namespace.to_owned(), name.to_owned()))
}

fn is_unknown_kind(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}
