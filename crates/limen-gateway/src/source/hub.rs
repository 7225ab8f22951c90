//! Objects from a hub: GlobalIngress objects and Secrets, watched.
//!
//! The last objects are kept on disk. A gateway that starts while the hub is away serves them, and
//! one that runs while the hub goes away goes on with what it has.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use limen_api::GlobalIngress;
use limen_core::global::Global;
use tokio::sync::mpsc;

use super::listed::{Listed, events, secret_data};
use super::{News, Running, Source, disk};
use crate::objects::{Objects, SecretData};

/// Changes come in bursts; this is how long one is waited for.
const BURST: Duration = Duration::from_millis(5);

/// The hub.
pub struct Hub {
    /// How to reach it.
    pub client: Client,
    /// Where the last objects are kept.
    pub snapshot_dir: Option<PathBuf>,
}

impl Source for Hub {
    fn run(self: Box<Self>, publish: mpsc::Sender<News>) -> Running {
        Box::pin(async move {
            if let Some(folder) = &self.snapshot_dir {
                let news = match disk::read(folder) {
                    Ok(Some(objects)) => Some(News::Objects(objects)),
                    Ok(None) => None,
                    Err(error) => Some(News::Trouble(error)),
                };
                if let Some(news) = news
                    && publish.send(news).await.is_err()
                {
                    return;
                }
            }
            self.follow(&publish).await;
        })
    }
}

impl Hub {
    async fn follow(&self, publish: &mpsc::Sender<News>) {
        let mut ingresses: Listed<Arc<Global>> = Listed::default();
        let mut secrets: Listed<Arc<SecretData>> = Listed::default();
        let mut ingress_events = events::<GlobalIngress>(&self.client);
        let mut secret_events = events::<Secret>(&self.client);
        let mut away = false;
        let mut due = false;
        loop {
            let trouble = tokio::select! {
                Some(event) = ingress_events.next() => match event {
                    Ok(event) => {
                        due |= ingresses.take(event, |object| {
                            Some(Arc::new(object.spec.global.clone()))
                        });
                        None
                    }
                    Err(error) => Some(error),
                },
                Some(event) = secret_events.next() => match event {
                    Ok(event) => {
                        due |= secrets.take(event, |object| Some(secret_data(object)));
                        None
                    }
                    Err(error) => Some(error),
                },
                () = tokio::time::sleep(BURST), if due && ingresses.loaded && secrets.loaded => {
                    due = false;
                    let objects = Objects {
                        ingresses: ingresses.now.clone(),
                        secrets: secrets.now.clone().into_iter().collect(),
                    };
                    self.keep(&objects);
                    if publish.send(News::Objects(objects)).await.is_err() {
                        return;
                    }
                    None
                }
            };
            // Said once: the watches try again by themselves, and what is in force stays.
            if let Some(error) = trouble {
                if !std::mem::replace(&mut away, true) {
                    let text = format!("the hub cannot be watched: {error}; the last routes stay");
                    if publish.send(News::Trouble(text)).await.is_err() {
                        return;
                    }
                }
            } else {
                away = false;
            }
        }
    }

    fn keep(&self, objects: &Objects) {
        if let Some(folder) = &self.snapshot_dir
            && let Err(error) = disk::write(folder, objects)
        {
            tracing::error!("{error}");
        }
    }
}
