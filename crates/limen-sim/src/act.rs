//! Carrying out the actions of a scenario.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::actor::Actor;
use crate::api::{Cause, Key, Kinds, Resource, Server, finalizers, is_terminating};
use crate::deeds::{edit, people_act};
use crate::hub::Hub;
use crate::network::{Network, Outage, Process, cut, mend};
use crate::scenario::Action;
use crate::selection::plural;
use crate::world::{HUB, Shared};

/// The pause between two writes of a rival manager.
const RIVAL: Duration = Duration::from_millis(700);

/// The finalizer of a controller in a member.
const FINALIZER: &str = "example.com/cleanup";

/// Executor of actions.
pub(crate) struct Stage {
    pub(crate) shared: Shared,
    pub(crate) hubs: BTreeMap<u32, Hub>,
    pub(crate) elects: bool,
    backups: BTreeMap<String, Server>,
    processes: u32,
    clones: u32,
    resets: u32,
    /// Processes that start by themselves later.
    pending: Vec<tokio::sync::oneshot::Receiver<Hub>>,
}

impl Stage {
    pub(crate) fn new(shared: Shared, elects: bool) -> Self {
        let (hubs, backups) = (BTreeMap::new(), BTreeMap::new());
        Self {
            shared,
            hubs,
            elects,
            backups,
            processes: 0,
            clones: 0,
            resets: 0,
            pending: Vec::new(),
        }
    }

    pub(crate) fn start_hub(&mut self, store: &str) {
        self.processes += 1;
        let hub = Hub::start(&self.shared, self.processes, store, self.elects);
        self.hubs.insert(hub.id, hub);
    }

    /// Takes over processes that have started by themselves.
    fn adopt_started(&mut self) {
        self.pending.retain_mut(|starting| match starting.try_recv() {
            Ok(hub) => {
                self.hubs.insert(hub.id, hub);
                false
            }
            Err(_) => true,
        });
    }

    /// Carries out an action. What lasts for a while ends by itself.
    pub(crate) fn perform(&mut self, action: &Action) {
        self.adopt_started();
        if matches!(action, Action::Restore { server } if !self.backups.contains_key(server)) {
            return;
        }
        {
            let mut world = self.shared.lock();
            let now = world.now();
            world.trace.note(now, action.to_string());
        }
        match action {
            Action::Cut { server, requests, answers, seconds } => {
                self.cut(server, *requests, *answers, *seconds);
            }
            Action::Lag { server, resource, millis, seconds } => {
                let key: (String, Arc<str>) = (server.clone(), resource.as_str().into());
                let (until, millis) = (key.clone(), *millis);
                self.shared.lock().change_network(|network| {
                    network.watch_lag.insert(key, millis);
                });
                self.after(*seconds, move |network| {
                    network.watch_lag.remove(&until);
                });
            }
            Action::Outage { server, method, plural, code, seconds } => {
                let outage = Outage {
                    server: server.clone(),
                    method: method.clone(),
                    plural: plural.clone(),
                    code: *code,
                };
                let ends = outage.clone();
                self.shared.lock().change_network(|network| {
                    network.outages.push(outage);
                    network.reset(&ends.server);
                });
                let ends = ends.clone();
                self.after(*seconds, move |network| network.outages.retain(|known| *known != ends));
            }
            Action::Storm { weather, seconds } => {
                self.shared.lock().change_network(|network| network.weather = *weather);
                self.after(*seconds, |network| {
                    network.weather = crate::network::Weather::default();
                });
            }
            Action::Kill { seconds } => self.kill(*seconds),
            Action::Suspend { seconds } => self.suspend(*seconds),
            Action::SecondHub => self.start_hub(HUB),
            Action::CloneHub => self.clone_hub(),
            Action::BackUp { server } => {
                let backup = self.shared.lock().servers.get(server).cloned();
                self.backups.extend(backup.map(|backup| (server.clone(), backup)));
            }
            Action::Restore { server } => self.restore(server),
            Action::Reset { server } => self.reset(server),
            Action::Unserve { server, resource, seconds } => {
                self.unserve(server, resource, *seconds);
            }
            Action::OtherVersion { server, resource, version, seconds } => {
                self.serve_other_version(server, resource, version, *seconds);
            }
            Action::RemoveDefinition { server, resource, seconds } => {
                self.remove_definition(server, resource, *seconds);
            }
            Action::ClockJump { seconds } => {
                limen_sync::clock::jump(jiff::SignedDuration::from_secs(*seconds));
            }
            Action::Rival { server, kind, namespace, name, seconds } => {
                let key = Key::new(plural(kind), namespace, name);
                tokio::spawn(rival(self.shared.clone(), server.clone(), key, *seconds));
            }
            Action::SlowFinalizer { server, kind, namespace, name, seconds } => {
                let key = Key::new(plural(kind), namespace, name);
                self.keep_from_going(server, key, *seconds);
            }
            _ => people_act(&mut self.shared.lock(), action),
        }
    }

    /// Changes the network when some time has passed.
    fn after(&self, seconds: u64, change: impl FnOnce(&mut Network) + Send + 'static) {
        let shared = self.shared.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            shared.lock().change_network(change);
        });
    }

    fn cut(&self, server: &str, requests: bool, answers: bool, seconds: u64) {
        self.shared.lock().change_network(|network| {
            if requests {
                cut(&mut network.requests_cut, server);
            }
            if answers {
                cut(&mut network.answers_cut, server);
            }
        });
        let server = server.to_owned();
        let from = self.shared.lock().now();
        self.after(seconds, move |network| {
            network.absences.push((server.clone(), from, from + seconds * 1000));
            if requests {
                mend(&mut network.requests_cut, &server);
            }
            if answers {
                mend(&mut network.answers_cut, &server);
            }
            network.reset(&server);
        });
    }

    fn kill(&mut self, seconds: u64) {
        let Some((_, hub)) = self.hubs.pop_first() else { return };
        let store = hub.store.clone();
        hub.kill(&self.shared);
        self.processes += 1;
        // The place of the next process is taken, so that its number does not depend on time.
        let (id, shared, elects) = (self.processes, self.shared.clone(), self.elects);
        let (started, starting) = tokio::sync::oneshot::channel();
        let from = self.shared.lock().now();
        self.after(seconds, move |network| {
            network.absences.push((HUB.to_owned(), from, from + seconds * 1000));
        });
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            let _ = started.send(Hub::start(&shared, id, &store, elects));
        });
        self.pending.push(starting);
    }

    fn suspend(&self, seconds: u64) {
        let Some(id) = self.hubs.keys().next().copied() else { return };
        self.shared.lock().change_network(|network| {
            network.processes.insert(id, Process::Suspended);
        });
        let from = self.shared.lock().now();
        self.after(seconds, move |network| {
            network.absences.push((HUB.to_owned(), from, from + seconds * 1000));
            if network.process(id) == Process::Suspended {
                network.processes.insert(id, Process::Running);
            }
        });
    }

    fn clone_hub(&mut self) {
        self.clones += 1;
        let store = format!("{HUB}-copy-{}", self.clones);
        {
            let mut world = self.shared.lock();
            let Some(mut copy) = world.servers.get(HUB).cloned() else { return };
            copy.name.clone_from(&store);
            copy.compact();
            world.servers.insert(store.clone(), copy);
        }
        self.start_hub(&store);
    }

    fn restore(&mut self, server: &str) {
        let Some(backup) = self.backups.get(server) else { return };
        // A hub does not survive its store.
        if server == HUB {
            let ids: Vec<u32> = self.hubs.keys().copied().collect();
            for id in ids {
                self.hubs.remove(&id).into_iter().for_each(|hub| hub.kill(&self.shared));
            }
        }
        {
            let mut world = self.shared.lock();
            if let Some(api) = world.servers.get_mut(server) {
                api.restore(backup);
            }
            if server == HUB {
                let world = &mut *world;
                let hub = world.servers.get(HUB);
                hub.into_iter().for_each(|hub| world.laws.truth.hub_restored(hub));
            }
            world.change_network(|network| network.reset(server));
        }
        if server == HUB {
            self.start_hub(HUB);
        }
    }

    /// An API stops serving a kind, and serves it again later with the objects that it had.
    fn unserve(&self, server: &str, resource: &str, seconds: u64) {
        let mut world = self.shared.lock();
        let kinds = world.servers.get_mut(server).map(|api| &mut api.kinds);
        if kinds.and_then(|kinds| kinds.remove(resource)).is_some() {
            world.change_network(|network| network.reset(server));
            self.serve_again(server, resource, seconds);
        }
    }

    /// An API serves a kind in another version than before, and as before later.
    fn serve_other_version(&self, server: &str, resource: &str, version: &str, seconds: u64) {
        let mut world = self.shared.lock();
        let Some(api) = world.servers.get_mut(server) else { return };
        let Some(kind) = api.kinds.get(resource) else { return };
        let other = Resource { version: version.to_owned(), ..(**kind).clone() };
        api.kinds.insert(Arc::new(other));
        world.change_network(|network| network.reset(server));
        self.serve_again(server, resource, seconds);
    }

    /// A kind goes with all its objects, and comes back later without them.
    fn remove_definition(&self, server: &str, resource: &str, seconds: u64) {
        self.shared.lock().change(server, |api, _| {
            let keys: Vec<Key> = api.of(resource).map(|(key, _)| key.clone()).collect();
            for key in keys {
                api.remove(&Actor::Cluster, &key, false, Cause::Collection);
            }
        });
        self.unserve(server, resource, seconds);
    }

    /// An API serves a kind as it did at first when some time has passed.
    fn serve_again(&self, server: &str, resource: &str, seconds: u64) {
        let Some(kind) = Kinds::member().get(resource).cloned() else { return };
        let (shared, server) = (self.shared.clone(), server.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            let mut world = shared.lock();
            if let Some(api) = world.servers.get_mut(&server) {
                api.kinds.insert(kind);
            }
            world.change_network(|network| network.reset(&server));
        });
    }

    /// A controller of a member adds a finalizer, and takes it off later.
    fn keep_from_going(&self, server: &str, key: Key, seconds: u64) {
        finalize(&self.shared, server, &key, true);
        let (shared, server) = (self.shared.clone(), server.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            finalize(&shared, &server, &key, false);
        });
    }

    fn reset(&mut self, server: &str) {
        self.resets += 1;
        let mut world = self.shared.lock();
        let fresh = Server::new(&format!("{server}-{}", self.resets + 1), Kinds::member());
        if let Some(api) = world.servers.get_mut(server) {
            *api = fresh;
            api.compact();
        }
        world.change_network(|network| network.reset(server));
    }
}

async fn rival(shared: Shared, server: String, key: Key, seconds: u64) {
    let ends = tokio::time::Instant::now() + Duration::from_secs(seconds);
    while tokio::time::Instant::now() < ends {
        tokio::time::sleep(RIVAL).await;
        shared.lock().change(&server, |api, _| {
            let Some(object) = api.get(&key).filter(|object| !is_terminating(object)) else {
                return;
            };
            let mut object = object.clone();
            edit(&mut object, "rival");
            api.put_as(&Actor::Person, &key, object, "rival");
        });
    }
}

fn finalize(shared: &Shared, server: &str, key: &Key, add: bool) {
    shared.lock().change(server, |api, _| {
        let Some(object) = api.get(key) else { return };
        let mut object = object.clone();
        let mut left: Vec<String> =
            finalizers(&object).filter(|name| *name != FINALIZER).map(str::to_owned).collect();
        if add && !is_terminating(&object) {
            left.push(FINALIZER.to_owned());
        }
        object["metadata"]["finalizers"] = left.into();
        api.put(&Actor::Cluster, key, object);
    });
}
