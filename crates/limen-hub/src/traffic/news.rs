//! What the hub's own watches tell.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use limen_api::{Cluster, Edge, FederatedIngress, GlobalIngress, NAMESPACE, TrafficPolicy};
use limen_core::compile::{Key, Root};
use limen_core::federated::Kind;
use limen_core::leaf::ROOT_LABEL;
use limen_sync::Seen;
use serde_json::Value;

use super::compiling::Known;
use super::{Record, RootId, RootKind, World, Written};
use crate::federation::secret_data;

const GROUP: &str = "limen.dev/v1alpha1";

/// The kinds of the hub that matter.
pub(super) fn kinds() -> &'static [Arc<Kind>; 8] {
    static KINDS: LazyLock<[Arc<Kind>; 8]> = LazyLock::new(|| {
        [
            (GROUP, "Cluster", "clusters", false),
            (GROUP, "Edge", "edges", false),
            (GROUP, "TrafficPolicy", "trafficpolicies", true),
            (GROUP, "FederatedIngress", "federatedingresses", true),
            (GROUP, "GlobalIngress", "globalingresses", true),
            ("networking.k8s.io/v1", "Ingress", "ingresses", true),
            ("v1", "Service", "services", true),
            ("v1", "Secret", "secrets", true),
        ]
        .map(limen_api::kind)
    });
    &KINDS
}

fn key(object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

impl World {
    pub(super) fn see(&mut self, kind: &Arc<Kind>, seen: Seen) {
        match seen {
            Seen::State(objects, _) => {
                let mut gone = self.known(&kind.kind);
                for object in objects {
                    gone.remove(&key(&object));
                    self.changed(&kind.kind, object);
                }
                for key in gone {
                    self.gone(&kind.kind, &key);
                }
                self.listed.insert(kind.clone());
                if self.complete() {
                    // Before anything is compiled: what edges said last is not news.
                    self.judge_edges();
                    self.judge_policies();
                    self.drop_orphans();
                    self.look_at_copies();
                }
            }
            Seen::Changed(object) => self.changed(&kind.kind, object),
            Seen::Gone(object) => self.gone(&kind.kind, &key(&object)),
            // A hub has all these kinds. Without one that was not read, what belongs to its objects
            // would be taken for left behind, and dropped.
            Seen::UnknownKind => {
                tracing::warn!(kind = kind.kind, "the hub does not know the kind; trying again");
            }
            Seen::Bookmark(_) | Seen::OtherVersions(_) => {}
            Seen::Lost(error) => {
                tracing::warn!(kind = kind.kind, %error, "the hub cannot be watched; trying again");
            }
        }
    }

    /// Every object of a kind that is remembered.
    fn known(&self, kind: &str) -> BTreeSet<Key> {
        let bare = |name: &str| (String::new(), name.to_owned());
        let roots = |wanted: RootKind| {
            let of_kind = self.roots.keys().filter(move |id| id.kind == wanted);
            of_kind.map(|id| (id.namespace.clone(), id.name.clone())).collect()
        };
        match kind {
            "Cluster" => self.links.keys().map(|name| bare(name)).collect(),
            "Edge" => self.edges.keys().map(|name| bare(name)).collect(),
            "TrafficPolicy" => self.policies.keys().cloned().collect(),
            "GlobalIngress" => self.globals.keys().chain(&self.foreign).cloned().collect(),
            "Ingress" => roots(RootKind::Ingress),
            "FederatedIngress" => roots(RootKind::FederatedIngress),
            "Service" => roots(RootKind::Service),
            _ => {
                let names = self.secrets.keys();
                let names = names.map(|name| (NAMESPACE.to_owned(), name.clone()));
                names.chain(self.known_secrets()).collect()
            }
        }
    }

    fn changed(&mut self, kind: &str, object: Value) {
        let key = key(&object);
        match kind {
            "Cluster" => match serde_json::from_value::<Cluster>(object) {
                Ok(cluster) => self.cluster_changed(cluster),
                Err(error) => tracing::warn!(name = key.1, %error, "a Cluster is not understood"),
            },
            "Edge" => {
                if let Ok(edge) = serde_json::from_value::<Edge>(object) {
                    self.edge_changed(key.1, edge);
                }
            }
            "TrafficPolicy" => match serde_json::from_value::<TrafficPolicy>(object) {
                Ok(policy) => self.policy_changed(key, policy),
                Err(error) => {
                    tracing::warn!(name = key.1, %error, "a TrafficPolicy is not understood");
                }
            },
            "GlobalIngress" => self.global_changed(key, &object),
            "Ingress" => {
                let root = Root::of_ingress(&object).map_err(|error| error.to_string());
                self.root_changed(RootKind::Ingress, &key, object, root);
            }
            "FederatedIngress" => {
                let read = serde_json::from_value::<FederatedIngress>(object.clone());
                let root = match read {
                    Ok(read) => read.root().map_err(|error| error.to_string()),
                    Err(error) => Err(error.to_string()),
                };
                self.root_changed(RootKind::FederatedIngress, &key, object, root);
            }
            "Service" => match Root::of_service(&object) {
                Some(root) => self.root_changed(RootKind::Service, &key, object, Ok(root)),
                None => self.root_gone(&id(RootKind::Service, &key)),
            },
            _ if key.0 == NAMESPACE => {
                self.secrets.insert(key.1, secret_data(&object));
                self.reconnect = true;
            }
            "Secret" => self.secret_changed(key, &object),
            _ => {}
        }
    }

    fn gone(&mut self, kind: &str, key: &Key) {
        match kind {
            "Cluster" => self.cluster_gone(&key.1),
            "Edge" => {
                self.edges.remove(&key.1);
                self.heard.remove(&key.1);
                self.see_who_lives();
            }
            "TrafficPolicy" => self.policy_gone(key),
            "GlobalIngress" => {
                self.foreign.remove(key);
                self.secrets_named(key, std::iter::empty());
                // Somebody deleted it; what is ready is written again.
                if self.globals.remove(key).is_some() {
                    let ids = roots_of(key);
                    ids.iter().for_each(|id| self.keep_in_force(id));
                    self.dirty.extend(ids);
                }
            }
            "Ingress" => self.root_gone(&id(RootKind::Ingress, key)),
            "FederatedIngress" => self.root_gone(&id(RootKind::FederatedIngress, key)),
            "Service" => self.root_gone(&id(RootKind::Service, key)),
            _ if key.0 == NAMESPACE => {
                self.secrets.remove(&key.1);
                self.reconnect = true;
            }
            "Secret" => self.secret_gone(key),
            _ => {}
        }
    }

    fn global_changed(&mut self, key: Key, object: &Value) {
        let read = serde_json::from_value::<GlobalIngress>(object.clone());
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
            global: same.unwrap_or_else(|| Arc::new(read.spec.global)),
            conditions,
        };
        let before = self.globals.insert(key.clone(), written);
        let changed = before.is_none_or(|before| before.global != self.globals[&key].global);
        if changed {
            ids.iter().for_each(|id| self.keep_in_force(id));
            self.dirty.extend(ids);
        }
    }

    fn root_changed(
        &mut self,
        kind: RootKind,
        key: &Key,
        object: Value,
        root: Result<Root, String>,
    ) {
        let id = id(kind, key);
        let known = Known::new(object, root, self.options.domain.as_deref());
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

    fn root_gone(&mut self, id: &RootId) {
        self.forget(id);
        self.records.push(Record::Global(id.global()));
    }

    /// Compiled objects whose root went while nobody looked.
    fn drop_orphans(&mut self) {
        for key in self.globals.keys() {
            if !roots_of(key).iter().any(|id| self.roots.contains_key(id) && id.global() == *key) {
                self.records.push(Record::Global(key.clone()));
            }
        }
    }
}

fn id(kind: RootKind, key: &Key) -> RootId {
    RootId { kind, namespace: key.0.clone(), name: key.1.clone() }
}

/// What the compiled objects of FederatedIngresses and Services are called, so that an Ingress may
/// have the same name.
const PREFIX: &str = "federatedingress.";
const SERVICE_PREFIX: &str = "service.";

/// The roots that a compiled object could be of.
pub(super) fn roots_of((namespace, name): &Key) -> [RootId; 3] {
    let root =
        |kind, name: &str| RootId { kind, namespace: namespace.clone(), name: name.to_owned() };
    let bare = name.strip_prefix(PREFIX).unwrap_or(name);
    let service = name.strip_prefix(SERVICE_PREFIX).unwrap_or(name);
    [
        root(RootKind::Ingress, name),
        root(RootKind::FederatedIngress, bare),
        root(RootKind::Service, service),
    ]
}

impl RootId {
    /// What it compiles to is called this.
    pub(super) fn global(&self) -> Key {
        let name = match self.kind {
            RootKind::Ingress => self.name.clone(),
            RootKind::FederatedIngress => format!("{PREFIX}{}", self.name),
            RootKind::Service => format!("{SERVICE_PREFIX}{}", self.name),
        };
        (self.namespace.clone(), name)
    }
}
