//! The control thread: objects in, snapshots out; probers, admin endpoints.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::mem::discriminant;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::admin;
use crate::compile::{Compiler, Probed};
use crate::edges::{Edges, TICK, withdraw};
use crate::health::{Pace, keep_probing};
use crate::source::{News, Source};
use crate::worker::Shared;
use limen_api::source::Objects;

/// How long others may take to be told that the gateway ends.
const FAREWELL: Duration = Duration::from_secs(3);

/// Runs until the gateway has stopped.
pub(crate) async fn run(
    shared: Arc<Shared>,
    source: Box<dyn Source>,
    admin: Option<std::net::TcpListener>,
    ready: watch::Sender<bool>,
) {
    let (publish, news) = mpsc::channel(16);
    if let Some(listener) = admin {
        match TcpListener::from_std(listener) {
            Ok(listener) => {
                tokio::spawn(admin::serve(shared.clone(), listener, ready.subscribe()));
            }
            Err(error) => tracing::error!(%error, "the admin endpoints cannot be served"),
        }
    }
    let edges = Edges::new(&shared.options);
    let own = edges.own().clone();
    tokio::spawn(source.run(publish, own.subscribe()));
    let withdrawing = async {
        shared.stop.cancelled().await;
        withdraw(&own);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = obey(&shared, news, &ready, edges) => {}
        () = withdrawing => {}
        () = shared.stopped.cancelled() => {}
    }
    withdraw(&own);
    // A source that tells others lets go of it when they have been told.
    let _ = tokio::time::timeout(FAREWELL, own.closed()).await;
}

/// What the control thread knows.
struct Control<'a> {
    shared: &'a Arc<Shared>,
    compiler: Compiler,
    objects: Option<Objects>,
    edges: Edges,
    pace: Arc<Pace>,
}

async fn obey(
    shared: &Arc<Shared>,
    mut news: mpsc::Receiver<News>,
    ready: &watch::Sender<bool>,
    edges: Edges,
) {
    let options = &shared.options;
    let compiler = Compiler::new(options.locality.clone(), shared.tls.clone(), options.probe_all);
    let mut control = Control { shared, compiler, objects: None, edges, pace: Arc::default() };
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // A source that has ended leaves its last snapshot in force.
    let mut ended = false;
    loop {
        tokio::select! {
            first = news.recv(), if !ended => match first {
                None => ended = true,
                Some(first) => {
                    // Of each kind only the newest counts.
                    let mut latest = vec![first];
                    while let Ok(newer) = news.try_recv() {
                        latest.retain(|old| discriminant(old) != discriminant(&newer));
                        latest.push(newer);
                    }
                    for news in latest {
                        control.take(news, ready);
                    }
                }
            },
            _ = tick.tick() => control.tick(),
        }
    }
}

impl Control<'_> {
    fn take(&mut self, news: News, ready: &watch::Sender<bool>) {
        match news {
            News::Objects(objects) => {
                apply(self.shared, &mut self.compiler, &objects, &self.pace);
                self.objects = Some(objects);
                ready.send_replace(true);
            }
            News::Edges(edges) => self.edges.heard(edges),
            News::Trouble(trouble) => {
                self.shared.metrics.reloads_failed.add(1);
                tracing::error!("{trouble}");
            }
            News::NotKept(why) => {
                self.shared.metrics.snapshots_failed.add(1);
                if let Some(why) = why {
                    tracing::error!("{why}");
                }
            }
        }
    }

    fn tick(&mut self) {
        let snapshot = self.shared.snapshot.load_full();
        self.edges.tick(&snapshot, self.compiler.probed(), &self.shared.options);
        self.shared.rates.store(Arc::new(self.edges.wanted()));
        if let Some(objects) = &self.objects
            && let Some(latencies) = latencies(self.compiler.probed())
            && self.compiler.measured(&latencies)
        {
            tracing::info!(?latencies, "measured how near clusters are");
            apply(self.shared, &mut self.compiler, objects, &self.pace);
        }
    }
}

/// How long a connection to each cluster takes, for those that are probed. Nothing while a cluster
/// is being asked for the first time: what was measured of the others would make it seem far away.
fn latencies(probed: &Probed) -> Option<BTreeMap<String, f64>> {
    let mut latencies: BTreeMap<&str, f64> = BTreeMap::new();
    let mut waiting: BTreeSet<&str> = BTreeSet::new();
    for (cluster, health) in probed.iter() {
        match health.latency() {
            Some(latency) => {
                let least = latencies.entry(cluster).or_insert(latency);
                *least = least.min(latency);
            }
            None if health.is_to_be_measured() => drop(waiting.insert(cluster)),
            None => {}
        }
    }
    let known = waiting.iter().all(|cluster| latencies.contains_key(cluster));
    known.then(|| latencies.into_iter().map(|(name, least)| (name.to_owned(), least)).collect())
}

fn apply(shared: &Shared, compiler: &mut Compiler, objects: &Objects, pace: &Arc<Pace>) {
    let start = Instant::now();
    let (snapshot, probes) = compiler.compile(objects);
    let before = shared.snapshot.load();
    // As many as there are roots, when all of them name the same missing Secret.
    let known: HashSet<&String> = before.problems.iter().collect();
    for problem in snapshot.problems.iter().filter(|problem| !known.contains(problem)) {
        tracing::warn!("{problem}");
    }
    let roots = snapshot.ingresses.len();
    let old = shared.snapshot.swap(Arc::new(snapshot));
    shared.metrics.reloads.add(1);
    for probe in probes {
        tokio::spawn(keep_probing(probe, pace.clone()));
    }
    tracing::info!(roots, took = ?start.elapsed(), "new routes are in force");
    // Freeing tens of thousands of routes takes a moment, which no worker should pay for.
    drop(old);
}
