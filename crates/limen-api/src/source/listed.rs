//! One kind of object of one cluster, as it is now, from the events of a watch.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use super::objects::{Key, SecretData};

/// What a watch has told so far.
pub struct Listed<T> {
    /// What there is, by namespace and name.
    pub now: BTreeMap<Key, T>,
    /// What a list that is under way has brought; it replaces everything when it is complete.
    coming: HashMap<Key, T>,
    /// Whether one list has been complete.
    pub loaded: bool,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { now: BTreeMap::new(), coming: HashMap::new(), loaded: false }
    }
}

impl<T: PartialEq> Listed<T> {
    /// Takes in one event. Whether anything has changed that matters.
    pub fn take<K: Resource>(
        &mut self,
        event: Event<K>,
        convert: impl Fn(&K) -> Option<T>,
    ) -> bool {
        let key = |object: &K| {
            let meta = object.meta();
            (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
        };
        match event {
            Event::Init => self.coming.clear(),
            Event::InitApply(object) => {
                if let Some(value) = convert(&object) {
                    self.coming.insert(key(&object), value);
                }
            }
            Event::InitDone => {
                let before = std::mem::take(&mut self.now);
                self.now = std::mem::take(&mut self.coming).into_iter().collect();
                let first = !std::mem::replace(&mut self.loaded, true);
                return first || before != self.now;
            }
            Event::Apply(object) => {
                let Some(value) = convert(&object) else {
                    return self.now.remove(&key(&object)).is_some();
                };
                let key = key(&object);
                if self.now.get(&key) == Some(&value) {
                    return false;
                }
                self.now.insert(key, value);
                return true;
            }
            Event::Delete(object) => return self.now.remove(&key(&object)).is_some(),
        }
        false
    }
}

/// All objects of a kind, for as long as anybody listens.
pub fn events<K>(
    client: &Client,
) -> impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    events_of(Api::<K>::all(client.clone()))
}

/// All objects of a kind that this leads to, for as long as anybody listens.
pub(super) fn events_of<K>(
    api: Api<K>,
) -> impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    watch(api, watcher::Config::default()).default_backoff().boxed()
}

/// Whether an event shows that the cluster has answered: a watch that begins anew says so before
/// it has asked.
pub fn is_answer<K>(event: &Event<K>) -> bool {
    !matches!(event, Event::Init)
}

/// What is in a Secret.
pub fn secret_data(secret: &k8s_openapi::api::core::v1::Secret) -> Arc<SecretData> {
    let data = secret.data.iter().flatten();
    Arc::new(SecretData(data.map(|(name, value)| (name.clone(), value.0.clone())).collect()))
}
