//! Other edges, met through `Edge` objects on the hub.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::core::ObjectMeta;
use limen_core::edge::{EdgeKind, EdgeReport, Peer};
use tokio::sync::watch;

use super::OwnEdge;
use crate::{Edge, EdgeSpec};

/// Who writes `Edge` objects.
const FIELD_MANAGER: &str = "limen-gateway";
/// How long a report that could not be written waits to be tried again.
const AGAIN: Duration = Duration::from_secs(2);
/// The same of one that says that the edge ends: there is not much time.
const SOON: Duration = Duration::from_millis(200);
/// An edge that has said nothing for so long is gone, and whoever finds its object removes it.
const GONE: i64 = 3600;
/// The same of one that has said that it ends: it may be on its way back.
const STOPPED: i64 = 600;

/// An edge as others see it.
pub(super) fn peer(edge: &Edge) -> Peer {
    let EdgeSpec { kind, locality, .. } = edge.spec.clone();
    Peer { kind, locality, report: edge.status.clone().unwrap_or_default() }
}

/// Whether nobody has heard of an edge for so long that its object should go.
pub(super) fn is_gone(peer: &Peer) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let silent = if peer.report.stopping { STOPPED } else { GONE };
    peer.report.observed_at.is_some_and(|at| at < now - silent)
}

/// Removes the object of an edge that is gone.
pub(super) async fn remove(client: kube::Client, name: String) {
    // Somebody else may have done so; if it fails, the next one who sees it tries again.
    let _ = Api::<Edge>::all(client).delete(&name, &DeleteParams::default()).await;
}

/// Writes what this edge reports, whenever that changes, until it has said that it ends.
pub(super) async fn keep_reporting(
    client: kube::Client,
    kind: EdgeKind,
    mut own: watch::Receiver<OwnEdge>,
) {
    let api: Api<Edge> = Api::all(client);
    let (mut complained, mut known) = (false, None);
    loop {
        let edge = own.borrow_and_update().clone();
        if let Some(report) = &edge.report {
            match write(&api, kind, &edge, report, &mut known).await {
                Ok(()) if report.stopping => return,
                Ok(()) => complained = false,
                Err(error) => {
                    if !std::mem::replace(&mut complained, true) {
                        let name = &edge.name;
                        tracing::warn!(
                            "cannot write the Edge {name}: {error}; other edges do not hear of this one until that works"
                        );
                    }
                    tokio::time::sleep(if report.stopping { SOON } else { AGAIN }).await;
                    own.mark_changed();
                }
            }
        }
        if own.changed().await.is_err() {
            return;
        }
    }
}

/// Writes the report; before it, unless the hub is `known` to have it, what else there is to know.
async fn write(
    api: &Api<Edge>,
    kind: EdgeKind,
    own: &OwnEdge,
    report: &Arc<EdgeReport>,
    known: &mut Option<EdgeSpec>,
) -> Result<(), kube::Error> {
    let OwnEdge { addresses, ports, locality, .. } = own.clone();
    let spec = EdgeSpec { kind, addresses, ports, locality };
    let mut edge = Edge::new(&own.name, spec.clone());
    let how = PatchParams::apply(FIELD_MANAGER).force();
    edge.metadata = ObjectMeta { name: Some(own.name.clone()), ..ObjectMeta::default() };
    // Twice, as somebody may have removed the object since it was written.
    let mut gone = Ok(());
    for _ in 0..2 {
        if known.as_ref() != Some(&spec) && !report.stopping {
            edge.status = None;
            api.patch(&own.name, &how, &Patch::Apply(&edge)).await?;
            *known = Some(spec.clone());
        }
        edge.status = Some((**report).clone());
        match api.patch_status(&own.name, &how, &Patch::Apply(&edge)).await {
            // Nobody has heard of it yet, and need not.
            Err(kube::Error::Api(status)) if status.code == 404 && report.stopping => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                *known = None;
                gone = Err(kube::Error::Api(status));
            }
            written => return written.map(drop),
        }
    }
    gone
}
