//! Everything that is simulated, behind one lock that is never held across an await.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::actor::Actor;
use crate::api::{Call, Reply, Server};
use crate::laws::{Laws, Sent};
use crate::network::Network;
use crate::random::Random;
use crate::trace::Trace;

/// The name of the hub's store.
pub const HUB: &str = "hub";

/// When every history begins, in seconds since 1970.
pub const BEGINNING: i64 = 1_767_225_600;

/// Everything that is simulated.
pub struct World {
    /// Chance.
    pub random: Random,
    /// APIs by name; [`HUB`] is the hub's store.
    pub servers: BTreeMap<String, Server>,
    /// The network.
    pub network: Network,
    /// The laws.
    pub laws: Laws,
    /// What has happened.
    pub trace: Trace,
    /// Requests that were executed.
    pub requests: u64,
    start: Instant,
    /// Wakes watches of one kind of one API.
    notify: BTreeMap<(String, Arc<str>), Arc<Notify>>,
    /// Wakes everybody who waits for the network.
    network_changed: Arc<Notify>,
}

/// Waits until `ready` finds something in the world; it looks again whenever the network changes.
pub(crate) async fn once_network<T>(
    shared: &Shared,
    mut ready: impl FnMut(&World) -> Option<T>,
) -> T {
    let network = shared.lock().network_changes();
    loop {
        let mut changed = std::pin::pin!(network.notified());
        changed.as_mut().enable();
        if let Some(found) = ready(&shared.lock()) {
            return found;
        }
        changed.await;
    }
}

/// A handle to the world.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<World>>);

impl Shared {
    /// A world with these APIs.
    pub fn new(seed: u64, servers: Vec<Server>, laws: Laws) -> Self {
        let servers = servers.into_iter().map(|server| (server.name.clone(), server)).collect();
        Self(Arc::new(Mutex::new(World {
            random: Random::new(seed),
            servers,
            network: Network::default(),
            laws,
            trace: Trace::default(),
            requests: 0,
            start: Instant::now(),
            notify: BTreeMap::new(),
            network_changed: Arc::default(),
        })))
    }

    /// The world. The guard must not be held across an await.
    ///
    /// # Panics
    ///
    /// If a part of the simulator has panicked.
    pub fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no part of the simulator has panicked")
    }

    /// The world, unless somebody has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, World>> {
        self.0.try_lock().ok()
    }
}

impl World {
    /// Milliseconds since the start.
    pub fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The instant of a time.
    pub fn instant(&self, millis: u64) -> Instant {
        self.start + Duration::from_millis(millis)
    }

    /// The true time, in seconds since 1970: the clocks of members never jump.
    pub fn seconds(&self) -> i64 {
        BEGINNING.saturating_add_unsigned(self.now() / 1000)
    }

    /// The time that an API has, as text. The hub's store has the clock of the hub.
    fn time_of(&self, server: &str) -> String {
        match server.starts_with(HUB) {
            true => timestamp(limen_sync::clock::now()),
            false => timestamp(jiff::Timestamp::from_second(self.seconds()).unwrap_or_default()),
        }
    }

    /// Executes a request at an API.
    pub fn execute(&mut self, server: &str, actor: &Actor, call: &Call, sent: u64) -> Reply {
        self.requests += 1;
        if let Some(code) = self.network.outage(server, &call.method, &call.path) {
            return Reply::fault(code);
        }
        let now = self.now();
        let time = self.time_of(server);
        let Some(api) = self.servers.get_mut(server) else { return Reply::fault(503) };
        api.set_time(now, time);
        let reply = api.answer(actor, call);
        let sent = Sent { call: Some(call), at: sent };
        self.settle(server, &sent);
        reply
    }

    /// Changes an API directly, as a person or a controller does.
    pub fn change(&mut self, server: &str, change: impl FnOnce(&mut Server, &mut Random)) {
        let (now, time) = (self.now(), self.time_of(server));
        let Some(api) = self.servers.get_mut(server) else { return };
        api.set_time(now, time);
        change(api, &mut self.random);
        self.settle(server, &Sent { call: None, at: now });
    }

    /// Judges what has happened at an API, and wakes its watches.
    fn settle(&mut self, server: &str, sent: &Sent<'_>) {
        let Some(api) = self.servers.get_mut(server) else { return };
        let effects = api.take_effects();
        let now = self.now();
        for effect in &effects {
            self.trace.effect(now, server, effect);
            self.laws.observe(
                now,
                server,
                effect,
                sent,
                &self.servers,
                &self.network,
                &mut self.trace,
            );
            let key = (server.to_owned(), effect.key.resource.clone());
            if let Some(notify) = self.notify.get(&key) {
                notify.notify_waiters();
            }
        }
    }

    /// Tells when something of a kind changes in an API.
    pub fn changes(&mut self, server: &str, resource: &Arc<str>) -> Arc<Notify> {
        let key = (server.to_owned(), resource.clone());
        self.notify.entry(key).or_default().clone()
    }

    /// Tells when the network changes.
    pub fn network_changes(&self) -> Arc<Notify> {
        self.network_changed.clone()
    }

    /// Changes the network.
    pub fn change_network(&mut self, change: impl FnOnce(&mut Network)) {
        change(&mut self.network);
        self.network_changed.notify_waiters();
    }
}

/// A time as Kubernetes writes it.
pub fn timestamp(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
