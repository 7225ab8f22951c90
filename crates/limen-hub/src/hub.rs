//! A running hub.

use std::net::SocketAddr;
use std::time::Duration;

use limen_api::dialect::Home;
use limen_core::lifecycle::Limits;
use limen_sync::{Fence, ObjectApi};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::connect::Connector;
use crate::setup::{SetupError, hub_id};
use crate::task::Task;

/// Settings of a hub.
pub struct HubOptions {
    /// The hub's API.
    pub api: ObjectApi,
    /// The owner of that API.
    pub home: Home,
    /// Makes the clients of members, in place of the network.
    pub connector: Option<Connector>,
    /// How much may be deleted at once.
    pub limits: Limits,
    /// The time between two probes of a member.
    pub probe_every: Duration,
    /// Requests that a member, and the hub, get at the same time.
    pub concurrency: usize,
    /// How often to see whether credentials of members are to be renewed.
    pub renew_every: Duration,
    /// The part of a credential's life that is left when it is renewed.
    pub renew_percent_left: u8,
    /// The domain under which roots without a host get one.
    pub domain: Option<String>,
    /// The resolver that is asked for proofs of hosts outside that domain; without one they need none.
    pub verify_hosts: Option<SocketAddr>,
    /// Permission to write, for as long as this hub leads.
    pub fence: Fence,
    /// Epoch of this hub's lead, greater than that of all leaders before it.
    pub epoch: u64,
    /// Identity of this process among the hubs that may lead.
    pub instance: String,
}

impl HubOptions {
    /// The usual settings.
    pub fn new(api: ObjectApi, home: Home) -> Self {
        Self {
            api,
            home,
            connector: None,
            limits: Limits::default(),
            probe_every: Duration::from_secs(5),
            concurrency: 32,
            renew_every: Duration::from_secs(300),
            renew_percent_left: 33,
            domain: None,
            verify_hosts: None,
            fence: Fence::open(),
            epoch: 1,
            instance: "hub".to_owned(),
        }
    }
}

/// A running hub; dropping it ends it.
pub struct Hub {
    stopping: DropGuard,
    task: tokio::task::JoinHandle<()>,
}

impl Hub {
    /// Starts to federate and to compile. The API must have been set up.
    pub async fn start(options: HubOptions) -> Result<Self, SetupError> {
        let hub = hub_id(&options.api).await?;
        let stopping = CancellationToken::new();
        let task = tokio::spawn(Task::run(options, hub, stopping.clone()));
        Ok(Self { stopping: stopping.drop_guard(), task })
    }

    /// Ends it, and returns when nothing is going on any more.
    pub async fn stop(self) {
        drop(self.stopping);
        // A task that panicked has nothing left to finish.
        let _ = self.task.await;
    }
}
