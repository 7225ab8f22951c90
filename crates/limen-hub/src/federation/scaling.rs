//! Workloads whose replicas belong to an autoscaler.
//!
//! The field is left to a member only while that member holds a synced leaf of an autoscaler for the
//! workload. Elsewhere the count of the root holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use limen_core::federated::ObjectId;
use serde_json::Value;

use super::World;
use super::planning::is_synced;

/// The field that an autoscaler owns.
const REPLICAS: &str = "/spec/replicas";

/// A workload as an autoscaler names it: namespace, kind, name.
type Target = (String, String, String);

/// Which autoscalers there are for which workloads.
#[derive(Default)]
pub(super) struct Scaling {
    targets: BTreeMap<ObjectId, Target>,
    scalers: BTreeMap<Target, Vec<ObjectId>>,
}

impl Scaling {
    /// Notes what an autoscaler is for by now, and returns what it was for before.
    fn set(&mut self, scaler: &ObjectId, target: Option<Target>) -> Option<Target> {
        let before = self.targets.remove(scaler);
        if let Some(scalers) = before.as_ref().and_then(|before| self.scalers.get_mut(before)) {
            scalers.retain(|known| known != scaler);
        }
        if let Some(target) = target {
            self.scalers.entry(target.clone()).or_default().push(scaler.clone());
            self.targets.insert(scaler.clone(), target);
        }
        self.scalers.retain(|_, scalers| !scalers.is_empty());
        before
    }
}

impl World {
    /// An autoscaler is new or changed: what it was for and what it is for are planned anew.
    pub(super) fn scaling_changed(&mut self, id: &ObjectId) {
        let Some(root) = self.roots.get(id) else { return };
        let target = &root.object["spec"]["scaleTargetRef"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let namespace = id.namespace.clone().unwrap_or_default();
        let target = (namespace, text(&target["kind"]), text(&target["name"]));
        let before = self.scaling.set(id, Some(target.clone()));
        for target in before.into_iter().chain([target]) {
            self.scaled_dirty(&target);
        }
    }

    pub(super) fn scaling_gone(&mut self, id: &ObjectId) {
        if let Some(before) = self.scaling.set(id, None) {
            self.scaled_dirty(&before);
        }
    }

    /// A leaf of an autoscaler came to be synced in a member, or ceased to be.
    pub(super) fn scaler_reported(&mut self, id: &ObjectId) {
        if let Some(target) = self.scaling.targets.get(id).cloned() {
            self.scaled_dirty(&target);
        }
    }

    fn scaled_dirty(&mut self, (namespace, kind, name): &Target) {
        let inside = |id: &&Arc<ObjectId>| {
            let leaf = self.leaf_of(id);
            leaf.namespace.as_ref() == Some(namespace)
                && leaf.kind.kind == *kind
                && leaf.name == *name
        };
        let targets: Vec<_> = self.roots.keys().filter(inside).cloned().collect();
        self.dirty.extend(targets);
    }

    /// The fields of a leaf that belong to another controller, by member.
    pub(super) fn handed_over(&self, leaf: &ObjectId) -> BTreeMap<String, Vec<String>> {
        let namespace = leaf.namespace.clone().unwrap_or_default();
        let target = (namespace, leaf.kind.kind.clone(), leaf.name.clone());
        let mut fields = BTreeMap::new();
        let scalers = self.scaling.scalers.get(&target).into_iter().flatten();
        for root in scalers.filter_map(|id| self.roots.get(id)) {
            for (name, report) in &root.reports {
                if is_synced(report.state) && report.held_for.is_some() {
                    fields.insert(name.to_string(), vec![REPLICAS.to_owned()]);
                }
            }
        }
        fields
    }
}
