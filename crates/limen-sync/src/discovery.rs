//! The kinds that a cluster serves, by its own discovery.
//!
//! A path that is not found proves little: a misrouted load balancer or a proxy that has lost its
//! cluster says the same. So a kind is absent only when discovery, which every Kubernetes has, can
//! be read and has the kind in no version of its group.

use futures::{StreamExt, stream};
use http::Method;
use limen_core::federated::Kind;
use limen_core::namespace_contents::{is_stored, is_virtual_group};
use serde_json::Value;

use crate::object_api::{ObjectApi, version_path};

/// How many documents of discovery are read at the same time.
const READS: usize = 8;

/// Whether and how a cluster serves a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Serving {
    /// Discovery does not answer, or not completely.
    Unknown,
    /// It serves the kind in the version that is asked for.
    Served,
    /// It serves the kind in these versions only.
    OtherVersions(Vec<String>),
    /// It serves the kind in no version.
    Absent,
}

/// Whether the cluster says what it serves, and has this kind in no version.
pub async fn lacks(api: &ObjectApi, kind: &Kind) -> kube::Result<bool> {
    Ok(serving(api, kind).await? == Serving::Absent)
}

/// How the cluster serves a kind.
pub(crate) async fn serving(api: &ObjectApi, kind: &Kind) -> kube::Result<Serving> {
    let versions = match kind.group() {
        "" => vec![kind.api_version.clone()],
        group => {
            let groups = api.send(Method::GET, "/apis", None, None).await?;
            let Some(groups) = entries(&groups, "APIGroupList", "groups") else {
                return Ok(Serving::Unknown);
            };
            let known = groups.iter().find(|known| known["name"] == *group);
            let versions = known.and_then(|known| known["versions"].as_array());
            let names =
                versions.into_iter().flatten().filter_map(|version| version["version"].as_str());
            names.map(|version| format!("{group}/{version}")).collect()
        }
    };
    let mut serving = Vec::new();
    for api_version in versions {
        let version = Kind { api_version, ..kind.clone() };
        let resources = api.send(Method::GET, &version_path(&version), None, None).await?;
        let Some(resources) = entries(&resources, "APIResourceList", "resources") else {
            return Ok(Serving::Unknown);
        };
        if resources.iter().any(|known| known["name"] == *kind.plural) {
            serving.push(version.api_version);
        }
    }
    Ok(match serving.is_empty() {
        true => Serving::Absent,
        false if serving.contains(&kind.api_version) => Serving::Served,
        false => Serving::OtherVersions(serving),
    })
}

/// The kinds whose objects are in namespaces and are deleted with them.
#[derive(Debug, Default)]
pub(crate) struct Listable {
    /// Each in the first version that serves it.
    pub(crate) kinds: Vec<Kind>,
    /// Parts of discovery that cannot be read, with the reason.
    pub(crate) unreadable: Vec<String>,
}

/// Every kind whose objects are in namespaces and are deleted with them.
pub(crate) async fn listable_kinds(api: &ObjectApi) -> kube::Result<Listable> {
    let mut found = Listable::default();
    let groups = api.send(Method::GET, "/apis", None, None).await?;
    let Some(groups) = entries(&groups, "APIGroupList", "groups") else {
        found.unreadable.push("/apis is no list of API groups".to_owned());
        return Ok(found);
    };
    // A kind may be served in another version than the preferred one only.
    let mut versions = vec!["v1".to_owned()];
    for group in groups {
        for version in group["versions"].as_array().into_iter().flatten() {
            versions.extend(version["groupVersion"].as_str().map(str::to_owned));
        }
    }
    let reads = stream::iter(versions).map(async |api_version| {
        let path = match api_version.contains('/') {
            true => format!("/apis/{api_version}"),
            false => format!("/api/{api_version}"),
        };
        let resources = api.send(Method::GET, &path, None, None).await;
        (api_version, path, resources)
    });
    let mut reads = std::pin::pin!(reads.buffered(READS));
    while let Some((api_version, path, resources)) = reads.next().await {
        let unreadable = match resources {
            Ok(resources) => match entries(&resources, "APIResourceList", "resources") {
                Some(resources) => {
                    let kinds = resources.iter().filter_map(|known| listable(known, &api_version));
                    for kind in kinds {
                        if !found.kinds.contains(&kind) {
                            found.kinds.push(kind);
                        }
                    }
                    continue;
                }
                None => format!("{path} is no list of resources"),
            },
            // An aggregated API whose server is away hides what it has.
            Err(kube::Error::Api(status)) if is_permanent(status.code) => {
                format!("{path}: {}", status.message)
            }
            Err(error) => return Err(error),
        };
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        if !is_virtual_group(group) {
            found.unreadable.push(unreadable);
        }
    }
    // Every cluster has these: without them something else answers in its place.
    let has =
        |name: &str| found.kinds.iter().any(|kind| kind.group().is_empty() && kind.plural == name);
    if !["configmaps", "secrets"].into_iter().all(has) {
        found.unreadable.push("discovery lists no ConfigMaps and Secrets".to_owned());
    }
    Ok(found)
}

fn listable(resource: &Value, api_version: &str) -> Option<Kind> {
    let name = resource["name"].as_str().filter(|name| !name.contains('/'))?;
    let verbs: Vec<&str> = resource["verbs"].as_array()?.iter().filter_map(Value::as_str).collect();
    (is_stored(&verbs) && resource["namespaced"] == true).then(|| Kind {
        api_version: api_version.to_owned(),
        kind: resource["kind"].as_str().unwrap_or_default().to_owned(),
        plural: name.to_owned(),
        namespaced: true,
    })
}

/// Whether a request that was answered like this will be answered like this again.
pub(crate) fn is_permanent(code: u16) -> bool {
    matches!(code, 403..=405 | 503)
}

/// The entries of a document of discovery; nothing if it is something else.
fn entries<'a>(document: &'a Value, kind: &str, field: &str) -> Option<&'a Vec<Value>> {
    document[field].as_array().filter(|_| document["kind"] == *kind)
}
