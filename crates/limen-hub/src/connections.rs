//! One client for each member, for all who need it: the syncer that writes leaves and the observer
//! that looks for traffic share a connection, and what the probes of the one find out wakes both.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use limen_api::{Cluster, ClusterSpec};
use limen_sync::ObjectApi;

use crate::connect::{ConnectError, SecretData, member_client};

/// What a client is made from: a change takes a new one.
pub(crate) type MadeFrom = (ClusterSpec, SecretData);

/// Clients by the names of members.
type Known = BTreeMap<String, (MadeFrom, Weak<ObjectApi>)>;

/// Makes the client of a member from its `Cluster` and Secret.
pub type Connector =
    Arc<dyn Fn(&Cluster, Option<&SecretData>) -> Result<kube::Client, ConnectError> + Send + Sync>;

/// The clients of members that somebody uses at present.
#[derive(Clone, Default)]
pub struct Connections {
    known: Arc<Mutex<Known>>,
    connector: Option<Connector>,
}

impl Connections {
    /// Connections whose clients come from `connector`, in place of the network.
    pub fn with_connector(connector: Connector) -> Self {
        Self { known: Arc::default(), connector: Some(connector) }
    }

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
        let client = match &self.connector {
            Some(connector) => connector(cluster, secret)?,
            None => member_client(cluster, secret).await?,
        };
        let made = Arc::new(ObjectApi::new(client));
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody else may have made it meanwhile.
        let same = all.get(&name).filter(|(known, _)| *known == from);
        if let Some(known) = same.and_then(|(_, known)| known.upgrade()) {
            return Ok(known);
        }
        all.retain(|_, (_, known)| known.strong_count() > 0);
        all.insert(name, (from, Arc::downgrade(&made)));
        Ok(made)
    }

    /// Takes a client for a member's that somebody else has made.
    #[cfg(test)]
    pub(crate) fn put(&self, cluster: &Cluster, secret: &SecretData, client: &Arc<ObjectApi>) {
        let name = cluster.metadata.name.clone().unwrap_or_default();
        let known = (made_from(cluster, Some(secret)), Arc::downgrade(client));
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(name, known);
    }

    fn known(&self, name: &str, from: &MadeFrom) -> Option<Arc<ObjectApi>> {
        let all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
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

#[cfg(test)]
mod tests {
    use limen_api::SecretReference;

    use super::*;

    #[tokio::test]
    async fn a_member_has_one_client_until_that_is_made_from_something_else() {
        let mut cluster = Cluster::new(
            "asia",
            ClusterSpec {
                endpoint: Some("https://127.0.0.1:1".to_owned()),
                credentials: Some(SecretReference { name: "cluster-asia".to_owned() }),
                insecure_skip_tls_verify: true,
                ..ClusterSpec::default()
            },
        );
        let token = |text: &str| SecretData::from([("token".to_owned(), text.as_bytes().to_vec())]);
        let (connections, old) = (Connections::default(), token("old"));
        let first = connections.to(&cluster, Some(&old)).await.unwrap();
        // Where a member is says nothing about how to reach it.
        cluster.spec.region = Some("asia-east1".to_owned());
        let second = connections.to(&cluster, Some(&old)).await.unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        let renewed = connections.to(&cluster, Some(&token("new"))).await.unwrap();
        assert!(!Arc::ptr_eq(&first, &renewed));
        let from = made_from(&cluster, Some(&token("new")));
        assert!(connections.known("asia", &from).is_some());
        drop(renewed);
        assert!(connections.known("asia", &from).is_none(), "nobody uses it any more");
    }
}
