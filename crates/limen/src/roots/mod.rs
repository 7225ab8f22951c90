//! Commands about roots: `limen status` and `limen explain placement`.

mod placement;
mod status;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use kube::{Api, Client};
use limen_api::FederatedStatus;
use limen_core::federated::ObjectId;
use limen_hub::Catalogue;

pub(crate) use self::placement::read_manifest;
pub(crate) use self::status::Status;

/// Explain a decision.
#[derive(Subcommand)]
pub(crate) enum Explain {
    /// Why a root is in each cluster or not, and what would be done there
    Placement(placement::Placement),
    /// Why requests go to which cluster, and how many of them
    Traffic(crate::traffic::Traffic),
}

impl Explain {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Placement(placement) => placement.run(),
            Self::Traffic(traffic) => traffic.run(),
        }
    }
}

/// The root that KIND/NAME means in a namespace.
pub(crate) fn resolve(catalogue: &Catalogue, root: &str, namespace: &str) -> Result<ObjectId> {
    let Some((kind, name)) = root.split_once('/') else {
        bail!("{root:?} is not KIND/NAME, such as ingress/web");
    };
    let kind = catalogue.find(kind)?;
    let namespace = kind.namespaced.then(|| namespace.to_owned());
    Ok(ObjectId { kind, namespace, name: name.to_owned() })
}

/// The records among which that of a root is, and its name.
fn records_of(client: &Client, id: &ObjectId) -> (Api<FederatedStatus>, String) {
    let (namespace, name) = limen_api::record_of(id);
    (Api::namespaced(client.clone(), &namespace), name)
}

async fn record(client: &Client, id: &ObjectId) -> Result<Option<FederatedStatus>> {
    let (records, name) = records_of(client, id);
    records.get_opt(&name).await.with_context(|| format!("cannot read the record of {id}"))
}
