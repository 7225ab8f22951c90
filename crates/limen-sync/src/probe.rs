//! Whether a member's API answers, what it says it is, and where its nodes are.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use serde_json::Value;

use crate::claim::{self, Claim, FoundClaim};
use crate::member_error::MemberError;
use crate::object_api::ObjectApi;

const PATIENCE: u64 = 3;

/// How many beats there are from one probe of a member to the next.
const BEATS: u32 = 10;

/// When to probe next: on the last beat before the time is over, so never later than it says.
pub(crate) fn next(beat_from: Instant, now: Instant, every: Duration) -> Instant {
    let (due, beat) = (now + every, (every / BEATS).as_nanos());
    let late = due.saturating_duration_since(beat_from).as_nanos().checked_rem(beat);
    let late = late.and_then(|late| u64::try_from(late).ok()).unwrap_or_default();
    due - Duration::from_nanos(late)
}

/// A member, as it describes itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Counts descriptions on a connection, from 1; a permit names the one that it answers.
    pub number: u64,
    /// Its Kubernetes version; empty if it is not told in time.
    pub version: String,
    /// Where its nodes are.
    pub nodes: Nodes,
    /// The uid of its namespace kube-system, which identifies a cluster whatever its name or
    /// endpoint; unknown if the namespace cannot be read.
    pub uid: Option<String>,
    /// The claim of this hub in it.
    pub claim: Option<Claim>,
}

/// Where most nodes of a member are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// The region of most nodes.
    pub region: Option<String>,
    /// The zone of most nodes.
    pub zone: Option<String>,
}

/// Whether the API answers that it is healthy.
pub(crate) async fn healthy(api: &ObjectApi) -> Result<(), MemberError> {
    let answer = tokio::time::timeout(Duration::from_secs(PATIENCE), api.text("/readyz")).await;
    answer.map_err(|_| MemberError::timeout(PATIENCE))?.map(drop).map_err(MemberError::from)
}

/// Describes the member, with the version of its claim. Identity and claim must be read; version
/// and nodes are as they were `before` where the member does not tell them in time.
pub(crate) async fn describe(
    api: &ObjectApi,
    hub: &str,
    before: Description,
) -> Result<(Description, Option<FoundClaim>), MemberError> {
    let limit = Duration::from_secs(PATIENCE);
    let identity = async { futures::try_join!(uid(api), found_claim(api, hub)) };
    let identity = tokio::time::timeout(limit, identity).await;
    let (uid, found) = identity.map_err(|_| MemberError::timeout(PATIENCE))??;
    let claim = found.as_ref().map(|found| found.claim.clone());
    let version = tokio::time::timeout(limit, version(api));
    let nodes = tokio::time::timeout(limit, api.metadata_page("/api/v1/nodes?limit=1000"));
    let (version, nodes) = futures::join!(version, nodes);
    let version = version.ok().and_then(Result::ok).unwrap_or(before.version);
    let nodes = match nodes {
        Ok(Ok(list)) => nodes_of(&list),
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => Nodes::default(),
        _ => before.nodes,
    };
    Ok((Description { number: before.number, version, nodes, uid, claim }, found))
}

/// The uid of kube-system, which may be forbidden to us.
async fn uid(api: &ObjectApi) -> kube::Result<Option<String>> {
    match api.text("/api/v1/namespaces/kube-system").await {
        Ok(text) => {
            let namespace: Value = serde_json::from_str(&text).unwrap_or_default();
            Ok(namespace["metadata"]["uid"].as_str().map(str::to_owned))
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn found_claim(api: &ObjectApi, hub: &str) -> kube::Result<Option<FoundClaim>> {
    match claim::read(api, hub).await {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(None),
        found => found,
    }
}

async fn version(api: &ObjectApi) -> kube::Result<String> {
    let version: Value = serde_json::from_str(&api.text("/version").await?).unwrap_or_default();
    Ok(version["gitVersion"].as_str().unwrap_or_default().to_owned())
}

fn nodes_of(list: &Value) -> Nodes {
    let most = |label: &str| {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for node in list["items"].as_array().into_iter().flatten() {
            if let Some(value) = node["metadata"]["labels"][label].as_str() {
                *counts.entry(value).or_default() += 1;
            }
        }
        // Among equals the first by name, so that the answer does not change from probe to probe.
        let best = counts.into_iter().max_by_key(|&(name, count)| (count, std::cmp::Reverse(name)));
        best.map(|(name, _)| name.to_owned())
    };
    Nodes {
        region: most("topology.kubernetes.io/region"),
        zone: most("topology.kubernetes.io/zone"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_are_probed_together_and_none_later_than_asked_for() {
        let (from, every) = (Instant::now(), Duration::from_secs(5));
        let beat = every / BEATS;
        for millis in [0, 1, 499, 500, 501, 3210, 4999, 5000, 86_400_123] {
            let first = from + Duration::from_millis(millis);
            let second = next(from, first, every);
            assert!(second <= first + every && second > first + every - beat, "{millis}");
            assert_eq!((second - from).as_nanos() % beat.as_nanos(), 0, "{millis}");
            // It is begun a little late, and the pace stays the same.
            let begun = second + Duration::from_millis(3);
            assert_eq!(next(from, begun, every), second + every, "{millis}");
        }
        assert_eq!(next(from, from, Duration::ZERO), from);
    }

    #[test]
    fn a_member_is_where_most_of_its_nodes_are() {
        let node = |region: &str| json!({"metadata": {"labels": {"topology.kubernetes.io/region": region}}});
        let unlabelled = json!({"metadata": {}});
        let list = json!({"items": [node("a"), node("b"), node("b"), unlabelled]});
        assert_eq!(nodes_of(&list).region.as_deref(), Some("b"));
        let list = json!({"items": [node("b"), node("a")]});
        assert_eq!(nodes_of(&list).region.as_deref(), Some("a"));
        assert_eq!(nodes_of(&json!({})), Nodes::default());
    }
}
