//! The API: one function from a request to an answer.
//!
//! ```text
//!   request ► who? ► what? ► may they? ► body   ► their turn? ► do it ► answer
//!             auth   request  rbac         upload   flow          verbs   answer
//! ```
//!
//! It is used by the server for clients on the network, and directly by controllers in the same
//! process. What it does to objects is in the other files of this folder, one for each verb or
//! two.

mod access;
mod allocate;
mod continue_token;
mod delete;
mod dispatch;
mod lifecycle;
mod list;
mod patch;
mod patched;
mod paths;
mod read;
mod reviews;
mod scale;
mod scope;
mod submit;
mod trace;
mod turns;
mod upload;
mod watch;
mod write;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use limen_store::Store;
use tokio_util::sync::CancellationToken;

pub(crate) use allocate::FIRST_SERVICE_ADDRESS;
pub(crate) use delete::{Deletion, FOREGROUND, ORPHAN, Propagation};
pub(crate) use lifecycle::{Tracking, Writing, metadata_mut};
pub(crate) use scope::Scope;
pub(crate) use turns::Turns;
pub(crate) use write::{Change, Make};

use crate::audit::AuditLog;
use crate::auth::{Authenticator, Identity, certificate_identity};
use crate::crd::Definitions;
use crate::flow::Flow;
use crate::metrics::Metrics;
use crate::rbac::Rbac;
use crate::registry::Registry;

/// How long Events are kept.
const EVENT_LIFETIME: Duration = Duration::from_secs(3600);

/// Everything that answering a request needs.
pub struct Api {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) registry: Registry,
    /// What the custom types of the registry come from; locked while they are learned.
    pub(crate) definitions: tokio::sync::Mutex<Definitions>,
    pub(crate) rbac: ArcSwap<Rbac>,
    /// Whether roles and bindings have yet to be read; locked while they are.
    pub(crate) access_is_stale: tokio::sync::Mutex<bool>,
    pub(crate) authenticator: Authenticator,
    /// When the store was last asked whether it is there, and whether it was.
    pub(crate) store_answered: tokio::sync::Mutex<Option<(tokio::time::Instant, bool)>>,
    pub(crate) turns: Turns,
    pub(crate) flow: Flow,
    pub(crate) audit: Option<AuditLog>,
    pub(crate) metrics: Metrics,
    /// Set when the server is to stop: watches end then.
    pub(crate) stopping: CancellationToken,
    /// What `/version` and discovery say of the server.
    pub(crate) address: String,
}

/// Who is at the other end of a connection, before anything is said.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Whom the client certificate names.
    identity: Option<Arc<Identity>>,
    /// Where the connection comes from.
    address: IpAddr,
}

impl Caller {
    /// Somebody at an address, perhaps with a client certificate (DER) that was verified against
    /// the server's authority.
    pub fn new(certificate: Option<&[u8]>, address: IpAddr) -> Self {
        Self { identity: certificate.and_then(certificate_identity).map(Arc::new), address }
    }

    /// Somebody whose name is beyond doubt.
    pub(crate) fn trusted(identity: Identity, address: IpAddr) -> Self {
        Self { identity: Some(Arc::new(identity)), address }
    }
}

impl Api {
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    /// Now, as metadata has times.
    pub(crate) fn timestamp(&self) -> String {
        self.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    fn time_to_live(&self, scope: &Scope) -> Option<Duration> {
        (scope.kind.kind == "Event").then_some(EVENT_LIFETIME)
    }

    /// All namespaces.
    pub(crate) fn namespaces(&self) -> Scope {
        self.scope("", "v1", "namespaces", None)
    }

    /// The objects of a built-in type.
    pub(crate) fn scope(
        &self,
        group: &str,
        version: &str,
        plural: &str,
        namespace: Option<&str>,
    ) -> Scope {
        let types = self.registry.types();
        let kind = types.find(group, version, plural).expect("the type is built in");
        Scope::new(kind, namespace)
    }
}
