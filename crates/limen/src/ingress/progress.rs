//! Waiting until clusters have done what they shall, with an end.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use k8s_openapi::api::networking::v1::Ingress;
use kube::{Client, ResourceExt};
use limen_api::{FederatedStatusSpec, LeafState};

use super::balancer::record;
use crate::holds::release_ingress;

/// How often to look.
const LOOK: Duration = Duration::from_millis(200);

/// Waits until the record of an Ingress satisfies somebody.
pub(super) async fn until(
    hub: &Client,
    ingress: &Ingress,
    timeout: u64,
    mut done: impl AsyncFnMut(&FederatedStatusSpec) -> Result<Outlook>,
) -> Result<()> {
    let (name, namespace) = (ingress.name_any(), ingress.namespace().unwrap_or_default());
    let deadline = Instant::now() + Duration::from_secs(timeout);
    let generation = ingress.metadata.generation.unwrap_or(0);
    let mut last = "the hub has not looked at it yet".to_owned();
    loop {
        let found = record(hub, &namespace, &name).await?;
        if let Some(found) = found.filter(|found| found.spec.root.generation >= generation) {
            match done(&found.spec).await? {
                Outlook::Done => return Ok(()),
                Outlook::NotYet(why) => last = why,
            }
        }
        if Instant::now() >= deadline {
            bail!(
                "Ingress {namespace}/{name} is not everywhere after {timeout} s: {last}; the hub goes on trying, and limen status ingress/{name} -n {namespace} says how it is"
            );
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// How far it is.
pub(super) enum Outlook {
    Done,
    /// What is still missing.
    NotYet(String),
}

/// Waits until clusters hold an Ingress no more. What the hub holds back ends it, unless it is to be
/// released.
pub(super) async fn until_gone(
    hub: &Client,
    ingress: &Ingress,
    timeout: u64,
    going: &[String],
    force: bool,
) -> Result<()> {
    let (name, namespace) = (ingress.name_any(), ingress.namespace().unwrap_or_default());
    until(hub, ingress, timeout, async |record| {
        let left = record.clusters.iter().filter(|leaf| going.contains(&leaf.cluster));
        let left: Vec<_> = left.collect();
        if left.iter().any(|leaf| leaf.state == LeafState::Held) {
            if !force {
                bail!(
                    "the hub holds this back: {}; if it is meant, use --force or limen release ingress/{name} -n {namespace}",
                    record.message
                );
            }
            release_ingress(hub, &namespace, &name).await?;
        }
        // What is away does it when it comes back.
        let pending: Vec<&str> =
            left.iter().filter(|leaf| !leaf.stale).map(|leaf| leaf.cluster.as_str()).collect();
        Ok(match pending.is_empty() {
            true => Outlook::Done,
            false => Outlook::NotYet(format!("still in {}", pending.join(", "))),
        })
    })
    .await
}

/// How far clusters are that shall hold an Ingress. Those that have it for the first time are
/// taken from `waiting` and told of. What somebody else has there ends it, unless it is to be
/// taken over.
pub(super) fn spreading(
    record: &FederatedStatusSpec,
    waiting: &mut BTreeSet<String>,
    adopt: bool,
    mut tell: impl FnMut(&str),
) -> Result<Outlook> {
    let mut missing = Vec::new();
    for leaf in &record.clusters {
        if !waiting.contains(&leaf.cluster) {
            continue;
        }
        match leaf.state {
            LeafState::Synced => {
                tell(&leaf.cluster);
                waiting.remove(&leaf.cluster);
            }
            LeafState::Conflict if !adopt => bail!(
                "will not overwrite Ingress resource in cluster '{}' without --force: it is not Limen's",
                leaf.cluster
            ),
            state if leaf.message.is_empty() => {
                missing.push(format!("{} is {state:?}", leaf.cluster));
            }
            state => missing.push(format!("{} is {state:?} ({})", leaf.cluster, leaf.message)),
        }
    }
    if waiting.is_empty() {
        return Ok(Outlook::Done);
    }
    if missing.is_empty() {
        missing.push(waiting.iter().map(String::as_str).collect::<Vec<_>>().join(", "));
    }
    Ok(Outlook::NotYet(missing.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use limen_api::LeafReport;

    fn record(leaves: &[(&str, LeafState)]) -> FederatedStatusSpec {
        let leaf = |&(cluster, state): &(&str, LeafState)| LeafReport {
            cluster: cluster.to_owned(),
            state,
            ..LeafReport::default()
        };
        FederatedStatusSpec {
            clusters: leaves.iter().map(leaf).collect(),
            ..FederatedStatusSpec::default()
        }
    }

    #[test]
    fn each_cluster_is_told_of_once_and_conflicts_end_it() {
        let mut waiting = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let mut told = Vec::new();
        let first = record(&[("a", LeafState::Synced), ("b", LeafState::Failed)]);
        for _ in 0..2 {
            let outlook = spreading(&first, &mut waiting, false, |name| told.push(name.to_owned()));
            assert!(matches!(outlook.unwrap(), Outlook::NotYet(why) if why == "b is Failed"));
        }
        let then = record(&[("a", LeafState::Synced), ("b", LeafState::Conflict)]);
        assert!(spreading(&then, &mut waiting, false, |_| ()).is_err());
        assert!(spreading(&then, &mut waiting, true, |_| ()).is_ok(), "it is being taken over");
        let last = record(&[("b", LeafState::Synced)]);
        let outlook = spreading(&last, &mut waiting, false, |name| told.push(name.to_owned()));
        assert!(matches!(outlook.unwrap(), Outlook::Done));
        assert_eq!(told, ["a", "b"]);
    }
}
