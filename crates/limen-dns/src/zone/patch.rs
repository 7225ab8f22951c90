//! What has changed, where all names stay.
//!
//! Verdicts, addresses, weights and drains change many times an hour, names a few times a day. So
//! the usual change is this: some objects are others than before and claim the same hosts, or a
//! probe has found something else. Then the zones are those before with a few nodes replaced.
//! Whatever is more than that is left to [`Compiler::compile`].

use std::collections::BTreeMap;
use std::sync::Arc;

use limen_api::source::{Key, Objects};
use limen_core::global::Global;

use super::compile::{Compiler, Renewed};
use super::host::HostPlan;
use super::records::RrSet;
use super::services::{Federation, Services};
use super::standing::Judge;
use super::{Node, Nodes, Zones};
use crate::knowledge::Knowledge;
use crate::wire::name;

/// An object before and after a change.
type Changed<'a> = (&'a Key, &'a Arc<Global>, &'a Arc<Global>);

impl Compiler {
    /// The zones before, with what has changed. Nothing if more than that may be different.
    pub(super) fn patch(
        &mut self,
        objects: &Arc<Objects>,
        knowledge: &Knowledge,
        before: &Zones,
    ) -> Option<(Zones, Renewed)> {
        let last = self.last.take()?;
        let is_same = |one: &Objects, other: &Objects| {
            same(&one.zones, &other.zones) && same(&one.challenges, &other.challenges)
        };
        let (known, now) = (last.knowledge, knowledge.versions());
        // Names that Services lead to may have been looked up.
        let looked_up = known.1 != now.1 && !before.lookups.is_empty();
        if looked_up || !is_same(&last.objects, objects) {
            return None;
        }
        let changed = changed(&last.objects, objects)?;
        let mut fresh = Nodes::default();
        for (name, zone) in &last.federations {
            let federation = Federation { name, zone: &zone.zone, ttls: zone.ttls };
            add_services(&changed, &federation, knowledge, before, &mut fresh)?;
        }
        let mut judge = Judge::new(knowledge);
        let mut questions = false;
        for (name, plan) in self.plans(&changed, before)? {
            let node = before.nodes.get(&name)?;
            let host = node.host.as_ref();
            questions |= host.is_some_and(|host| !host.plan.asks_like(&plan));
            self.renew(&name, node, plan, &mut judge, before, &mut fresh);
        }
        if known != now {
            for (name, node) in &before.nodes {
                // Those that depend on what the server finds out.
                let plan = node.host.as_ref().map(|host| &host.plan).filter(|plan| plan.asks());
                if let Some(plan) = plan.filter(|_| !fresh.contains_key(name)) {
                    self.renew(name, node, plan.clone(), &mut judge, before, &mut fresh);
                }
            }
        }
        self.last = Some(super::compile::Last { objects: objects.clone(), knowledge: now, ..last });
        let mut zones: Vec<u16> = fresh.values().map(|node| node.zone).collect();
        zones.sort_unstable();
        zones.dedup();
        let mut patched = before.clone();
        patched.nodes.extend(fresh);
        Some((patched, Renewed::Some { zones, questions }))
    }

    /// The plans of all hosts that changed objects claim. Nothing if one of them is no host yet.
    fn plans(
        &mut self,
        changed: &[Changed<'_>],
        before: &Zones,
    ) -> Option<BTreeMap<Arc<[u8]>, Arc<HostPlan>>> {
        let mut plans: BTreeMap<Arc<[u8]>, Vec<Arc<Global>>> = BTreeMap::new();
        for (_, old, new) in changed {
            for rule in old.rules.iter().filter(|rule| !rule.host.is_empty()) {
                let Ok(name) = name::from_text(&rule.host) else { continue };
                // A host of somebody else's zones.
                let Some((name, node)) = before.nodes.get_key_value(&*name) else { continue };
                let host = node.host.as_ref()?;
                let globals =
                    plans.entry(name.clone()).or_insert_with(|| host.plan.globals.clone());
                for global in globals.iter_mut().filter(|global| Arc::ptr_eq(global, old)) {
                    *global = (*new).clone();
                }
            }
        }
        let plan = |(name, globals): (Arc<[u8]>, Vec<Arc<Global>>)| {
            let known = &before.nodes.get(&name)?.host.as_ref()?.plan;
            let plan = HostPlan::new(&known.name, &globals, known.alone, &mut self.in_common);
            Some((name, Arc::new(plan)))
        };
        plans.into_iter().map(plan).collect()
    }

    /// Makes the host of a node anew, if it is another than before.
    fn renew(
        &mut self,
        name: &Arc<[u8]>,
        node: &Node,
        plan: Arc<HostPlan>,
        judge: &mut Judge<'_>,
        before: &Zones,
        fresh: &mut Nodes,
    ) {
        let ttls = before.apexes[usize::from(node.zone)].ttls;
        let known = node.host.as_ref();
        let host = self.host(known, plan, judge, ttls);
        if known.is_none_or(|known| !Arc::ptr_eq(known, &host)) {
            fresh.insert(name.clone(), Node { host: Some(host), ..node.clone() });
        }
    }
}

/// Whether two maps hold the very same things.
fn same<T>(one: &BTreeMap<Key, Arc<T>>, other: &BTreeMap<Key, Arc<T>>) -> bool {
    let mut both = one.iter().zip(other);
    one.len() == other.len()
        && both.all(|((key, one), (other_key, other))| key == other_key && Arc::ptr_eq(one, other))
}

/// All objects that are others than before. Nothing if there are more or fewer of them, or one of
/// them claims other hosts.
fn changed<'a>(before: &'a Objects, now: &'a Objects) -> Option<Vec<Changed<'a>>> {
    if before.ingresses.len() != now.ingresses.len() {
        return None;
    }
    let mut changed = Vec::new();
    for ((key, old), (new_key, new)) in before.ingresses.iter().zip(&now.ingresses) {
        if key != new_key {
            return None;
        }
        if Arc::ptr_eq(old, new) {
            continue;
        }
        let hosts = |global: &'a Global| global.rules.iter().map(|rule| &rule.host);
        if !hosts(old).eq(hosts(new)) {
            return None;
        }
        changed.push((key, old, new));
    }
    Some(changed)
}

/// Names of changed Services that lead elsewhere than before. Nothing if there are other names.
fn add_services(
    changed: &[Changed<'_>],
    federation: &Federation<'_>,
    knowledge: &Knowledge,
    before: &Zones,
    fresh: &mut Nodes,
) -> Option<()> {
    for (key, old, new) in changed {
        let made = |global: &Arc<Global>| {
            let mut services = Services::default();
            services.add_one(key, global, federation, knowledge);
            services
        };
        let (old, new) = (made(old), made(new));
        let clean = |one: &Services| one.problems.is_empty() && one.lookups.is_empty();
        if !clean(&old) || !clean(&new) || !old.records.keys().eq(new.records.keys()) {
            return None;
        }
        for ((name, old), (_, new)) in old.records.iter().zip(&new.records) {
            let node = before.nodes.get(name)?;
            // What somebody wrote into a DnsZone comes first.
            let ours = |sets: &[RrSet], node: &Node| node.host.is_none() && *node.records == *sets;
            if old != new && ours(old, node) {
                let records = new.clone().into();
                fresh.insert(name.clone(), Node { records, ..node.clone() });
            }
        }
    }
    Some(())
}
