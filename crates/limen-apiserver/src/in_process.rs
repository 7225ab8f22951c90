//! The API for code in the same process: requests without a socket.
//!
//! ```text
//!   kube::Client ──► InProcess ──► who? ► what? ► may they? ► their turn? ► do it ► answer
//! ```
//!
//! A door is made for one user, who needs no credential since whoever holds the server may name
//! anybody. From there on nothing is different: access rules, turns, the audit log and metrics
//! apply to that user as they do to one at the other end of a connection, and the bodies of
//! watches go on until the server stops. A door does not keep its server alive.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Weak;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use tokio_util::task::TaskTracker;
use tower::Service;

use crate::answer::Body;
use crate::api::{Api, Caller};
use crate::auth::Identity;

/// The group that may do everything, whatever the access rules say.
pub use crate::auth::MASTERS;

/// A [`tower::Service`] that answers as the server does, for one user.
///
/// `kube::Client::new(server.in_process("limen-hub", &[MASTERS]), "default")` is a client over it.
#[derive(Clone)]
pub struct InProcess {
    api: Weak<Api>,
    caller: Caller,
    /// Requests that are being answered, which a stopping server waits for.
    visits: TaskTracker,
}

/// The server has stopped, or is about to.
#[derive(Debug, thiserror::Error)]
#[error("the API server of this process has stopped")]
pub struct Stopped;

impl InProcess {
    pub(crate) fn new(api: Weak<Api>, visits: TaskTracker, identity: Identity) -> Self {
        let caller = Caller::trusted(identity, IpAddr::V4(Ipv4Addr::LOCALHOST));
        Self { api, caller, visits }
    }
}

impl<B> Service<Request<B>> for InProcess
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Stopped;
    type Future = BoxFuture<'static, Result<Self::Response, Stopped>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (api, caller) = (self.api.upgrade(), self.caller.clone());
        let api = api.filter(|api| !api.stopping.is_cancelled());
        let visit = self.visits.track_future(async move {
            let api = api.ok_or(Stopped)?;
            Ok(api.call(caller, request).await)
        });
        Box::pin(visit)
    }
}
