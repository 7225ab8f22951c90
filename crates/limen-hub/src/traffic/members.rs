//! Members: their clients, what they hold, and what edges say of them.

use std::sync::Arc;

use limen_api::{Cluster, PodNetwork};
use limen_core::compile::{Member, Touched, drained_percent};
use limen_core::global::Verdict;
use limen_core::locality::Locality;
use limen_sync::{ObjectApi, Observation, Observed};
use tokio::task::{AbortHandle, JoinSet};

use super::{World, now};
use crate::clusters::UNJOIN_ANNOTATION;
use crate::connections::{MadeFrom, made_from};

/// How a member is observed.
pub(super) struct Link {
    pub(super) cluster: Cluster,
    /// What the client was made from; a change makes a new one.
    connected_with: Option<MadeFrom>,
    /// Kept for as long as the member is observed, so that others share it.
    client: Option<Arc<ObjectApi>>,
    /// The number of the client: news of older ones come too late.
    connection: u64,
    observer: Option<AbortHandle>,
}

/// A client for a member, or why there is none.
pub(super) struct Connected {
    cluster: Arc<str>,
    connection: u64,
    client: Result<Arc<ObjectApi>, String>,
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(observer) = &self.observer {
            observer.abort();
        }
    }
}

impl World {
    pub(super) fn cluster_changed(&mut self, cluster: Cluster) {
        let name: Arc<str> = cluster.metadata.name.clone().unwrap_or_default().into();
        let new = !self.links.contains_key(&name);
        match self.links.get_mut(&name) {
            Some(link) => link.cluster = cluster,
            None => {
                let link = Link {
                    cluster,
                    connected_with: None,
                    client: None,
                    connection: 0,
                    observer: None,
                };
                self.links.insert(name.clone(), link);
                self.members.insert(name.clone(), Member::default());
            }
        }
        self.reconnect = true;
        if self.describe(&name) || new {
            self.all_dirty();
        }
        if new {
            self.publish = true;
            self.judge_policies();
        }
    }

    pub(super) fn cluster_gone(&mut self, name: &str) {
        self.links.remove(name);
        self.members.remove(name);
        self.publish = true;
        self.all_dirty();
        self.judge_policies();
    }

    /// Takes over what a Cluster says of itself. Returns whether that is news.
    fn describe(&mut self, name: &Arc<str>) -> bool {
        let (Some(link), Some(member)) = (self.links.get(name), self.members.get_mut(name)) else {
            return false;
        };
        let (spec, status) = (&link.cluster.spec, link.cluster.status.clone().unwrap_or_default());
        let annotations = link.cluster.metadata.annotations.as_ref();
        let leaving = annotations.is_some_and(|all| all.contains_key(UNJOIN_ANNOTATION));
        let schedule = spec.drain_schedule.map(|plan| (plan.started_at, plan.over_seconds));
        let drained = match leaving || link.cluster.metadata.deletion_timestamp.is_some() {
            true => 100,
            false => drained_percent(spec.drain, schedule, now()),
        };
        let described = (
            Locality {
                region: spec.region.clone().or(status.region),
                zone: spec.zone.clone().or(status.zone),
                coordinates: spec.coordinates,
            },
            spec.pod_network == PodNetwork::Reachable,
            drained,
            status.verdicts.map_or(Verdict::Unknown, |verdicts| verdicts.api.verdict),
        );
        let before = (
            std::mem::take(&mut member.locality),
            member.pods_reachable,
            member.drained_percent,
            member.api,
        );
        let news = before != described;
        (member.locality, member.pods_reachable, member.drained_percent, member.api) = described;
        news
    }

    /// Time has passed: drains and canaries may have moved on, and what was odd may have lasted.
    pub(super) fn tick(&mut self) {
        let draining = |link: &Link| link.cluster.spec.drain_schedule.is_some();
        let draining: Vec<Arc<str>> = self
            .links
            .iter()
            .filter(|(_, link)| draining(link))
            .map(|(name, _)| name.clone())
            .collect();
        let mut moved = false;
        for name in draining {
            moved |= self.describe(&name);
        }
        let time = now();
        for member in self.members.values_mut() {
            moved |= member.expire_losses(time);
        }
        if moved {
            self.all_dirty();
        }
        while self.odd_until.first().is_some_and(|(due, _)| *due <= time) {
            self.dirty.extend(self.odd_until.pop_first().map(|(_, id)| id));
        }
        if self.complete() {
            self.move_canaries();
        }
        self.judge_edges();
    }

    /// Makes a client for each member whose address or credential has changed.
    pub(super) fn connect(&mut self, connections: &mut JoinSet<Connected>) {
        if !std::mem::take(&mut self.reconnect) {
            return;
        }
        for (name, link) in &mut self.links {
            let credentials = link.cluster.spec.credentials.as_ref();
            let secret = credentials.and_then(|named| self.secrets.get(&named.name)).cloned();
            let with = made_from(&link.cluster, secret.as_ref());
            if link.connected_with.as_ref() == Some(&with) {
                continue;
            }
            link.connected_with = Some(with);
            link.connection += 1;
            let (name, cluster, connection) = (name.clone(), link.cluster.clone(), link.connection);
            let known = self.options.connections.clone();
            connections.spawn(async move {
                let client = known.to(&cluster, secret.as_ref()).await;
                let client = client.map_err(|error| error.to_string());
                Connected { cluster: name, connection, client }
            });
        }
    }

    pub(super) fn connected(&mut self, made: Connected) {
        let Some(link) = self.links.get_mut(&made.cluster) else { return };
        if link.connection != made.connection {
            return;
        }
        if let Some(observer) = link.observer.take() {
            observer.abort();
        }
        link.client = None;
        match made.client {
            // The cluster's own conditions say so too.
            Err(error) => tracing::warn!(cluster = %made.cluster, error, "cannot be observed"),
            Ok(client) => {
                let observing = limen_sync::observe(
                    (*client).clone(),
                    made.cluster,
                    made.connection,
                    self.observers.clone(),
                );
                link.client = Some(client);
                link.observer = Some(self.watchers.spawn(observing));
            }
        }
    }

    pub(super) fn observe(&mut self, observation: Observation) {
        let cluster = observation.cluster;
        if self.links.get(&cluster).is_none_or(|link| link.connection != observation.connection) {
            return;
        }
        let Some(member) = self.members.get_mut(&cluster) else { return };
        let touched = match observation.what {
            Observed::State(kind, objects) => member.state(kind, objects),
            Observed::Changed(key, digest) => member.changed(key, digest),
            Observed::Gone(kind, key) => member.gone(kind, &key),
            Observed::Lost(kind) => match member.lose(kind, now()) {
                true => {
                    tracing::warn!(%cluster, kind = kind.name(), "watch fails; targets are stale");
                    vec![Touched::Everything]
                }
                false => Vec::new(),
            },
        };
        for touched in touched {
            let concerned = match touched {
                Touched::Service(key) => self.by_service.get(&key),
                Touched::Ingress(key) => self.by_ingress.get(&key),
                Touched::Nodes | Touched::Everything => {
                    self.dirty.extend(self.roots.keys().cloned());
                    continue;
                }
            };
            self.dirty.extend(concerned.into_iter().flatten().cloned());
        }
    }
}
