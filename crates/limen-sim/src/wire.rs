//! A client's way to a simulated API: a tower service that carries requests over the network.
//!
//! A request that has been sent is executed whether or not its sender still waits for the answer.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::Client;
use kube::client::Body;
use tokio::sync::oneshot;
use tower::{BoxError, Service};

use crate::actor::Actor;
use crate::api::{Call, Reply, Server};
use crate::network::{Fate, Process};
use crate::watching;
use crate::world::{Shared, World, once_network};

/// The body of an answer.
pub(crate) type Answer = UnsyncBoxBody<Bytes, BoxError>;

/// A body that is there at once.
pub(crate) fn full(bytes: Vec<u8>) -> Answer {
    Full::new(Bytes::from(bytes)).map_err(|never| match never {}).boxed_unsync()
}

/// A hub process' way to one API.
#[derive(Clone)]
pub struct Wire {
    pub(crate) shared: Shared,
    pub(crate) server: Arc<str>,
    pub(crate) process: u32,
    pub(crate) cluster: Arc<str>,
}

impl Wire {
    /// A client of an API for a hub process; `cluster` names the Cluster that it was made for.
    pub fn client(shared: &Shared, process: u32, server: &str, cluster: &str) -> Client {
        let wire = Self {
            shared: shared.clone(),
            server: server.into(),
            process,
            cluster: cluster.into(),
        };
        Client::new(wire, "default")
    }

    fn actor(&self) -> Actor {
        Actor::Hub { process: self.process, cluster: self.cluster.to_string() }
    }

    async fn exchange(self, request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let content_type = head.headers.get("content-type").and_then(|value| value.to_str().ok());
        let call =
            Call::new(head.method.as_str(), &head.uri, content_type.unwrap_or_default(), &body);
        if call.is_write() {
            self.wait_to_send().await?;
        }
        let (answer, answered) = oneshot::channel();
        let (watch, is_watch) = (call.clone(), call.is_watch());
        let Some(fate) = self.send(&call) else { return std::future::pending().await };
        tokio::spawn(self.clone().deliver(call, fate, answer));
        let Ok(reply) = answered.await else {
            if !fate.reset {
                return std::future::pending().await;
            }
            return Err("connection reset".into());
        };
        if is_watch && reply.status == 200 {
            return Ok(watching::response(&self, &watch));
        }
        let response =
            Response::builder().status(reply.status).header("content-type", "application/json");
        Ok(response.body(full(reply.bytes()))?)
    }

    /// Decides about a request at the moment it is sent; nothing is sent by a dead process.
    fn send(&self, call: &Call) -> Option<Fate> {
        let mut world = self.shared.lock();
        if world.network.process(self.process) == Process::Dead {
            return None;
        }
        let mut random = world.random.fork();
        let fate = world.network.fate(&self.server, &mut random);
        let now = world.now();
        if call.is_write() {
            let world = &mut *world;
            world.laws.sent(now, &self.server, &self.actor(), &world.servers, &mut world.trace);
        }
        Some(fate)
    }

    /// A suspended process sends nothing; its connections are gone when it resumes.
    async fn wait_to_send(&self) -> Result<(), BoxError> {
        let mut waited = false;
        once_network(&self.shared, |world| match world.network.process(self.process) {
            Process::Running => Some(()),
            Process::Suspended | Process::Dead => {
                waited = true;
                None
            }
        })
        .await;
        if waited { Err("connection reset".into()) } else { Ok(()) }
    }

    async fn deliver(self, call: Call, fate: Fate, answer: oneshot::Sender<Reply>) {
        let (sent, addressee) = {
            let world = self.shared.lock();
            (world.now(), self.identity(&world))
        };
        tokio::time::sleep(Duration::from_millis(fate.there)).await;
        if fate.request_lost {
            tokio::time::sleep(Duration::from_secs(2)).await;
            return;
        }
        if let Some(later) = fate.doubled.filter(|_| call.is_write()) {
            let (wire, call, doubled_for) = (self.clone(), call.clone(), addressee.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(later)).await;
                let mut world = wire.shared.lock();
                if wire.identity(&world) == doubled_for {
                    world.execute(&wire.server, &wire.actor(), &call, sent);
                }
            });
        }
        let reply = {
            let mut world = self.shared.lock();
            // A connection ends with the cluster that it leads to.
            if self.identity(&world) != addressee {
                return;
            }
            match call.is_watch() {
                true => watching::admit(&mut world, &self.server, &call),
                false => world.execute(&self.server, &self.actor(), &call, sent),
            }
        };
        tokio::time::sleep(Duration::from_millis(fate.back)).await;
        if fate.answer_lost {
            return;
        }
        if self.open().await {
            // The sender may have stopped waiting.
            let _ = answer.send(reply);
        }
    }

    /// The cluster that answers there.
    fn identity(&self, world: &World) -> Option<String> {
        world.servers.get(&*self.server).map(Server::identity)
    }

    /// Waits until answers can reach the process; false if the connection breaks before.
    async fn open(&self) -> bool {
        let resets = self.shared.lock().network.resets(&self.server);
        once_network(&self.shared, |world| {
            let network = &world.network;
            match network.resets(&self.server) == resets {
                true => network.answers(&self.server).then_some(true),
                false => Some(false),
            }
        })
        .await
    }
}

impl Service<Request<Body>> for Wire {
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().exchange(request))
    }
}
