//! `TokenRequest`: a new token for a service account.
//!
//! The caller reads the account, then, if [`bound_object`] names one, the object that the token
//! is to be bound to; [`token_request`] does the rest.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::reviews::whole_seconds;
use super::service_account::{TokenGrant, TokenIssuer};
use crate::error::{ApiError, ApiResult, Subject};
use crate::field_error::{FieldError, FieldPath};

const KIND: Subject<'static> = Subject { group: "authentication.k8s.io", resource: "TokenRequest" };
const DEFAULT_SECONDS: i64 = 3600;

/// The object that a token is to be bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BoundObject {
    /// `Pod`, `Secret` or `Node`.
    pub kind: &'static str,
    /// The plural, for the lookup.
    pub resource: &'static str,
    /// The name; the namespace is the account's, and none for a node.
    pub name: String,
    uid: String,
}

/// What the request wants its token bound to.
pub(crate) fn bound_object(request: &Value) -> ApiResult<Option<BoundObject>> {
    let Some(reference) = request.pointer("/spec/boundObjectRef").filter(|r| !r.is_null()) else {
        return Ok(None);
    };
    let text = |field| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    let (kind, resource) = match (group, text("kind")) {
        ("", "Pod") => ("Pod", "pods"),
        ("", "Secret") => ("Secret", "secrets"),
        ("", "Node") => ("Node", "nodes"),
        (_, kind) => {
            return Err(ApiError::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            )));
        }
    };
    let (name, uid) = (text("name").to_owned(), text("uid").to_owned());
    Ok(Some(BoundObject { kind, resource, name, uid }))
}

/// Checks a request before anything is looked up. `namespace` and `name` are of the URL.
fn check_names(request: &Value, namespace: &str, name: &str) -> ApiResult<()> {
    let wanted = [
        ("name", name, "must match the service account name if specified"),
        ("namespace", namespace, "must match the service account namespace if specified"),
    ];
    for (field, expected, detail) in wanted {
        let given = text(request, &["metadata", field]);
        if !given.is_empty() && given != expected {
            let path = FieldPath::new("metadata").child(field);
            let error = FieldError::invalid(&path, &given.into(), detail);
            return Err(ApiError::invalid(KIND, name, &[error]));
        }
    }
    Ok(())
}

/// The answered request. `account` is the service account; `bound` the object that
/// [`bound_object`] named; `id` a fresh UUID.
pub(crate) fn token_request(
    issuer: &TokenIssuer,
    request: &Value,
    account: &Value,
    bound: Option<(&BoundObject, &Value)>,
    now: Timestamp,
    id: &str,
) -> ApiResult<Value> {
    let metadata = |field| text(account, &["metadata", field]);
    let (namespace, name, uid) = (metadata("namespace"), metadata("name"), metadata("uid"));
    check_names(request, namespace, name)?;
    let wanted_uid = text(request, &["metadata", "uid"]);
    if !wanted_uid.is_empty() && wanted_uid != uid {
        let detail = format!(
            "the UID in the token request ({wanted_uid}) does not match the UID of the service account ({uid})"
        );
        return Err(ApiError::conflict(KIND, name, &detail));
    }
    let seconds = lifetime(request)?;
    let audiences = match request.pointer("/spec/audiences").and_then(Value::as_array) {
        Some(given) if !given.is_empty() => {
            given.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => issuer.audiences().to_vec(),
    };
    let bound = bound.map(|(wanted, object)| check_bound(wanted, object, name)).transpose()?;
    let token = issuer
        .issue(&TokenGrant {
            namespace,
            name,
            uid,
            audiences: &audiences,
            bound,
            now: now.as_second(),
            seconds,
            id,
        })
        .map_err(|error| ApiError::internal(format!("failed to generate token: {error}")))?;
    let expires = now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
    Ok(json!({
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "creationTimestamp": whole_seconds(now),
        },
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": request.pointer("/spec/boundObjectRef").unwrap_or(&Value::Null),
        },
        "status": {"token": token, "expirationTimestamp": whole_seconds(expires)},
    }))
}

fn lifetime(request: &Value) -> ApiResult<i64> {
    let given = request.pointer("/spec/expirationSeconds").and_then(Value::as_i64);
    let seconds = given.unwrap_or(DEFAULT_SECONDS);
    let detail = match seconds {
        ..600 => "may not specify a duration less than 10 minutes",
        600..=0x1_0000_0000 => return Ok(seconds),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let path = FieldPath::new("spec").child("expirationSeconds");
    Err(ApiError::invalid(KIND, "", &[FieldError::invalid(&path, &seconds.into(), detail)]))
}

fn check_bound<'a>(
    wanted: &'a BoundObject,
    object: &'a Value,
    account: &str,
) -> ApiResult<(&'a str, &'a str, &'a str)> {
    if wanted.kind == "Pod" && text(object, &["spec", "serviceAccountName"]) != account {
        return Err(ApiError::bad_request(format!(
            "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
        )));
    }
    let uid = text(object, &["metadata", "uid"]);
    if !wanted.uid.is_empty() && wanted.uid != uid {
        let detail = format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
            wanted.uid
        );
        let kind = Subject { group: "", resource: wanted.kind };
        return Err(ApiError::conflict(kind, &wanted.name, &detail));
    }
    Ok((wanted.kind, &wanted.name, uid))
}

fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    let found = path.iter().try_fold(object, |value, field| value.get(field));
    found.and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::jwt::test_key;

    fn answer(request: &Value) -> ApiResult<Value> {
        let issuer = TokenIssuer::new(test_key(), "https://here", vec!["https://here".to_owned()]);
        let account = json!({"metadata": {"name": "bot", "namespace": "auth", "uid": "u-1"}});
        let secret = json!({"metadata": {"name": "s", "uid": "u-2"}});
        let pod = json!({"metadata": {"uid": "u-3"}, "spec": {"serviceAccountName": "other"}});
        let bound = bound_object(request)?;
        let bound = bound.as_ref().map(|wanted| match wanted.kind {
            "Pod" => (wanted, &pod),
            _ => (wanted, &secret),
        });
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let answered = token_request(&issuer, request, &account, bound, now, "j-1")?;
        let token = answered["status"]["token"].as_str().unwrap();
        let audiences: Vec<String> =
            serde_json::from_value(answered["spec"]["audiences"].clone()).unwrap();
        issuer.verify(token, &audiences, now.as_second()).unwrap();
        Ok(answered)
    }

    #[test]
    fn a_request_is_answered_with_a_token() {
        let mut answered = answer(&json!({"spec": {}})).unwrap();
        answered["status"]["token"] = "...".into();
        assert_eq!(
            answered,
            json!({
                "kind": "TokenRequest",
                "apiVersion": "authentication.k8s.io/v1",
                "metadata": {
                    "name": "bot", "namespace": "auth", "uid": "u-1",
                    "creationTimestamp": "2027-01-15T08:00:00Z",
                },
                "spec": {
                    "audiences": ["https://here"],
                    "expirationSeconds": 3600,
                    "boundObjectRef": null,
                },
                "status": {"token": "...", "expirationTimestamp": "2027-01-15T09:00:00Z"},
            })
        );
        let bound = json!({"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": "u-2"});
        answer(&json!({"spec": {"boundObjectRef": bound, "audiences": ["a", "b"]}})).unwrap();
    }

    #[test]
    fn a_wrong_request_is_told_what_is_wrong() {
        let bound = |kind: &str, name: &str, uid: &str| {
            json!({"spec": {"boundObjectRef": {
                "kind": kind, "apiVersion": "v1", "name": name, "uid": uid,
            }}})
        };
        let cases = [
            (
                json!({"spec": {"expirationSeconds": 5}}),
                422,
                "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes",
            ),
            (
                json!({"spec": {"expirationSeconds": 4_294_967_297_i64}}),
                422,
                "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds",
            ),
            (
                json!({"metadata": {"name": "z"}}),
                422,
                "TokenRequest.authentication.k8s.io \"bot\" is invalid: metadata.name: Invalid value: \"z\": must match the service account name if specified",
            ),
            (
                json!({"metadata": {"uid": "z"}}),
                409,
                "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"bot\": the UID in the token request (z) does not match the UID of the service account (u-1)",
            ),
            (bound("Foo", "q", ""), 400, "cannot bind token to object of type /v1, Kind=Foo"),
            (
                bound("Pod", "p", ""),
                400,
                "cannot bind token for serviceaccount \"bot\" to pod running with different serviceaccount name.",
            ),
            (
                bound("Secret", "s", "u-9"),
                409,
                "Operation cannot be fulfilled on Secret \"s\": the UID in the bound object reference (u-9) does not match the UID in record. The object might have been deleted and then recreated",
            ),
        ];
        for (request, code, message) in cases {
            let error = answer(&request).unwrap_err();
            assert_eq!((error.code.as_u16(), error.message.as_str()), (code, message));
        }
    }
}
