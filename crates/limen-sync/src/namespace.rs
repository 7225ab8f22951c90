//! The contents of a member's namespace, of every kind that the member has.

use std::time::Duration;

use futures::{StreamExt, stream};
use limen_core::namespace_contents::{NamespaceContents, is_foreign};

use crate::discovery::{is_permanent, listable_kinds};
use crate::member_error::{MemberError, MemberErrorKind};
use crate::object_api::ObjectApi;

/// How long the listing of all kinds may take, in seconds. An object that comes into the namespace
/// meanwhile may go with it.
pub(crate) const PATIENCE: u64 = 30;
/// How many kinds are listed at the same time.
const LISTS: usize = 8;

/// Lists everything in a namespace, or as much as proves that something foreign is in it. Kinds that
/// cannot be listed are named.
///
/// A listing that fails is not the failure of the member: probes tell whether that can be reached.
pub(crate) async fn contents(
    api: &ObjectApi,
    namespace: &str,
    hub: &str,
) -> Result<NamespaceContents, MemberError> {
    let failed = |cause: String| MemberError {
        kind: MemberErrorKind::Busy,
        message: format!("cannot list everything in namespace {namespace}: {cause}"),
    };
    let limit = Duration::from_secs(PATIENCE);
    match tokio::time::timeout(limit, list(api, namespace, hub)).await {
        Ok(listed) => listed.map_err(|error| failed(MemberError::from(error).message)),
        Err(_) => Err(failed(format!("not complete within {PATIENCE} s"))),
    }
}

async fn list(api: &ObjectApi, namespace: &str, hub: &str) -> kube::Result<NamespaceContents> {
    let found = listable_kinds(api).await?;
    let mut contents = NamespaceContents { objects: Vec::new(), unlistable: found.unreadable };
    let lists = stream::iter(found.kinds).map(async |kind| {
        let listed = api.list_metadata_in(&kind, namespace).await;
        (kind, listed)
    });
    let mut lists = std::pin::pin!(lists.buffer_unordered(LISTS));
    while contents.unlistable.is_empty()
        && let Some((kind, listed)) = lists.next().await
    {
        match listed {
            Ok(objects) => {
                let before = contents.objects.len();
                contents
                    .objects
                    .extend(objects.into_iter().map(|object| (kind.kind.clone(), object)));
                let new = &contents.objects[before..];
                if new.iter().any(|(kind, metadata)| is_foreign(kind, metadata, hub)) {
                    break;
                }
            }
            Err(kube::Error::Api(status)) if is_permanent(status.code) => {
                contents.unlistable.push(format!("{}: {}", kind.plural, status.message));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use limen_core::namespace_contents::NamespaceVerdict;
    use serde_json::{Value, json};

    use super::*;

    /// An empty list of metadata, as kube-apiserver has it.
    fn empty() -> Value {
        json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "7"}, "items": null})
    }

    /// A member with ConfigMaps, Secrets, PodMetrics and an unreadable API of metrics; `secrets` is
    /// what it answers for Secrets, if it answers.
    fn member(secrets: Option<Value>) -> ObjectApi {
        let resource = |name: &str, verbs: &[&str]| json!({"name": name, "kind": name, "namespaced": true, "verbs": verbs});
        let list = |resources: Value| json!({"kind": "APIResourceList", "resources": resources});
        let version = |version: &str| json!({"versions": [{"groupVersion": version}]});
        let groups =
            ["metrics.k8s.io/v1beta1", "custom.metrics.k8s.io/v1", "apps/v1", "apps/v1beta1"];
        let stored = ["create", "delete", "get", "list"];
        let documents = json!({
            "/apis": {"kind": "APIGroupList", "groups": groups.map(version)},
            "/api/v1": list(json!([resource("configmaps", &stored), resource("secrets", &stored)])),
            "/apis/metrics.k8s.io/v1beta1": list(json!([resource("pods", &["get", "list"])])),
            "/apis/apps/v1": list(json!([resource("deployments", &stored)])),
            "/apis/apps/v1beta1": list(json!([resource("deployments", &stored)])),
            "/api/v1/namespaces/shop/configmaps": empty(),
            "/apis/apps/v1/namespaces/shop/deployments": empty(),
        });
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            let answer = match &documents[&path] {
                Value::Null if path.ends_with("/secrets") => secrets.clone(),
                found => Some(found.clone()),
            };
            async move {
                let Some(answer) = answer else { return std::future::pending().await };
                let status = if answer.is_null() { 503 } else { 200 };
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, std::io::Error>(Response::builder().status(status).body(body).unwrap())
            }
        });
        ObjectApi::new(kube::Client::new(service, "default"))
    }

    #[tokio::test]
    async fn computed_resources_keep_no_namespace() {
        let api = member(Some(empty()));
        let contents = contents(&api, "shop", "hub").await.unwrap();
        assert_eq!(contents.verdict("hub"), NamespaceVerdict::Empty, "{contents:?}");
    }

    #[tokio::test]
    async fn a_foreign_object_is_enough() {
        let api = member(Some(json!({"items": [{"metadata": {"name": "password"}}]})));
        let contents = contents(&api, "shop", "hub").await.unwrap();
        let foreign = NamespaceVerdict::Foreign(vec!["secrets password".to_owned()]);
        assert_eq!(contents.verdict("hub"), foreign);
    }

    #[tokio::test]
    async fn an_answer_that_is_no_list_does_not_make_a_namespace_empty() {
        for answer in [json!({"kind": "Status"}), json!({"items": null}), json!("welcome")] {
            let error = contents(&member(Some(answer)), "shop", "hub").await.unwrap_err();
            assert_eq!(error.kind, MemberErrorKind::Busy, "{error}");
        }
    }

    #[tokio::test]
    async fn a_listing_that_is_not_answered_does_not_make_the_member_unreachable() {
        let api = member(None).with_patience(Duration::from_millis(100));
        let error = contents(&api, "shop", "hub").await.unwrap_err();
        assert_eq!(error.kind, MemberErrorKind::Busy);
        assert!(error.message.contains("namespace shop"), "{error}");
    }
}
