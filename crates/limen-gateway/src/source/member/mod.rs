//! Objects from one cluster: an ordinary Ingress controller.
//!
//! ```text
//! Ingress ─┐
//! Service ─┼─► translate ─► a compiled root for each Ingress, straight to pod addresses
//! EndpointSlice ─┘
//! Ingress status ◄─ the addresses that clients reach this gateway by
//! ```

mod status;
mod translate;

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use kube::Client;
use limen_core::locality::Locality;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

use super::{News, Running, Source};
use limen_api::source::{Listed, Objects, OwnEdge, SecretData, events, secret_data};

/// Pods come and go in bursts; this is how long one is waited for.
const BURST: Duration = Duration::from_millis(10);

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
    /// Names and addresses that clients reach this gateway by, written to each Ingress.
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
        Box::pin(async move { self.follow(&publish).await })
    }
}

impl Member {
    async fn follow(&self, publish: &mpsc::Sender<News>) {
        let mut index = Index::default();
        let mut ingresses = events::<Ingress>(&self.client);
        let mut classes = events::<IngressClass>(&self.client);
        let mut services = events::<Service>(&self.client);
        let mut slices = events::<EndpointSlice>(&self.client);
        let mut secrets = events::<Secret>(&self.client);
        let (mut due, mut away) = (false, false);
        loop {
            let taken = tokio::select! {
                Some(event) = ingresses.next() => {
                    event.map(|event| index.ingresses.take(event, without_noise))
                }
                Some(event) = classes.next() => {
                    event.map(|event| index.classes.take(event, |class| Some(class.clone())))
                }
                Some(event) = services.next() => {
                    event.map(|event| index.services.take(event, without_noise))
                }
                Some(event) = slices.next() => {
                    event.map(|event| index.slices.take(event, without_noise))
                }
                Some(event) = secrets.next() => {
                    event.map(|event| index.secrets.take(event, |secret| Some(secret_data(secret))))
                }
                () = tokio::time::sleep(BURST), if due && index.loaded() => {
                    due = false;
                    let objects = self.objects(&index);
                    if publish.send(News::Objects(objects)).await.is_err() {
                        return;
                    }
                    status::write_all(self, index.ingresses.now.values(), |ingress| {
                        translate::is_ours(ingress, &self.class, index.classes.now.values())
                    })
                    .await;
                    Ok(false)
                }
            };
            match taken {
                Ok(changed) => (due, away) = (due | changed, false),
                Err(error) => {
                    if !std::mem::replace(&mut away, true) {
                        let text = format!("the cluster cannot be watched: {error}; routes stay");
                        if publish.send(News::Trouble(text)).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    }

    fn objects(&self, index: &Index) -> Objects {
        let mut objects = Objects {
            secrets: index.secrets.now.clone().into_iter().collect(),
            ..Objects::default()
        };
        let place = translate::Place {
            cluster: &self.cluster,
            locality: &self.locality,
            services: &index.services.now,
            slices: translate::by_service(index.slices.now.values()),
        };
        for (key, ingress) in &index.ingresses.now {
            if translate::is_ours(ingress, &self.class, index.classes.now.values()) {
                objects.ingresses.insert(key.clone(), Arc::new(place.global(ingress)));
            }
        }
        objects
    }
}

/// An object without what changes all the time and means nothing here.
fn without_noise<K: kube::Resource + Clone>(object: &K) -> Option<K> {
    let mut object = object.clone();
    object.meta_mut().managed_fields = None;
    object.meta_mut().resource_version = None;
    Some(object)
}
