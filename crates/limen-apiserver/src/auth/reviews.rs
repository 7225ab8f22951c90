//! Answers to `TokenReview` and `SelfSubjectReview`.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::identity::Identity;
use super::service_account::TokenRefusal;
use crate::error::{ApiError, ApiResult};

/// What a `TokenReview` asks: the token and the audiences.
pub(crate) fn token_review_question(review: &Value) -> ApiResult<(&str, Vec<String>)> {
    let token = review.pointer("/spec/token").and_then(Value::as_str).unwrap_or_default();
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = review.pointer("/spec/audiences").and_then(Value::as_array);
    let audiences = audiences.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    Ok((token, audiences.collect()))
}

/// The answered `TokenReview`: the user and the audiences, or why there is none.
pub(crate) fn token_review_answer(
    mut review: Value,
    outcome: Result<(Arc<Identity>, Vec<String>), TokenRefusal>,
) -> Value {
    review["status"] = match outcome {
        Ok((identity, audiences)) => json!({
            "authenticated": true, "user": identity.user_info(), "audiences": audiences,
        }),
        Err(refusal) => json!({"user": {}, "error": refusal.to_string()}),
    };
    if review.get("metadata").is_none() {
        review["metadata"] = json!({});
    }
    review
}

/// The answer to a `SelfSubjectReview`.
pub(crate) fn self_subject_review(identity: &Identity, now: Timestamp) -> Value {
    json!({
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": whole_seconds(now)},
        "status": {"userInfo": identity.user_info()},
    })
}

/// A time as Kubernetes writes it in objects.
pub(super) fn whole_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::request::tests::{NOW, account_token, authenticator};

    fn answer(spec: Value) -> ApiResult<Value> {
        let authenticator = authenticator(true);
        let mut spec = spec;
        if spec["token"] == "account" {
            spec["token"] = account_token(&authenticator).into();
        }
        let review = json!({"kind": "TokenReview", "spec": spec});
        let (token, audiences) = token_review_question(&review)?;
        let outcome = authenticator.review(token, &audiences, NOW).and_then(|(who, audiences)| {
            Ok((who.confirm(|found| Some(found.uid.clone()))?, audiences))
        });
        Ok(token_review_answer(review.clone(), outcome)["status"].take())
    }

    #[test]
    fn a_token_review_says_whose_token_it_is() {
        let ann = json!({
            "username": "ann", "uid": "u1", "groups": ["dev", "system:authenticated"],
        });
        let cases = [
            (
                json!({"token": "abc"}),
                json!({"authenticated": true, "user": ann, "audiences": ["https://here"]}),
            ),
            (json!({"token": "xyz"}), json!({"user": {}, "error": "invalid bearer token"})),
            (
                json!({"token": "abc", "audiences": ["x"]}),
                json!({"user": {}, "error": "invalid bearer token"}),
            ),
            (
                json!({"token": "account", "audiences": ["x"]}),
                json!({"user": {}, "error": "[invalid bearer token, token audiences [\"https://here\"] is invalid for the target audiences [\"x\"]]"}),
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(answer(spec.clone()).unwrap(), expected, "{spec}");
        }
        let account = answer(json!({"token": "account"})).unwrap();
        assert_eq!(account["user"]["username"], "system:serviceaccount:ns:bot");
        let error = answer(json!({})).unwrap_err();
        assert_eq!(error.message, "token is required for TokenReview in authentication");
    }

    #[test]
    fn one_can_ask_who_one_is() {
        let review = self_subject_review(&Identity::new("ann", &["dev"]), Timestamp::UNIX_EPOCH);
        assert_eq!(
            review,
            json!({
                "kind": "SelfSubjectReview",
                "apiVersion": "authentication.k8s.io/v1",
                "metadata": {"creationTimestamp": "1970-01-01T00:00:00Z"},
                "status": {"userInfo": {"username": "ann", "groups": ["dev"]}},
            })
        );
    }
}
