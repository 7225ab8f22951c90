//! Other edges, met through `Edge` objects on the hub.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::ObjectMeta;
use limen_core::edge::{EdgeKind, EdgeReport, Peer};
use tokio::sync::watch;

use super::OwnEdge;
use super::objects::Key;
use crate::{Edge, EdgeSpec};

/// Who writes `Edge` objects.
const FIELD_MANAGER: &str = "limen-gateway";
/// How long a report that could not be written waits to be tried again.
const AGAIN: Duration = Duration::from_secs(2);
/// The same of one that says that the edge ends: there is not much time.
const SOON: Duration = Duration::from_millis(200);
/// An edge that has said nothing for so long is gone, and whoever finds its object removes it.
const GONE: Duration = Duration::from_secs(3600);
/// The same of one that has said that it ends: it may be on its way back.
const STOPPED: Duration = Duration::from_secs(600);

/// An edge as others see it.
#[derive(PartialEq)]
pub(super) struct Met {
    pub(super) peer: Peer,
    uid: Option<String>,
    version: Option<String>,
}

impl Met {
    pub(super) fn new(edge: &Edge) -> Self {
        let EdgeSpec { kind, locality, .. } = edge.spec.clone();
        let peer = Peer { kind, locality, report: edge.status.clone().unwrap_or_default() };
        let ObjectMeta { uid, resource_version: version, .. } = edge.metadata.clone();
        Self { peer, uid, version }
    }

    /// The object is removed only if it is still this one.
    pub(super) fn unchanged(&self) -> Preconditions {
        Preconditions { uid: self.uid.clone(), resource_version: self.version.clone() }
    }
}

/// Since when edges have said nothing. By how long they have been listened to, as clocks differ,
/// and one that is wrong must not take the others for gone.
#[derive(Default)]
pub(super) struct Silence(BTreeMap<Key, (Option<String>, Instant)>);

impl Silence {
    /// Takes in all edges as they are now. The answer is one that nobody has heard of for so long
    /// that its object should go, if there is any.
    pub(super) fn listen<'a>(
        &mut self,
        edges: &'a BTreeMap<Key, Met>,
        now: Instant,
    ) -> Option<(&'a Key, &'a Met)> {
        self.0.retain(|key, _| edges.contains_key(key));
        let mut gone = None;
        for (key, met) in edges {
            let heard = self.0.entry(key.clone()).or_insert_with(|| (met.version.clone(), now));
            if heard.0 != met.version {
                *heard = (met.version.clone(), now);
            }
            let patience = if met.peer.report.stopping { STOPPED } else { GONE };
            // One at a time: if this is a mistake, it is noticed before it is repeated.
            if now - heard.1 > patience {
                gone = gone.or(Some((key, met)));
            }
        }
        gone
    }
}

/// Removes the object of an edge that is gone, as it was seen.
pub(super) async fn remove(client: kube::Client, name: String, met: Preconditions) {
    let how = DeleteParams { preconditions: Some(met), ..DeleteParams::default() };
    // Somebody else may have done so; if it fails, the next one who sees it tries again.
    let _ = Api::<Edge>::all(client).delete(&name, &how).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_is_gone_when_it_has_been_silent_for_as_long_as_it_was_listened_to() {
        let met = |version: &str, observed_at: i64, stopping: bool| {
            let observed_at = Some(observed_at);
            let report = EdgeReport { observed_at, stopping, ..EdgeReport::default() };
            let peer = Peer { report, ..Peer::default() };
            Met { peer, uid: Some("u".into()), version: Some(version.into()) }
        };
        let key = |name: &str| (String::new(), name.to_owned());
        let (start, mut silence) = (Instant::now(), Silence::default());
        let mut gone = |seconds: u64, edges: Vec<(&str, Met)>| {
            let edges = edges.into_iter().map(|(name, met)| (key(name), met)).collect();
            let now = start + Duration::from_secs(seconds);
            silence.listen(&edges, now).map(|(key, _)| key.1.clone())
        };
        // All of them wrote long ago, by the clock.
        let all = || {
            vec![
                ("dead", met("1", 0, false)),
                ("gone", met("2", 0, false)),
                ("stopped", met("3", 0, true)),
            ]
        };
        assert_eq!(gone(0, all()), None);
        assert_eq!(gone(500, all()), None);
        assert_eq!(gone(601, all()).as_deref(), Some("stopped"));
        assert_eq!(gone(3601, all()).as_deref(), Some("dead"), "one at a time");
        let mut left = all();
        left[0] = ("dead", met("9", 0, false));
        assert_eq!(gone(3602, left).as_deref(), Some("gone"), "the first has said something");
    }
}
