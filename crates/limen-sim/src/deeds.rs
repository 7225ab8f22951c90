//! The actions of people, on the hub and in members.

use limen_core::leaf::{HASH_ANNOTATION, HUB_LABEL, ROOT_LABEL};
use serde_json::{Value, json};

use crate::actor::Actor;
use crate::api::{Cause, Key, Server, annotation, is_terminating};
use crate::laws::held_by_object;
use crate::people;
use crate::scenario::{Action, Guise, Meddling};
use crate::selection::{SELECTOR, plural};
use crate::truth::FEDERATE;
use crate::world::{HUB, World};

/// Changes the content of an object.
pub(crate) fn edit(object: &mut Value, text: &str) {
    match object["kind"].as_str() {
        Some("ConfigMap" | "Secret") => object["data"]["revision"] = json!(text),
        Some("Deployment") => object["spec"]["replicas"] = json!(9),
        Some("Service") => object["spec"]["selector"]["app"] = json!(text),
        _ => object["metadata"]["labels"]["edited"] = json!(text),
    }
}

/// Carries out an action of a person.
pub(crate) fn people_act(world: &mut World, action: &Action) {
    let person = Actor::Person;
    match action {
        Action::CreateNamespace { name } => {
            world.change(HUB, |api, _| apply(api, "Namespace", "", name, 0));
        }
        Action::DeleteNamespace { name } => delete(world, &Key::namespace(name), false),
        Action::Apply { kind, namespace, name, revision } => {
            world.change(HUB, |api, _| apply(api, kind, namespace, name, *revision));
        }
        Action::ApplyMany { namespace, count } => {
            for index in 0..*count {
                world.change(HUB, |api, _| {
                    apply(api, "ConfigMap", namespace, &format!("many-{index}"), 1);
                });
            }
        }
        Action::Delete { kind, namespace, name, orphan } => {
            delete(world, &Key::new(plural(kind), namespace, name), *orphan);
        }
        Action::DeleteMany { namespace, count } => {
            for index in 0..*count {
                delete(world, &Key::new("configmaps", namespace, &format!("many-{index}")), false);
            }
        }
        Action::Withdraw { kind, namespace, name } => {
            let key = Key::new(plural(kind), namespace, name);
            edit_on_hub(world, &key, |object| {
                object["metadata"]["annotations"][FEDERATE] = json!("false");
            });
        }
        Action::Select { kind, namespace, name, selector } => {
            let key = Key::new(plural(kind), namespace, name);
            edit_on_hub(world, &key, |object| match selector {
                Some(text) => object["metadata"]["annotations"][SELECTOR] = json!(text),
                None => {
                    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
                        annotations.remove(SELECTOR);
                    }
                }
            });
        }
        Action::Policy { namespace, name, placement, orphan, conflict, waves } => {
            let object =
                people::policy(namespace, name, placement, *orphan, conflict.as_deref(), waves);
            let key = Key::new("placementpolicies.limen.dev", namespace, name);
            world.change(HUB, |api, _| put_content(api, &key, object));
        }
        Action::DeletePolicy { namespace, name } => {
            delete(world, &Key::new("placementpolicies.limen.dev", namespace, name), false);
        }
        Action::Label { cluster, region } => {
            let key = Key::new("clusters.limen.dev", "", cluster);
            edit_on_hub(world, &key, |object| {
                object["metadata"]["labels"]["region"] = json!(region);
            });
        }
        Action::Join { cluster, server } => join(world, cluster, server),
        Action::Unjoin { cluster, delete } => {
            let key = Key::new("clusters.limen.dev", "", cluster);
            let how = if *delete { "delete" } else { "keep" };
            edit_on_hub(world, &key, |object| {
                object["metadata"]["annotations"]["limen.dev/unjoin"] = json!(how);
            });
        }
        Action::DeleteCluster { cluster } => {
            delete(world, &Key::new("clusters.limen.dev", "", cluster), false);
        }
        Action::Release => release(world),
        Action::Foreign { server, kind, namespace, name, guise } => {
            let object = foreign(world, server, kind, namespace, name, *guise);
            world.change(server, |api, _| {
                ensure_namespace(api, namespace);
                let key = Key::new(plural(kind), namespace, name);
                let home = api.get(&Key::new("namespaces", "", namespace));
                let served = api.kinds.get(&key.resource).is_some();
                if served && api.get(&key).is_none() && !home.is_some_and(is_terminating) {
                    api.put_as(&person, &key, object, "helm");
                }
            });
        }
        Action::Meddle { server, kind, namespace, name, how } => {
            let key = Key::new(plural(kind), namespace, name);
            world.change(server, |api, _| meddle(api, &key, *how));
        }
        Action::Compact { server } => {
            if let Some(api) = world.servers.get_mut(server) {
                api.compact();
            }
        }
        _ => {}
    }
}

fn ensure_namespace(api: &mut Server, namespace: &str) {
    let key = Key::namespace(namespace);
    if !namespace.is_empty() && api.get(&key).is_none() {
        api.put(&Actor::Person, &key, people::object("Namespace", "", namespace, 0));
    }
}

/// Applies an object of a person on the hub, unless its namespace is on its way out.
fn apply(api: &mut Server, kind: &str, namespace: &str, name: &str, revision: u32) {
    if kind != "Namespace" {
        ensure_namespace(api, namespace);
        if api.get(&Key::namespace(namespace)).is_some_and(is_terminating) {
            return;
        }
    }
    let namespace = if kind == "Namespace" { "" } else { namespace };
    let key = Key::new(plural(kind), namespace, name);
    put_content(api, &key, people::object(kind, namespace, name, revision));
}

/// Writes the content of an object; metadata and status of what is there stay.
fn put_content(api: &mut Server, key: &Key, object: Value) {
    ensure_namespace(api, &key.namespace);
    let object = match api.get(key) {
        None => object,
        Some(live) if is_terminating(live) => return,
        Some(live) => {
            let mut merged = live.clone();
            for field in ["spec", "data"] {
                if !object[field].is_null() {
                    merged[field] = object[field].clone();
                }
            }
            merged
        }
    };
    api.put(&Actor::Person, key, object);
}

fn edit_on_hub(world: &mut World, key: &Key, change: impl FnOnce(&mut Value)) {
    world.change(HUB, |api, _| {
        let Some(object) = api.get(key) else { return };
        let mut object = object.clone();
        change(&mut object);
        api.put(&Actor::Person, key, object);
    });
}

fn delete(world: &mut World, key: &Key, orphan: bool) {
    world.change(HUB, |api, _| api.remove(&Actor::Person, key, orphan, Cause::Request));
}

/// Joins an API under a name.
pub(crate) fn join(world: &mut World, cluster: &str, server: &str) {
    let Some(uid) = world.servers.get(server).map(Server::identity) else { return };
    world.change(HUB, |api, _| {
        let secret = Key::new("secrets", "limen-system", &format!("cluster-{cluster}"));
        api.put(&Actor::Person, &secret, people::credential(cluster));
        let key = Key::new("clusters.limen.dev", "", cluster);
        if api.get(&key).is_none() {
            api.put(&Actor::Person, &key, people::cluster(cluster, server, &uid));
        }
    });
}

/// Releases every hold, with exactly what it names at that moment.
fn release(world: &mut World) {
    let Some(hub) = world.servers.get(HUB) else { return };
    let holds: Vec<(Key, Value)> =
        hub.of("holds.limen.dev").map(|(key, hold)| (key.clone(), hold.clone())).collect();
    for (key, hold) in holds {
        if hold["spec"]["release"] == true {
            continue;
        }
        for (uid, cluster) in held_by_object(&hold) {
            let Some(root) = world.laws.truth.roots.get_mut(&uid) else { continue };
            match hold["spec"]["reason"] == "PolicyGone" {
                // The policy that is gone has no say any more, in nothing.
                true => root.governed = None,
                false => drop(root.released.insert(cluster, None)),
            }
        }
        edit_on_hub(world, &key, |hold| hold["spec"]["release"] = json!(true));
    }
    let now = world.now();
    if let Some(hub) = world.servers.get(HUB) {
        world.laws.truth.look_again(now, hub, None);
    }
}

/// An object that does not come from the hub.
fn foreign(
    world: &World,
    server: &str,
    kind: &str,
    namespace: &str,
    name: &str,
    guise: Guise,
) -> Value {
    let owner = world.servers.get(server).map(Server::identity);
    let mut object = people::object(kind, namespace, name, 100);
    match guise {
        Guise::Plain => {}
        Guise::Helm => {
            object["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
        }
        Guise::Controlled => {
            object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Namespace",
                "name": "kube-system", "controller": true,
                "uid": owner}]);
        }
        Guise::Forged => {
            let hub = world.servers.get(HUB).map(Server::identity).unwrap_or_default();
            object["metadata"]["labels"] = json!({HUB_LABEL: hub, ROOT_LABEL: "forged"});
            object["metadata"]["annotations"] = json!({HASH_ANNOTATION: "forged"});
        }
    }
    object
}

fn meddle(api: &mut Server, key: &Key, how: Meddling) {
    let Some(object) = api.get(key).filter(|object| !is_terminating(object)) else { return };
    let mut object = object.clone();
    let leaf = annotation(&object, HASH_ANNOTATION).is_some();
    match how {
        Meddling::Delete => api.remove(&Actor::Person, key, false, Cause::Request),
        Meddling::Edit => {
            edit(&mut object, "edited");
            api.put(&Actor::Person, key, object);
        }
        Meddling::Strip if leaf => {
            for (field, name) in
                [("labels", HUB_LABEL), ("labels", ROOT_LABEL), ("annotations", HASH_ANNOTATION)]
            {
                if let Some(map) = object["metadata"][field].as_object_mut() {
                    map.remove(name);
                }
            }
            api.put(&Actor::Person, key, object);
        }
        Meddling::Relabel if leaf => {
            object["metadata"]["labels"][ROOT_LABEL] = json!("another-root");
            api.put(&Actor::Person, key, object);
        }
        Meddling::Replace => {
            api.remove(&Actor::Person, key, false, Cause::Request);
            let kind = match &*key.resource {
                people::TWIN_RESOURCE => people::TWIN,
                _ => object["kind"].as_str().unwrap_or_default(),
            };
            api.put_as(
                &Actor::Person,
                key,
                people::object(kind, &key.namespace, &key.name, 101),
                "helm",
            );
        }
        Meddling::Strip | Meddling::Relabel => {}
    }
}
