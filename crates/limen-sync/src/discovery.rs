//! Whether a cluster knows a kind, in its own words.
//!
//! That a path is not found may be said by anything that answers in the place of a cluster: a load
//! balancer that was misrouted, or a proxy that has lost it. So the absence of a kind counts only
//! when discovery, which every Kubernetes has, says what there is and the kind is not among it.

use http::Method;
use limen_core::federated::Kind;
use serde_json::Value;

use crate::object_api::{ObjectApi, version_path};

/// Whether the cluster says what it knows, and this kind is not among it.
pub async fn lacks(api: &ObjectApi, kind: &Kind) -> kube::Result<bool> {
    if !kind.group().is_empty() {
        let groups = api.send(Method::GET, "/apis", None, None).await?;
        match entries(&groups, "APIGroupList", "groups") {
            Some(groups) if !serves(groups, kind) => return Ok(true),
            Some(_) => {}
            None => return Ok(false),
        }
    }
    let resources = api.send(Method::GET, &version_path(kind), None, None).await?;
    let resources = entries(&resources, "APIResourceList", "resources");
    Ok(resources.is_some_and(|all| !all.iter().any(|known| known["name"] == *kind.plural)))
}

fn serves(groups: &[Value], kind: &Kind) -> bool {
    let version = |known: &Value| known["version"] == *kind.version();
    groups.iter().any(|group| {
        let mut versions = group["versions"].as_array().into_iter().flatten();
        group["name"] == *kind.group() && versions.any(version)
    })
}

/// The entries of a document of discovery; nothing if it is something else.
fn entries<'a>(document: &'a Value, kind: &str, field: &str) -> Option<&'a Vec<Value>> {
    document[field].as_array().filter(|_| document["kind"] == *kind)
}
