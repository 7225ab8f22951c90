//! The control thread: objects and knowledge in, zones out; TCP and admin endpoints.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use limen_api::source::{News, Objects, OwnEdge, Source};
use limen_core::decide::Vantages;
use limen_core::edge::EdgeReport;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::admin;
use crate::dnssec::Signers;
use crate::health::Health;
use crate::respond::Common;
use crate::server::{Certificate, Speech, Tcp};
use crate::transfer::{self, Notifier, Touched};
use crate::zone::{Compiler, Renewed, ZoneDefaults, Zones};

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
    let mut orders = Orders {
        common: &common,
        compiler: Compiler::new(defaults),
        signers,
        health: Health::new(probe),
        notifier: Notifier::default(),
        objects: None,
        vantages: Vantages::default(),
    };
    orders.obey(news, &ready).await;
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

/// What is obeyed, and what came of it.
struct Orders<'a> {
    common: &'a Common,
    compiler: Compiler,
    signers: Signers,
    health: Health,
    notifier: Notifier,
    objects: Option<Arc<Objects>>,
    vantages: Vantages,
}

impl Orders<'_> {
    async fn obey(&mut self, mut news: mpsc::Receiver<News>, ready: &watch::Sender<bool>) {
        let mut source_is_there = true;
        let mut look = tokio::time::interval(LOOK_FOR_KEYS);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let changed = tokio::select! {
                latest = news.recv(), if source_is_there => match latest {
                    Some(latest) => self.take(latest),
                    // A source that has ended leaves its last objects in force.
                    None => {
                        source_is_there = false;
                        false
                    }
                },
                () = self.health.changed() => {
                    tokio::time::sleep(BURST).await;
                    self.health.catch_up();
                    true
                }
                _ = look.tick() => self.signers.have_changed(since_1970().as_secs()),
            };
            if let Some(objects) = self.objects.clone().filter(|_| changed) {
                self.apply(&objects);
                // Until then some hosts have no answer, which other servers may have.
                if self.health.has_looked_up() {
                    ready.send_replace(true);
                }
            }
        }
    }

    /// Takes in what a source says. Whether there may be other answers.
    fn take(&mut self, news: News) -> bool {
        match news {
            News::Objects(new) => {
                self.objects = Some(Arc::new(new));
                true
            }
            News::Edges(edges) => self.vantages.hear(&edges),
            News::NotKept(why) => {
                if let Some(why) = why {
                    tracing::error!("{why}");
                }
                false
            }
            News::Trouble(trouble) => {
                self.common.counters.reloads_failed.add();
                tracing::error!("{trouble}");
                false
            }
        }
    }

    fn apply(&mut self, objects: &Arc<Objects>) {
        let start = Instant::now();
        let now = since_1970().as_secs();
        let known = self.common.zones.load_full();
        let knowledge = self.health.knowledge();
        let (mut zones, renewed) = self.compiler.compile(objects, knowledge, &known, now as u32);
        let measured = self.measured(&mut zones);
        let keys = self.signers.have_changed(now);
        let same = matches!(&renewed, Renewed::Some { zones, .. } if zones.is_empty());
        if same && !keys && !measured && Arc::ptr_eq(&zones.vantages, &known.vantages) {
            return;
        }
        self.signers.attach(&mut zones, now);
        let touched = match &renewed {
            _ if measured => Touched::All,
            Renewed::Some { zones, .. } if !keys => Touched::Only(zones),
            _ => Touched::Unknown,
        };
        transfer::number(&mut zones, &known, touched, now as u32);
        for problem in zones.all_problems() {
            if !known.all_problems().any(|before| before == problem) {
                self.common.counters.reloads_failed.add();
                tracing::warn!("{problem}");
            }
        }
        let hosts = zones.hosts;
        let zones = Arc::new(zones);
        self.common.zones.store(zones.clone());
        self.common.counters.reloads.add();
        tracing::info!(hosts, took = ?start.elapsed(), "new answers are in force");
        if !matches!(renewed, Renewed::Some { questions: false, .. }) {
            self.health.follow(&zones);
        }
        self.notifier.tell(&zones, &self.common.secondaries);
    }

    /// Puts in what gateways have measured. Whether clients at this server's own place, whose
    /// answers secondaries have, may be led elsewhere.
    fn measured(&self, zones: &mut Zones) -> bool {
        if *zones.vantages == self.vantages {
            return false;
        }
        let here = &self.common.places.here().locality;
        let differs = zones.vantages.of(here) != self.vantages.of(here);
        zones.vantages = Arc::new(self.vantages.clone());
        differs
    }
}
