//! The event of one request, in the form of `audit.k8s.io/v1` at the level `Metadata`.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::auth::Identity;
use crate::rbac::Attributes;

const MAX_USER_AGENT_BYTES: usize = 1024;

/// What is known of a request once it was answered.
#[derive(Clone, Debug)]
pub(crate) struct Record<'a> {
    /// The request's UUID, which the client is told too.
    pub audit_id: &'a str,
    /// The path and query.
    pub uri: &'a str,
    /// What was asked for; its user is the one that the decision was about.
    pub attributes: &'a Attributes<'a>,
    /// Who asked, if as somebody else.
    pub impersonator: Option<&'a Identity>,
    /// The addresses that the request came through, the client's first.
    pub source_ips: &'a [IpAddr],
    /// The client's program.
    pub user_agent: &'a str,
    /// The HTTP status.
    pub code: u16,
    /// The reason of a failure, such as `NotFound`.
    pub failure: Option<&'a str>,
    /// Whether it was allowed, and why; `None` if it did not come to that.
    pub decision: Option<(bool, &'a str)>,
    /// When the request came.
    pub received: Timestamp,
    /// When it was answered.
    pub answered: Timestamp,
}

/// The event.
pub(crate) fn event(record: &Record<'_>) -> Value {
    let wanted = record.attributes;
    let user = record.impersonator.unwrap_or(wanted.user);
    let mut event = json!({
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": record.audit_id,
        "stage": "ResponseComplete",
        "requestURI": without_tokens(record.uri),
        "verb": wanted.verb,
        "user": user.user_info(),
        "sourceIPs": record.source_ips,
        "responseStatus": status(record),
        "requestReceivedTimestamp": microseconds(record.received),
        "stageTimestamp": microseconds(record.answered),
    });
    if record.impersonator.is_some() {
        event["impersonatedUser"] = wanted.user.user_info();
    }
    if !record.user_agent.is_empty() {
        event["userAgent"] = shortened(record.user_agent).into();
    }
    if wanted.path.is_none() {
        event["objectRef"] = object_reference(wanted);
    }
    if let Some((allowed, reason)) = record.decision {
        event["annotations"] = json!({
            "authorization.k8s.io/decision": if allowed { "allow" } else { "forbid" },
            "authorization.k8s.io/reason": reason,
        });
    }
    event
}

fn status(record: &Record<'_>) -> Value {
    let mut status = json!({"metadata": {}, "code": record.code});
    if let Some(reason) = record.failure {
        status["status"] = "Failure".into();
        status["reason"] = reason.into();
    }
    status
}

fn object_reference(wanted: &Attributes<'_>) -> Value {
    let fields = [
        ("resource", wanted.resource),
        ("namespace", wanted.namespace),
        ("name", wanted.name),
        ("apiGroup", wanted.group),
        ("apiVersion", wanted.version),
        ("subresource", wanted.subresource),
    ];
    let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
    let reference: Map<String, Value> =
        fields.map(|(field, value)| (field.to_owned(), value.into())).collect();
    Value::Object(reference)
}

/// The URI without the values of query parameters that some clients put credentials into.
fn without_tokens(uri: &str) -> String {
    let Some((path, query)) = uri.split_once('?') else { return uri.to_owned() };
    let parts: Vec<String> = query
        .split('&')
        .map(|part| {
            let name = part.split('=').next().unwrap_or_default();
            let decoded = percent_encoding::percent_decode_str(name).decode_utf8_lossy();
            let secret = ["token", "password", "secret", "authorization"];
            let is_secret = secret.iter().any(|word| decoded.to_lowercase().contains(word));
            if is_secret { format!("{name}=REDACTED") } else { part.to_owned() }
        })
        .collect();
    format!("{path}?{}", parts.join("&"))
}

fn shortened(user_agent: &str) -> String {
    if user_agent.len() <= MAX_USER_AGENT_BYTES {
        return user_agent.to_owned();
    }
    let end = user_agent.floor_char_boundary(MAX_USER_AGENT_BYTES);
    format!("{}...TRUNCATED", &user_agent[..end])
}

fn microseconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn with_record(check: impl FnOnce(Record<'_>)) {
        let ann = Identity::new("ann", &["system:authenticated"]);
        let attributes = Attributes {
            user: &ann,
            verb: "get",
            group: "apps",
            version: "v1",
            resource: "deployments",
            subresource: "scale",
            name: "web",
            namespace: "default",
            path: None,
        };
        check(Record {
            audit_id: "id-1",
            uri: "/apis/apps/v1/namespaces/default/deployments/web/scale?pretty=1&access_token=abc",
            attributes: &attributes,
            impersonator: None,
            source_ips: &[[127, 0, 0, 1].into()],
            user_agent: "kubectl/v1.36.3",
            code: 404,
            failure: Some("NotFound"),
            decision: Some((true, "RBAC: allowed")),
            received: Timestamp::new(1_800_000_000, 1_000).unwrap(),
            answered: Timestamp::new(1_800_000_000, 2_500_000).unwrap(),
        });
    }

    #[test]
    fn an_event_has_the_form_of_kubernetes() {
        with_record(|record| {
            assert_eq!(
                event(&record),
                json!({
                    "kind": "Event",
                    "apiVersion": "audit.k8s.io/v1",
                    "level": "Metadata",
                    "auditID": "id-1",
                    "stage": "ResponseComplete",
                    "requestURI": "/apis/apps/v1/namespaces/default/deployments/web/scale?pretty=1&access_token=REDACTED",
                    "verb": "get",
                    "user": {"username": "ann", "groups": ["system:authenticated"]},
                    "sourceIPs": ["127.0.0.1"],
                    "userAgent": "kubectl/v1.36.3",
                    "objectRef": {
                        "resource": "deployments", "namespace": "default", "name": "web",
                        "apiGroup": "apps", "apiVersion": "v1", "subresource": "scale",
                    },
                    "responseStatus": {
                        "metadata": {}, "status": "Failure", "reason": "NotFound", "code": 404,
                    },
                    "requestReceivedTimestamp": "2027-01-15T08:00:00.000001Z",
                    "stageTimestamp": "2027-01-15T08:00:00.002500Z",
                    "annotations": {
                        "authorization.k8s.io/decision": "allow",
                        "authorization.k8s.io/reason": "RBAC: allowed",
                    },
                })
            );
        });
    }

    #[test]
    fn an_impersonator_is_named_first() {
        let root = Identity::new("root", &[]);
        with_record(|record| {
            let event = event(&Record { impersonator: Some(&root), ..record });
            assert_eq!(event["user"]["username"], "root");
            assert_eq!(event["impersonatedUser"]["username"], "ann");
        });
    }

    #[test]
    fn a_path_has_no_object() {
        let anonymous = Identity::anonymous();
        let attributes = Attributes::path(&anonymous, "get", "/version");
        with_record(|record| {
            let long = "é".repeat(1000);
            let event = event(&Record { attributes: &attributes, user_agent: &long, ..record });
            assert_eq!(event.get("objectRef"), None);
            assert!(event["userAgent"].as_str().unwrap().ends_with("é...TRUNCATED"));
        });
    }
}
