//! The control thread: objects and knowledge in, zones out; TCP and admin endpoints.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use limen_api::source::{News, Objects, OwnEdge, Source};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::admin;
use crate::dnssec::{KeyFolder, KeyFolderError, Signer};
use crate::health::Health;
use crate::knowledge::Knowledge;
use crate::respond::Common;
use crate::server::{Certificate, Speech, Tcp};
use crate::transfer::{self, Notifier};
use crate::wire::name;
use crate::zone::{Compiler, ZoneDefaults, Zones};

/// Knowledge comes in bursts when a cluster goes away; this is how long one is waited for.
const BURST: Duration = Duration::from_millis(5);

/// How often keys are looked for that somebody else has changed.
const LOOK_FOR_KEYS: Duration = Duration::from_secs(2);

/// How often signatures are made again that secondaries keep, in seconds.
const RENEW: u64 = 24 * 3600;

/// What signs the zones, kept for as long as the keys are the same.
pub(crate) struct Signers {
    folder: Option<KeyFolder>,
    state: Vec<(PathBuf, Option<SystemTime>)>,
    by_zone: HashMap<String, Arc<Signer>>,
    /// When it was last looked at, in seconds since 1970.
    attached: u64,
}

impl Signers {
    pub(crate) fn new(folder: Option<KeyFolder>) -> Self {
        Self { folder, state: Vec::new(), by_zone: HashMap::new(), attached: 0 }
    }

    /// Whether a zone can be signed.
    pub(crate) fn check(&self, zone: &str) -> Result<(), KeyFolderError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        folder.signer(zone, seconds()).map(|_| ())
    }

    fn have_changed(&self) -> bool {
        let changed = |folder: &KeyFolder| folder.state() != self.state;
        self.folder.as_ref().is_some_and(|folder| changed(folder) || self.are_old())
    }

    /// Whether signatures that others keep should be made again.
    fn are_old(&self) -> bool {
        seconds().saturating_sub(self.attached) > RENEW
    }

    /// Gives each zone what signs it. A zone whose keys cannot be read keeps those it had.
    fn attach(&mut self, zones: &mut Zones, now: u64) {
        let Some(folder) = &self.folder else { return };
        let changed = self.have_changed();
        for apex in &mut zones.apexes {
            let zone = name::to_text(&apex.name);
            if changed || !self.by_zone.contains_key(&zone) {
                match folder.signer(&zone, now) {
                    Ok(signer) => {
                        self.by_zone.insert(zone.clone(), Arc::new(signer));
                    }
                    Err(error) => zones.problems.push(format!("zone {zone}: {error}")),
                }
            }
            apex.signer = self.by_zone.get(&zone).cloned();
        }
        // Read after the keys, which may have been made just now.
        self.state = folder.state();
        self.attached = now;
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

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
}

/// Runs until it is dropped.
pub(crate) async fn run(control: Control, source: Box<dyn Source>) {
    let Control { common, defaults, signers, probe, ready, tcp, listeners, certificate, admin } =
        control;
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
    // It reports nothing of its own: whether targets are well is what gateways say.
    let own = watch::Sender::new(OwnEdge::default());
    tokio::spawn(source.run(publish, own.subscribe()));
    let compiler = Compiler::new(defaults);
    obey(&common, compiler, signers, Health::new(probe), news, &ready).await;
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
            _ = look.tick() => if !signers.have_changed() {
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
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
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
