//! Questions about permissions, asked as objects: `SubjectAccessReview` and its relatives.
//!
//! Each function takes the object that was sent and gives the one to answer with.

use serde_json::{Map, Value, json};

use super::{Attributes, Rbac, Rule};
use crate::auth::Identity;
use crate::error::{ApiError, ApiResult, Subject};
use crate::field_error::{FieldError, FieldPath};

const ONE_OF: &str = "exactly one of nonResourceAttributes or resourceAttributes must be specified";

/// Answers whether somebody may do something.
pub(crate) fn subject_access_review(rbac: &Rbac, review: &Value) -> ApiResult<Value> {
    let mut errors = Vec::new();
    check_attributes(review, &mut errors);
    check_subject(review, &mut errors);
    check_selectors(review, &mut errors);
    check_metadata(review, &[], "must be empty", &mut errors);
    refuse(&errors)?;
    Ok(answered(rbac, review, &subject(review)))
}

/// Answers whether somebody may do something in the namespace of the request.
pub(crate) fn local_subject_access_review(
    rbac: &Rbac,
    review: &Value,
    namespace: &str,
) -> ApiResult<Value> {
    let mut review = review.clone();
    match text(&review, "/metadata/namespace") {
        "" => review["metadata"]["namespace"] = namespace.into(),
        given if given != namespace => {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        _ => {}
    }
    let mut errors = Vec::new();
    check_attributes(&review, &mut errors);
    check_subject(&review, &mut errors);
    check_selectors(&review, &mut errors);
    check_metadata(&review, &["namespace"], "must be empty except for namespace", &mut errors);
    if resource_attributes(&review).is_some() {
        let given = text(&review, "/spec/resourceAttributes/namespace");
        if given != namespace {
            let path = spec().child("resourceAttributes").child("namespace");
            let detail = "must match metadata.namespace";
            errors.push(FieldError::invalid(&path, &given.into(), detail));
        }
    }
    if let Some(attributes) = path_attributes(&review) {
        let path = spec().child("nonResourceAttributes");
        let detail = "disallowed on this kind of request";
        errors.push(FieldError::invalid(&path, &shown(attributes), detail));
    }
    refuse(&errors)?;
    Ok(answered(rbac, &review, &subject(&review)))
}

/// Answers whether the user may do something.
pub(crate) fn self_subject_access_review(
    rbac: &Rbac,
    review: &Value,
    user: &Identity,
) -> ApiResult<Value> {
    let mut errors = Vec::new();
    check_attributes(review, &mut errors);
    check_selectors(review, &mut errors);
    check_metadata(review, &[], "must be empty", &mut errors);
    refuse(&errors)?;
    Ok(answered(rbac, review, user))
}

/// Answers what the user may do in a namespace.
pub(crate) fn self_subject_rules_review(
    rbac: &Rbac,
    review: &Value,
    user: &Identity,
) -> ApiResult<Value> {
    let namespace = text(review, "/spec/namespace");
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let (rules, problem) = rbac.rules_for(user, namespace);
    let resource = |rule: &Rule| Rule { urls: Vec::new(), ..rule.clone() }.to_json();
    let path = |rule: &Rule| json!({"verbs": rule.verbs, "nonResourceURLs": rule.urls});
    let mut status = json!({
        "resourceRules": rules.iter().filter(|rule| !rule.resources.is_empty()).map(resource)
            .collect::<Vec<_>>(),
        "nonResourceRules": rules.iter().filter(|rule| !rule.urls.is_empty()).map(path)
            .collect::<Vec<_>>(),
        "incomplete": false,
    });
    if let Some(problem) = problem {
        status["evaluationError"] = problem.into();
    }
    Ok(json!({
        "kind": "SelfSubjectRulesReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {},
        "status": status,
    }))
}

fn answered(rbac: &Rbac, review: &Value, user: &Identity) -> Value {
    let attributes = match (resource_attributes(review), path_attributes(review)) {
        (Some(given), _) => {
            let get = |field| given.get(field).and_then(Value::as_str).unwrap_or_default();
            Attributes {
                user,
                verb: get("verb"),
                group: get("group"),
                version: get("version"),
                resource: get("resource"),
                subresource: get("subresource"),
                name: get("name"),
                namespace: get("namespace"),
                path: None,
            }
        }
        (None, given) => {
            let get =
                |field| given.and_then(|given| given.get(field)?.as_str()).unwrap_or_default();
            Attributes::path(user, get("verb"), get("path"))
        }
    };
    let decision = rbac.decide(&attributes);
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    let mut answer = review.clone();
    answer["status"] = status;
    if answer.get("metadata").is_none_or(Value::is_null) {
        answer["metadata"] = json!({});
    }
    answer
}

/// Whom a review asks about.
fn subject(review: &Value) -> Identity {
    let strings = |list: &Value| {
        let items = list.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = review.pointer("/spec/extra").and_then(Value::as_object);
    Identity {
        name: text(review, "/spec/user").to_owned(),
        groups: review.pointer("/spec/groups").map(strings).unwrap_or_default(),
        uid: text(review, "/spec/uid").to_owned(),
        extra: extra
            .into_iter()
            .flatten()
            .map(|(key, list)| (key.clone(), strings(list)))
            .collect(),
    }
}

fn check_attributes(review: &Value, errors: &mut Vec<FieldError>) {
    match (resource_attributes(review), path_attributes(review)) {
        (Some(_), Some(given)) => {
            let path = spec().child("nonResourceAttributes");
            let detail = "cannot be specified in combination with resourceAttributes";
            errors.push(FieldError::invalid(&path, &shown(given), detail));
        }
        (None, None) => {
            let path = spec().child("resourceAttributes");
            errors.push(FieldError::invalid(&path, &Value::Null, ONE_OF));
        }
        _ => {}
    }
}

fn check_subject(review: &Value, errors: &mut Vec<FieldError>) {
    let groups = review.pointer("/spec/groups").and_then(Value::as_array);
    if text(review, "/spec/user").is_empty() && groups.is_none_or(Vec::is_empty) {
        let detail = "at least one of user or group must be specified";
        errors.push(FieldError::invalid(&spec().child("user"), &"".into(), detail));
    }
}

/// Checks the selectors of a question. Roles know nothing of selectors, so that is all.
fn check_selectors(review: &Value, errors: &mut Vec<FieldError>) {
    let Some(attributes) = resource_attributes(review) else { return };
    for field in ["fieldSelector", "labelSelector"] {
        let Some(selector) = attributes.get(field).filter(|given| !given.is_null()) else {
            continue;
        };
        let path = spec().child("resourceAttributes").child(field);
        let raw = text(selector, "/rawSelector");
        let requirements = selector.get("requirements").and_then(Value::as_array);
        let requirements = requirements.map_or(&[][..], Vec::as_slice);
        match (raw, requirements) {
            ("", []) => {
                let detail =
                    format!("when {path} is specified, requirements or rawSelector is required");
                errors.push(FieldError::required(&path.child("requirements"), &detail));
            }
            ("", _) | (_, []) => {}
            (raw, _) => {
                let detail = "may not specified at the same time as requirements";
                errors.push(FieldError::invalid(&path.child("rawSelector"), &raw.into(), detail));
            }
        }
        for (index, requirement) in requirements.iter().enumerate() {
            check_requirement(requirement, &path.child("requirements").index(index), errors);
        }
    }
}

fn check_requirement(requirement: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if text(requirement, "/key").is_empty() {
        errors.push(FieldError::required(&path.child("key"), "must be specified"));
    }
    let values = requirement.get("values").and_then(Value::as_array);
    let has_values = values.is_some_and(|values| !values.is_empty());
    let path = path.child("values");
    match text(requirement, "/operator") {
        "In" | "NotIn" if !has_values => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&path, detail));
        }
        "Exists" | "DoesNotExist" if has_values => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&path, detail));
        }
        _ => {}
    }
}

fn check_metadata(review: &Value, allowed: &[&str], detail: &str, errors: &mut Vec<FieldError>) {
    let Some(metadata) = review.get("metadata").and_then(Value::as_object) else { return };
    let is_allowed = |field: &str| field == "managedFields" || allowed.contains(&field);
    if metadata.iter().any(|(field, value)| !is_allowed(field) && !is_empty(value)) {
        let value = Value::Object(metadata.clone());
        errors.push(FieldError::invalid(&FieldPath::new("metadata"), &value, detail));
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// The real server does not know the kind at this point, and says so.
fn refuse(errors: &[FieldError]) -> ApiResult<()> {
    if errors.is_empty() {
        return Ok(());
    }
    let subject = Subject { group: "authorization.k8s.io", resource: "" };
    let mut error = ApiError::invalid(subject, "", errors);
    if let Some(Value::Object(details)) = &mut error.details {
        details.remove("kind");
    }
    Err(error)
}

fn spec() -> FieldPath {
    FieldPath::new("spec")
}

fn resource_attributes(review: &Value) -> Option<&Value> {
    review.pointer("/spec/resourceAttributes").filter(|given| !given.is_null())
}

fn path_attributes(review: &Value) -> Option<&Value> {
    review.pointer("/spec/nonResourceAttributes").filter(|given| !given.is_null())
}

/// Attributes of a path as the real server's message shows them.
fn shown(attributes: &Value) -> Value {
    let mut shown = Map::new();
    shown.insert("Path".to_owned(), text(attributes, "/path").into());
    shown.insert("Verb".to_owned(), text(attributes, "/verb").into());
    Value::Object(shown)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rbac::default_objects;

    fn rbac() -> Rbac {
        Rbac::new(&default_objects())
    }

    #[test]
    fn senseless_reviews_are_refused_as_in_kubernetes() {
        let pods = json!({"verb": "get", "resource": "pods"});
        let path = json!({"verb": "get", "path": "auth"});
        let cases = [
            (
                subject_access_review(&rbac(), &json!({})),
                "[spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified, spec.user: Invalid value: \"\": at least one of user or group must be specified]",
            ),
            (
                subject_access_review(
                    &rbac(),
                    &json!({"spec": {"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"verb": "get"}}}),
                ),
                "[spec.nonResourceAttributes: Invalid value: {\"Path\":\"\",\"Verb\":\"get\"}: cannot be specified in combination with resourceAttributes, spec.user: Invalid value: \"\": at least one of user or group must be specified]",
            ),
            (
                subject_access_review(
                    &rbac(),
                    &json!({"metadata": {"name": "x"}, "spec": {"user": "a", "resourceAttributes": pods}}),
                ),
                "metadata: Invalid value: {\"name\":\"x\"}: must be empty",
            ),
            (
                local_subject_access_review(
                    &rbac(),
                    &json!({"spec": {"user": "a", "resourceAttributes": pods}}),
                    "auth",
                ),
                "spec.resourceAttributes.namespace: Invalid value: \"\": must match metadata.namespace",
            ),
            (
                local_subject_access_review(
                    &rbac(),
                    &json!({"spec": {"user": "a", "nonResourceAttributes": path}}),
                    "auth",
                ),
                "spec.nonResourceAttributes: Invalid value: {\"Path\":\"auth\",\"Verb\":\"get\"}: disallowed on this kind of request",
            ),
            (
                self_subject_access_review(&rbac(), &json!({"spec": {}}), &Identity::anonymous()),
                "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
            ),
            (
                self_subject_access_review(
                    &rbac(),
                    &json!({"spec": {"resourceAttributes": {"labelSelector": {}}}}),
                    &Identity::anonymous(),
                ),
                "spec.resourceAttributes.labelSelector.requirements: Required value: when spec.resourceAttributes.labelSelector is specified, requirements or rawSelector is required",
            ),
        ];
        for (outcome, message) in cases {
            let error = outcome.unwrap_err();
            assert_eq!(error.message, format!(".authorization.k8s.io \"\" is invalid: {message}"));
            let details = error.details.unwrap();
            assert_eq!(details["group"], "authorization.k8s.io");
            assert_eq!(details.get("kind"), None);
        }
    }

    #[test]
    fn reviews_are_answered() {
        let pods = json!({"verb": "get", "resource": "pods"});
        let sent = json!({
            "kind": "SubjectAccessReview",
            "spec": {"user": "a", "groups": ["system:masters"], "resourceAttributes": pods},
        });
        let mut expected = sent.clone();
        expected["metadata"] = json!({});
        expected["status"] = json!({"allowed": true});
        assert_eq!(subject_access_review(&rbac(), &sent).unwrap(), expected);

        let version =
            json!({"spec": {"nonResourceAttributes": {"path": "/version", "verb": "get"}}});
        let answer = self_subject_access_review(&rbac(), &version, &Identity::anonymous());
        assert_eq!(
            answer.unwrap()["status"],
            json!({
                "allowed": true,
                "reason": "RBAC: allowed by ClusterRoleBinding \"system:public-info-viewer\" of ClusterRole \"system:public-info-viewer\" to Group \"system:unauthenticated\"",
            })
        );
    }

    #[test]
    fn one_can_ask_for_all_rules_of_ones_own() {
        let ask = |namespace| json!({"spec": {"namespace": namespace}});
        let ann = Identity::new("ann", &["system:authenticated"]);
        let error = self_subject_rules_review(&rbac(), &ask(""), &ann).unwrap_err();
        assert_eq!(error.message, "no namespace on request");
        let status =
            self_subject_rules_review(&rbac(), &ask("auth"), &ann).unwrap()["status"].take();
        assert_eq!(
            status["resourceRules"],
            json!([
                {
                    "verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
                    "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                },
                {
                    "verbs": ["create"], "apiGroups": ["authentication.k8s.io"],
                    "resources": ["selfsubjectreviews"],
                },
            ])
        );
        assert_eq!(status["nonResourceRules"].as_array().unwrap().len(), 2);
        assert_eq!(status["incomplete"], false);
    }
}
