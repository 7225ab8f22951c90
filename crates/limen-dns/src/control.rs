//! The control thread: objects and knowledge in, zones out; TCP and admin endpoints.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use limen_api::source::{News, Objects, OwnEdge, Source};
use limen_core::edge::EdgeReport;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::admin;
use crate::dnssec::Signers;
use crate::health::Health;
use crate::knowledge::Knowledge;
use crate::respond::Common;
use crate::server::{Certificate, Speech, Tcp};
use crate::transfer::{self, Notifier};
use crate::zone::{Compiler, ZoneDefaults};

/// Knowledge comes in bursts when a cluster goes away; this is how long one is waited for.
const BURST: Duration = Duration::from_millis(5);
/// How often it tells the hub that it is there.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How often keys are looked for that somebody else has changed.
const LOOK_FOR_KEYS: Duration = Duration::from_secs(2);

/// What the control thread needs.
pub(crate) struct Control {
    pub(crate) common: Arc<Common>,
    pub(crate) defaults: ZoneDefaults,
    pub(crate) signers: Signers,
    pub(crate) probe: bool,
    pub(crate) ready: watch::Sender<bool>,
    pub(crate) tcp: Tcp,
    pub(crate) listeners: Vec<(std::net::TcpListener, Speech)>,
    pub(crate) certificate: Option<Arc<Certificate>>,
    pub(crate) admin: Option<std::net::TcpListener>,
    /// What the hub is told of it, if it has a name.
    pub(crate) own: OwnEdge,
}

/// Runs until it is dropped.
pub(crate) async fn run(control: Control, source: Box<dyn Source>) {
    let Control {
        common,
        defaults,
        signers,
        probe,
        ready,
        tcp,
        listeners,
        certificate,
        admin,
        own,
    } = control;
    if let Some(certificate) = certificate {
        tokio::spawn(certificate.follow());
    }
    for (listener, speech) in listeners {
        match TcpListener::from_std(listener) {
            Ok(listener) => {
                tokio::spawn(tcp.clone().serve(common.clone(), listener, speech));
            }
            Err(error) => tracing::error!(%error, "cannot answer by TCP"),
        }
    }
    if let Some(listener) = admin {
        match TcpListener::from_std(listener) {
            Ok(listener) => {
                tokio::spawn(admin::serve(common.clone(), listener, ready.subscribe()));
            }
            Err(error) => tracing::error!(%error, "the admin endpoints cannot be served"),
        }
    }
    let (publish, news) = mpsc::channel(16);
    let own = watch::Sender::new(own);
    tokio::spawn(source.run(publish, own.subscribe()));
    tokio::spawn(keep_announcing(own));
    let compiler = Compiler::new(defaults);
    obey(&common, compiler, signers, Health::new(probe), news, &ready).await;
}

/// Tells the hub that it is there, and nothing else: whether targets are well is what gateways say.
async fn keep_announcing(own: watch::Sender<OwnEdge>) {
    if own.borrow().name.is_empty() {
        return own.closed().await;
    }
    let mut beats = tokio::time::interval(HEARTBEAT);
    loop {
        beats.tick().await;
        let seconds = i64::try_from(since_1970().as_secs()).unwrap_or(i64::MAX);
        let report = EdgeReport { observed_at: Some(seconds), ..EdgeReport::default() };
        own.send_modify(|own| own.report = Some(Arc::new(report)));
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

async fn obey(
    common: &Common,
    mut compiler: Compiler,
    mut signers: Signers,
    mut health: Health,
    mut news: mpsc::Receiver<News>,
    ready: &watch::Sender<bool>,
) {
    let mut notifier = Notifier::default();
    let mut objects = None;
    let mut source_is_there = true;
    let mut look = tokio::time::interval(LOOK_FOR_KEYS);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            latest = news.recv(), if source_is_there => match latest {
                Some(News::Objects(new)) => objects = Some(new),
                Some(News::Edges(_)) => continue,
                Some(News::NotKept(why)) => {
                    if let Some(why) = why {
                        tracing::error!("{why}");
                    }
                    continue;
                }
                Some(News::Trouble(trouble)) => {
                    common.counters.reloads_failed.add();
                    tracing::error!("{trouble}");
                    continue;
                }
                // A source that has ended leaves its last objects in force.
                None => {
                    source_is_there = false;
                    continue;
                }
            },
            () = health.changed() => {
                tokio::time::sleep(BURST).await;
                health.catch_up();
            }
            _ = look.tick() => if !signers.have_changed(since_1970().as_secs()) {
                continue;
            },
        }
        if let Some(objects) = &objects {
            apply(common, &mut compiler, &mut signers, objects, health.knowledge());
            let zones = common.zones.load();
            health.follow(&zones);
            notifier.tell(&zones, &common.secondaries);
            ready.send_replace(true);
        }
    }
}

fn apply(
    common: &Common,
    compiler: &mut Compiler,
    signers: &mut Signers,
    objects: &Objects,
    knowledge: &Knowledge,
) {
    let start = Instant::now();
    let now = since_1970();
    let mut zones = compiler.compile(objects, knowledge, now.as_secs() as u32);
    signers.attach(&mut zones, now.as_secs());
    let known = common.zones.load();
    transfer::number(&mut zones, &known, now.as_secs() as u32);
    for problem in &zones.problems {
        if !known.problems.contains(problem) {
            common.counters.reloads_failed.add();
            tracing::warn!("{problem}");
        }
    }
    let hosts = zones.hosts;
    common.zones.store(Arc::new(zones));
    common.counters.reloads.add();
    tracing::info!(hosts, took = ?start.elapsed(), "new answers are in force");
}
