//! One client for each member, for all who need it: the syncer that writes leaves and the observer
//! that looks for traffic share a connection, and what the probes of the one find out wakes both.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use limen_api::{Cluster, ClusterSpec};
use limen_sync::ObjectApi;

use crate::connect::{ConnectError, SecretData, member_client};

/// What a client is made from: a change takes a new one.
pub(crate) type MadeFrom = (ClusterSpec, SecretData);

/// The clients of members that somebody uses at present.
#[derive(Clone, Default)]
pub struct Connections(Arc<Mutex<HashMap<String, (MadeFrom, Weak<ObjectApi>)>>>);

impl Connections {
    /// The client of a member: the one that others use, unless it was made from something else.
    pub(crate) async fn to(
        &self,
        cluster: &Cluster,
        secret: Option<&SecretData>,
    ) -> Result<Arc<ObjectApi>, ConnectError> {
        let from = made_from(cluster, secret);
        let name = cluster.metadata.name.clone().unwrap_or_default();
        if let Some(known) = self.known(&name, &from) {
            return Ok(known);
        }
        let made = Arc::new(ObjectApi::new(member_client(cluster, secret).await?));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody else may have made it meanwhile.
        let same = all.get(&name).filter(|(known, _)| *known == from);
        if let Some(known) = same.and_then(|(_, known)| known.upgrade()) {
            return Ok(known);
        }
        all.retain(|_, (_, known)| known.strong_count() > 0);
        all.insert(name, (from, Arc::downgrade(&made)));
        Ok(made)
    }

    fn known(&self, name: &str, from: &MadeFrom) -> Option<Arc<ObjectApi>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, api) = all.get(name)?;
        api.upgrade().filter(|_| known == from)
    }
}

/// What the client of a member is made from.
pub(crate) fn made_from(cluster: &Cluster, secret: Option<&SecretData>) -> MadeFrom {
    let ClusterSpec { endpoint, credentials, insecure_skip_tls_verify, .. } = cluster.spec.clone();
    let spec =
        ClusterSpec { endpoint, credentials, insecure_skip_tls_verify, ..ClusterSpec::default() };
    (spec, secret.cloned().unwrap_or_default())
}
