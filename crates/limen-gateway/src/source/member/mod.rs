//! Objects from one cluster: an ordinary Ingress controller.
//!
//! ```text
//! Ingress ─┐
//! Service ─┼─► translate ─► owners ─► a compiled root for each Ingress, straight to pod addresses
//! EndpointSlice ─┘
//! Ingress status ◄─ the addresses that clients reach this gateway by
//! ```

mod owners;
mod status;
#[cfg(test)]
mod tests;
mod translate;

use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use kube::Client;
use kube::runtime::watcher::{self, Event};
use limen_core::locality::Locality;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

use super::{News, Running, Source};
use limen_api::source::{
    Absence, Burst, Key, Listed, Objects, OwnEdge, SecretData, events, is_answer, secret_data,
};

/// Pods come and go in bursts; one is over after so long a pause.
const PAUSE: Duration = Duration::from_millis(10);

/// One cluster.
pub struct Member {
    /// How to reach it.
    pub client: Client,
    /// The ingress class that this gateway is the controller of.
    pub class: String,
    /// What the cluster is called in metrics.
    pub cluster: String,
    /// Where the cluster is.
    pub locality: Locality,
    /// Names and addresses, or addresses with a port, that clients reach this gateway by; written
    /// to each Ingress.
    pub addresses: Vec<String>,
}

/// The objects of a cluster that matter here.
#[derive(Default)]
struct Index {
    ingresses: Listed<Ingress>,
    classes: Listed<IngressClass>,
    services: Listed<Service>,
    slices: Listed<EndpointSlice>,
    secrets: Listed<Arc<SecretData>>,
}

impl Index {
    fn loaded(&self) -> bool {
        self.ingresses.loaded
            && self.classes.loaded
            && self.services.loaded
            && self.slices.loaded
            && self.secrets.loaded
    }
}

impl Source for Member {
    fn run(self: Box<Self>, publish: mpsc::Sender<News>, _: watch::Receiver<OwnEdge>) -> Running {
        Box::pin(async move {
            let (outdated, written) = watch::channel(Vec::new());
            tokio::select! {
                () = self.follow(&publish, &outdated) => {}
                () = status::keep_writing(&self, written) => {}
            }
        })
    }
}

impl Member {
    /// Publishes what there is, and says which Ingresses have an `outdated` status.
    async fn follow(&self, publish: &mpsc::Sender<News>, outdated: &watch::Sender<Vec<Key>>) {
        let mut index = Index::default();
        let mut ingresses = events::<Ingress>(&self.client);
        let mut classes = events::<IngressClass>(&self.client);
        let mut services = events::<Service>(&self.client);
        let mut slices = events::<EndpointSlice>(&self.client);
        let mut secrets = events::<Secret>(&self.client);
        let mut absence = Absence::default();
        let mut burst = Burst::new(PAUSE);
        loop {
            let (kind, heard) = tokio::select! {
                Some(event) = ingresses.next() => {
                    ("Ingress", take(event, &mut index.ingresses, without_noise))
                }
                Some(event) = classes.next() => {
                    ("IngressClass", take(event, &mut index.classes, |class| Some(class.clone())))
                }
                Some(event) = services.next() => {
                    ("Service", take(event, &mut index.services, without_noise))
                }
                Some(event) = slices.next() => {
                    ("EndpointSlice", take(event, &mut index.slices, without_noise))
                }
                Some(event) = secrets.next() => {
                    ("Secret", take(event, &mut index.secrets, |secret| Some(secret_data(secret))))
                }
                () = burst.over(), if index.loaded() => {
                    burst.clear();
                    let objects = self.objects(&index);
                    if publish.send(News::Objects(objects)).await.is_err() {
                        return;
                    }
                    let ours = index.ingresses.now.values().filter(|ingress| {
                        translate::is_ours(ingress, &self.class, index.classes.now.values())
                    });
                    outdated.send_replace(status::outdated(self, ours));
                    continue;
                }
            };
            let now = Instant::now();
            match heard {
                Ok((answer, changed)) => {
                    burst.add(changed, now);
                    if let Some(away) = answer.then(|| absence.answered(kind, now)).flatten() {
                        tracing::info!(?away, "the cluster is back");
                    }
                }
                Err(error) if absence.failed(kind, now) => {
                    let text = format!("the cluster cannot be watched: {error}; routes stay");
                    if publish.send(News::Trouble(text)).await.is_err() {
                        return;
                    }
                }
                Err(_) => {}
            }
        }
    }

    fn objects(&self, index: &Index) -> Objects {
        let place = translate::Place {
            cluster: &self.cluster,
            locality: &self.locality,
            services: &index.services.now,
            slices: translate::by_service(index.slices.now.values()),
        };
        let ours =
            index.ingresses.now.values().filter(|ingress| {
                translate::is_ours(ingress, &self.class, index.classes.now.values())
            });
        let asked = ours.map(|ingress| owners::Asked::new(ingress, place.global(ingress)));
        let (ingresses, denied) = owners::settle(asked.collect());
        let secrets = index.secrets.now.clone().into_iter().collect();
        Objects { ingresses, secrets, denied, ..Objects::default() }
    }
}

/// Takes in an event: whether the cluster has answered, and whether anything has changed.
fn take<K: kube::Resource, T: PartialEq>(
    event: Result<Event<K>, watcher::Error>,
    listed: &mut Listed<T>,
    convert: impl Fn(&K) -> Option<T>,
) -> Result<(bool, bool), watcher::Error> {
    let event = event?;
    Ok((is_answer(&event), listed.take(event, convert)))
}

/// An object without what changes all the time and means nothing here.
fn without_noise<K: kube::Resource + Clone>(object: &K) -> Option<K> {
    let mut object = object.clone();
    object.meta_mut().managed_fields = None;
    object.meta_mut().resource_version = None;
    Some(object)
}
