//! What the server does by itself: a real control plane has these in its API server and its
//! controller manager.
//!
//! Each is one task that follows the store and owns what it remembers. All of them act through
//! [`Api`](crate::api::Api), so that what they write is checked like anything else.

mod access;
mod bootstrap;
mod custom_resources;
mod follow;
mod garbage;
mod namespace_conditions;
mod namespaces;
mod retention;

use std::sync::Arc;

use tokio::task::JoinHandle;

pub(crate) use bootstrap::bootstrap;

use crate::api::Api;

/// Who the controllers are in `managedFields`: the name that people know from Kubernetes.
const MANAGER: &str = "kube-controller-manager";

/// Starts all of them; they end when the API is stopping.
pub(crate) fn start(api: &Arc<Api>) -> Vec<JoinHandle<()>> {
    vec![
        tokio::spawn(access::run(api.clone())),
        tokio::spawn(custom_resources::run(api.clone())),
        tokio::spawn(garbage::run(api.clone())),
        tokio::spawn(namespaces::run(api.clone())),
        tokio::spawn(retention::run(api.clone())),
    ]
}
