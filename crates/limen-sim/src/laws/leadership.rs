//! Laws 7 and 8: one hub at a time writes to a member, under one name.

use std::collections::BTreeMap;

use super::{Laws, Scene, since};
use crate::actor::Actor;
use crate::api::{Key, Server, annotation};
use crate::trace::Trace;
use crate::world::HUB;

/// The annotation with the writer's epoch and revision.
const EPOCH: &str = "limen.dev/epoch";
/// How long a lease lasts after its last renewal, in milliseconds.
const LEASE: u64 = 15_000;

/// Writers of each member.
#[derive(Default)]
pub(super) struct Writers {
    /// The newest epoch that each member has seen.
    epochs: BTreeMap<String, (u64, u64)>,
    /// The last write to each member by each hub process, with the store that it has.
    processes: BTreeMap<String, BTreeMap<u32, (String, u64)>>,
    /// The Cluster that last wrote to each member, and when.
    clusters: BTreeMap<String, (String, u64)>,
}

impl Laws {
    /// Judges a write at the moment it is sent: nothing is written after the lease's end.
    pub fn sent(
        &mut self,
        now: u64,
        server: &str,
        actor: &Actor,
        servers: &BTreeMap<String, Server>,
        trace: &mut Trace,
    ) {
        let Actor::Hub { process, .. } = actor else { return };
        let Some((store, true)) = self.processes.get(process) else { return };
        if server.starts_with(HUB) {
            return;
        }
        let lease = Key::new("leases.coordination.k8s.io", "limen-system", "limen-hub");
        let Some(lease) = servers.get(store).and_then(|store| store.get(&lease)) else { return };
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let age = self.renewed.get(store).map_or(0, |renewed| now.saturating_sub(*renewed));
        let ours = holder == crate::hub::identity(*process);
        if !ours || age > LEASE {
            let text = format!("hub {process} writes to {server} after its lease has ended");
            self.broken(now, 7, text, trace);
        }
    }

    /// Notes when the lease of a store was renewed, in true time.
    pub(super) fn note_renewal(&mut self, scene: &Scene<'_>) {
        let is_lease = &*scene.effect.key.resource == "leases.coordination.k8s.io";
        if is_lease && scene.after().is_some() {
            self.renewed.insert(scene.server.to_owned(), scene.sent.at);
        }
    }

    /// The store of the hub that wrote.
    pub(super) fn store_of(&self, scene: &Scene<'_>) -> Option<&str> {
        let Actor::Hub { process, .. } = &scene.effect.actor else { return None };
        self.processes.get(process).map(|(store, _)| store.as_str())
    }

    pub(super) fn leadership(&mut self, scene: &Scene<'_>, found: &mut Vec<(u8, String)>) {
        let Actor::Hub { process, cluster } = &scene.effect.actor else { return };
        let Some(member) = scene.member().map(Server::identity) else { return };
        if let Some(epoch) = scene.after().and_then(|leaf| annotation(leaf, EPOCH)) {
            let before = scene.before().and_then(|leaf| annotation(leaf, EPOCH));
            let (epoch, newest) =
                (parse(epoch), self.writers.epochs.entry(member.clone()).or_default());
            if epoch.0 < newest.0 && before.map(parse) != Some(epoch) {
                let text = format!(
                    "{} with epoch {}, after epoch {}",
                    scene.describe("writes"),
                    epoch.0,
                    newest.0
                );
                found.push((7, text));
            }
            *newest = epoch.max(*newest);
        }
        let Some((store, _)) = self.processes.get(process) else { return };
        // Of a store and its copy the later one to claim a member has it; the one that had it writes
        // no more.
        let writers = self.writers.processes.entry(member.clone()).or_default();
        let before = writers.get(process).map(|(_, at)| *at);
        let lost = before.and_then(|before| {
            let since = |at: u64| before < at && at < scene.sent.at;
            writers.values().find(|(rival, at)| rival != store && since(*at))
        });
        if let Some((rival, at)) = lost {
            let text = format!(
                "{} for store {store}, although a hub of store {rival} has had the cluster {}",
                scene.describe("writes"),
                since(*at)
            );
            found.push((8, text));
        }
        writers.insert(*process, (store.clone(), scene.now));
        let joined =
            scene.hub().and_then(|hub| hub.get(&Key::new("clusters.limen.dev", "", cluster)));
        let joined = joined.and_then(|cluster| cluster["spec"]["uid"].as_str());
        if joined.is_some_and(|uid| uid != member) {
            let text =
                format!("{}, which is not the cluster that joined", scene.describe("writes"));
            found.push((8, text));
        }
        let gone = |name: &str| {
            let known =
                scene.hub().and_then(|hub| hub.get(&Key::new("clusters.limen.dev", "", name)));
            known.is_none() || self.truth.leaving.contains(name)
        };
        if let Some((other, at)) = self.writers.clusters.get(&member)
            && other != cluster
            && !gone(other)
        {
            let text = format!(
                "{} as cluster {cluster}, and {} as cluster {other}",
                scene.describe("writes"),
                since(*at)
            );
            found.push((8, text));
        }
        self.writers.clusters.insert(member, (cluster.clone(), scene.now));
    }
}

fn parse(epoch: &str) -> (u64, u64) {
    let (epoch, revision) = epoch.split_once('.').unwrap_or((epoch, "0"));
    (epoch.parse().unwrap_or_default(), revision.parse().unwrap_or_default())
}
