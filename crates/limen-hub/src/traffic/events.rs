//! Events of the hub's watches, as far as they concern traffic.

use std::sync::Arc;

use limen_api::{Edge, FederatedIngress, GlobalIngress, TrafficPolicy};
use limen_core::compile::{Key, Root};
use limen_core::federated::ObjectId;
use limen_core::leaf::ROOT_LABEL;
use serde::Deserialize;
use serde_json::Value;

use super::compiling::RootEntry;
use super::{RootKind, Traffic, Written, global_key, root_kind, roots_of};
use crate::hub_kind::HubKind;
use crate::outbox::Record;

impl Traffic {
    /// Every object of a kind that is remembered, by namespace and name.
    pub(crate) fn known(&self, kind: HubKind) -> Vec<Key> {
        let bare = |name: &str| (String::new(), name.to_owned());
        match kind {
            HubKind::Edge => self.edges.keys().map(|name| bare(name)).collect(),
            HubKind::TrafficPolicy => self.policies.keys().cloned().collect(),
            HubKind::GlobalIngress => self.globals.keys().chain(&self.foreign).cloned().collect(),
            HubKind::Root(kind) => {
                let of_kind = self.roots.keys().filter(|id| root_kind(id) == kind);
                of_kind.map(|id| key(id)).collect()
            }
            HubKind::Secret => self.known_secrets().collect(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn changed(&mut self, kind: HubKind, id: &ObjectId, object: &Arc<Value>) {
        match kind {
            HubKind::Edge => {
                if let Ok(edge) = Edge::deserialize(&**object) {
                    self.edge_changed(id.name.clone(), edge);
                }
            }
            HubKind::TrafficPolicy => match TrafficPolicy::deserialize(&**object) {
                Ok(policy) => self.policy_changed(key(id), policy),
                Err(error) => {
                    tracing::warn!(name = id.name, %error, "cannot read a TrafficPolicy");
                }
            },
            HubKind::GlobalIngress => self.global_changed(key(id), object),
            HubKind::Root(RootKind::Ingress) => {
                let root = Root::of_ingress(object).map_err(|error| error.to_string());
                self.root_changed(id, object, root);
            }
            HubKind::Root(RootKind::FederatedIngress) => {
                let root = match FederatedIngress::deserialize(&**object) {
                    Ok(read) => read.root().map_err(|error| error.to_string()),
                    Err(error) => Err(error.to_string()),
                };
                self.root_changed(id, object, root);
            }
            HubKind::Root(RootKind::Service) => match Root::of_service(object) {
                Some(root) => self.root_changed(id, object, Ok(root)),
                None => self.root_gone(id),
            },
            HubKind::Secret => self.secret_changed(key(id), object),
            _ => {}
        }
    }

    pub(crate) fn gone(&mut self, kind: HubKind, id: &ObjectId) {
        match kind {
            HubKind::Edge => {
                self.edges.remove(&id.name);
                self.heard.remove(&id.name);
                self.see_who_lives();
            }
            HubKind::TrafficPolicy => self.policy_gone(&key(id)),
            HubKind::GlobalIngress => {
                let key = key(id);
                self.foreign.remove(&key);
                self.secrets_named(&key, std::iter::empty());
                // Somebody deleted it; what is ready is written again.
                if self.globals.remove(&key).is_some() {
                    self.roots_dirty(&key);
                }
            }
            HubKind::Root(_) => self.root_gone(id),
            HubKind::Secret => self.secret_gone(&key(id)),
            _ => {}
        }
    }

    /// The GlobalIngress of a root is not as it was.
    fn roots_dirty(&mut self, global: &Key) {
        for id in roots_of(global).map(Arc::new) {
            self.keep_in_force(&id);
            self.dirty.insert(id);
        }
    }

    fn global_changed(&mut self, key: Key, object: &Value) {
        let read = GlobalIngress::deserialize(object);
        if let Ok(read) = &read {
            // Gateways obey all of them.
            self.secrets_named(&key, read.spec.global.secrets().map(str::to_owned));
        }
        let Some(root_uid) = object["metadata"]["labels"][ROOT_LABEL].as_str() else {
            self.foreign.insert(key);
            return;
        };
        let Ok(read) = read else { return };
        let conditions = read.status.map(|status| status.conditions).unwrap_or_default();
        // One copy of what is as it was compiled.
        let ids = roots_of(&key);
        let mut compiled = ids.iter().filter_map(|id| self.roots.get(id)?.compiled.as_ref());
        let same = compiled.find(|compiled| ***compiled == read.spec.global).cloned();
        let written = Written {
            root_uid: root_uid.to_owned(),
            uid: read.metadata.uid.unwrap_or_default(),
            version: read.metadata.resource_version,
            global: same.unwrap_or_else(|| Arc::new(read.spec.global)),
            conditions,
        };
        let before = self.globals.insert(key.clone(), written);
        let changed = before.is_none_or(|before| before.global != self.globals[&key].global);
        if changed {
            self.roots_dirty(&key);
        }
    }

    fn root_changed(&mut self, id: &ObjectId, object: &Arc<Value>, root: Result<Root, String>) {
        let id = Arc::new(id.clone());
        let known = RootEntry::new(object.clone(), root, self.domain.as_deref());
        if let Some(before) = self.roots.get_mut(&id).filter(|before| before.same(&known)) {
            let other_host = before.made_host() != known.made_host();
            before.object = known.object;
            if other_host && before.compiled.is_some() {
                self.serve(&id, true);
            }
            return;
        }
        self.forget(&id);
        self.remember(id, known);
    }

    fn root_gone(&mut self, id: &ObjectId) {
        self.forget(id);
        self.records.push(Record::Global(global_key(id)));
    }

    /// Compiled objects whose root went while nobody looked.
    pub(super) fn drop_orphans(&mut self) {
        for key in self.globals.keys() {
            if !roots_of(key).iter().any(|id| self.roots.contains_key(id) && global_key(id) == *key)
            {
                self.records.push(Record::Global(key.clone()));
            }
        }
    }
}

fn key(id: &ObjectId) -> Key {
    (id.namespace.clone().unwrap_or_default(), id.name.clone())
}
