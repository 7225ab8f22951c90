//! Workloads whose replicas belong to an autoscaler.
//!
//! The field is left to a member only while that member holds the leaf of an autoscaler for the
//! workload, and nothing is sent there while that is not known. Elsewhere the count of the root holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use limen_core::federated::ObjectId;
use serde_json::Value;

use super::Federation;

/// The field that an autoscaler owns.
const REPLICAS: &str = "/spec/replicas";

/// The workload that an autoscaler is for. Only group, kind, namespace and name identify it.
type Target = ObjectId;

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

impl Federation {
    /// An autoscaler is new or changed: what it was for and what it is for are planned anew.
    pub(super) fn scaling_changed(&mut self, id: &ObjectId) {
        let Some(root) = self.roots.get(id) else { return };
        let target = &root.object["spec"]["scaleTargetRef"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let api_version = target["apiVersion"].as_str().unwrap_or("apps/v1");
        let target = ObjectId {
            kind: limen_api::kind((api_version, &text(&target["kind"]), "", true)),
            namespace: id.namespace.clone(),
            name: text(&target["name"]),
        };
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

    fn scaled_dirty(&mut self, target: &Target) {
        self.dirty.extend(self.owners.get(target).cloned());
    }

    /// Autoscaler leaves of a member were listed anew: plans their targets again.
    pub(super) fn all_scaled_dirty(&mut self) {
        let targets: Vec<_> = self.scaling.scalers.keys().cloned().collect();
        targets.iter().for_each(|target| self.scaled_dirty(target));
    }

    /// Whether there is an autoscaler for a leaf.
    pub(super) fn is_scaled(&self, leaf: &ObjectId) -> bool {
        self.scaling.scalers.contains_key(leaf)
    }

    /// The fields of a leaf that belong to another controller, by member.
    pub(super) fn handed_over(&self, leaf: &ObjectId) -> BTreeMap<Arc<str>, Vec<String>> {
        let mut fields = BTreeMap::new();
        let scalers = self.scaling.scalers.get(leaf).into_iter().flatten();
        for root in scalers.filter_map(|id| self.roots.get(id)) {
            for (name, report) in &root.reports {
                if report.held_for.as_deref() == Some(root.uid()) {
                    fields.insert(name.clone(), vec![REPLICAS.to_owned()]);
                }
            }
        }
        fields
    }
}
