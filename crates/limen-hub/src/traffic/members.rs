//! Members: what they hold, and what edges say of them.

use std::sync::Arc;

use limen_api::{Cluster, PodNetwork};
use limen_core::compile::{Member, Touched, drained_percent};
use limen_core::global::Verdict;
use limen_core::locality::Locality;
use limen_sync::{Observation, Observed};

use super::{Traffic, now};
use crate::clusters::UNJOIN_ANNOTATION;

impl Traffic {
    /// A member is new or changed.
    pub(crate) fn cluster_changed(&mut self, name: &Arc<str>, cluster: Arc<Cluster>) {
        let new = self.clusters.insert(name.clone(), cluster).is_none();
        if new {
            self.members.insert(name.clone(), Member::default());
        }
        if self.describe(name) || new {
            self.all_dirty();
        }
        if new {
            self.publish = true;
            self.judge_policies();
        }
    }

    pub(crate) fn cluster_gone(&mut self, name: &str) {
        self.clusters.remove(name);
        self.members.remove(name);
        self.publish = true;
        self.all_dirty();
        self.judge_policies();
    }

    /// Takes over what a Cluster says of itself. Returns whether that is news.
    fn describe(&mut self, name: &Arc<str>) -> bool {
        let (Some(cluster), Some(member)) = (self.clusters.get(name), self.members.get_mut(name))
        else {
            return false;
        };
        let (spec, status) = (&cluster.spec, cluster.status.clone().unwrap_or_default());
        let annotations = cluster.metadata.annotations.as_ref();
        let leaving = annotations.is_some_and(|all| all.contains_key(UNJOIN_ANNOTATION));
        let schedule = spec.drain_schedule.map(|plan| (plan.started_at, plan.over_seconds));
        let drained = match leaving || cluster.metadata.deletion_timestamp.is_some() {
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
    pub(crate) fn tick(&mut self) {
        let draining =
            |(_, cluster): &(&Arc<str>, &Arc<Cluster>)| cluster.spec.drain_schedule.is_some();
        let draining = self.clusters.iter().filter(draining);
        let draining: Vec<Arc<str>> = draining.map(|(name, _)| name.clone()).collect();
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
        if self.complete {
            self.move_canaries();
        }
        self.judge_edges();
    }

    /// Takes an observation of a member's present connection.
    pub(crate) fn observe(&mut self, observation: Observation) {
        let cluster = observation.cluster;
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
