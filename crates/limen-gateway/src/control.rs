//! The control thread: objects in, snapshots out; probers, admin endpoints.

use std::sync::Arc;
use std::time::Instant;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::admin;
use crate::compile::Compiler;
use crate::health::keep_probing;
use crate::source::{News, Source};
use crate::worker::Shared;
use limen_api::source::Objects;

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
    tokio::spawn(source.run(publish));
    tokio::select! {
        () = obey(&shared, news, &ready) => {}
        () = shared.stopped.cancelled() => {}
    }
}

async fn obey(shared: &Arc<Shared>, mut news: mpsc::Receiver<News>, ready: &watch::Sender<bool>) {
    let mut compiler = Compiler::new(shared.options.locality.clone(), shared.tls.clone());
    while let Some(mut latest) = news.recv().await {
        // Only the newest counts.
        while let Ok(newer) = news.try_recv() {
            latest = newer;
        }
        match latest {
            News::Objects(objects) => apply(shared, &mut compiler, &objects),
            News::Trouble(trouble) => {
                shared.metrics.reloads_failed.add(1);
                tracing::error!("{trouble}");
                continue;
            }
        }
        ready.send_replace(true);
    }
    // A source that has ended leaves its last snapshot in force.
    std::future::pending::<()>().await;
}

fn apply(shared: &Shared, compiler: &mut Compiler, objects: &Objects) {
    let start = Instant::now();
    let (snapshot, probes) = compiler.compile(objects);
    let known = shared.snapshot.load();
    for problem in &snapshot.problems {
        if !known.problems.contains(problem) {
            tracing::warn!("{problem}");
        }
    }
    let roots = snapshot.ingresses.len();
    let old = shared.snapshot.swap(Arc::new(snapshot));
    shared.metrics.reloads.add(1);
    for probe in probes {
        tokio::spawn(keep_probing(probe));
    }
    tracing::info!(roots, took = ?start.elapsed(), "new routes are in force");
    // Freeing tens of thousands of routes takes a moment, which no worker should pay for.
    drop(old);
}
