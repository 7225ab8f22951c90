//! The refusal that a user sees.

use http::StatusCode;
use serde_json::json;

use super::Attributes;
use crate::error::{ApiError, Subject};

/// What the user may not do, such as
/// `User "ann" cannot list resource "pods" in API group "" in the namespace "default"`.
pub(crate) fn forbidden_message(wanted: &Attributes<'_>) -> String {
    let Attributes { verb, group, resource, subresource, namespace, .. } = wanted;
    let user = &wanted.user.name;
    let message = if let Some(path) = wanted.path {
        format!("User {user:?} cannot {verb} path {path:?}")
    } else {
        let slash = if subresource.is_empty() { "" } else { "/" };
        let resource = format!("{resource}{slash}{subresource}");
        let scope = if namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {namespace:?}")
        };
        format!("User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {scope}")
    };
    // Browsers must not take the message for a page.
    message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The refusal, with the reason of the decision if it has one.
pub(crate) fn forbidden(wanted: &Attributes<'_>, reason: &str) -> ApiError {
    let mut message = forbidden_message(wanted);
    if !reason.is_empty() {
        message = format!("{message}: {reason}");
    }
    if wanted.group.is_empty() && wanted.resource.is_empty() {
        let message = format!("forbidden: {message}");
        let mut error = ApiError::new(StatusCode::FORBIDDEN, "Forbidden", message);
        error.details = Some(json!({}));
        return error;
    }
    let subject = Subject { group: wanted.group, resource: wanted.resource };
    ApiError::forbidden(subject, wanted.name, &message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Identity;

    #[test]
    fn refusals_read_as_in_kubernetes() {
        let ann = Identity::new("auth-ann", &[]);
        let resource = |group, resource, subresource, name, namespace, verb| Attributes {
            user: &ann,
            verb,
            group,
            version: "v1",
            resource,
            subresource,
            name,
            namespace,
            path: None,
        };
        let cases = [
            (
                resource("", "pods", "", "", "auth", "list"),
                json!({"kind": "pods"}),
                "pods is forbidden: User \"auth-ann\" cannot list resource \"pods\" in API group \"\" in the namespace \"auth\"",
            ),
            (
                resource("", "nodes", "", "", "", "list"),
                json!({"kind": "nodes"}),
                "nodes is forbidden: User \"auth-ann\" cannot list resource \"nodes\" in API group \"\" at the cluster scope",
            ),
            (
                resource("apps", "deployments", "scale", "x", "auth", "get"),
                json!({"name": "x", "group": "apps", "kind": "deployments"}),
                "deployments.apps \"x\" is forbidden: User \"auth-ann\" cannot get resource \"deployments/scale\" in API group \"apps\" in the namespace \"auth\"",
            ),
            (
                Attributes::path(&ann, "get", "/metrics"),
                json!({}),
                "forbidden: User \"auth-ann\" cannot get path \"/metrics\"",
            ),
            (
                Attributes::path(&ann, "get", "/a<b>&c"),
                json!({}),
                "forbidden: User \"auth-ann\" cannot get path \"/a&lt;b&gt;&amp;c\"",
            ),
        ];
        for (wanted, details, message) in cases {
            let error = forbidden(&wanted, "");
            assert_eq!(error.message, message);
            assert_eq!(error.details.as_ref(), Some(&details));
            assert_eq!((error.code.as_u16(), error.reason), (403, "Forbidden"));
        }
        let reasoned = forbidden(&Attributes::path(&ann, "get", "/x"), "RBAC: broken");
        assert!(reasoned.message.ends_with("path \"/x\": RBAC: broken"));
    }
}
