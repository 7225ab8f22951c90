//! Questions that are answered and not stored: who am I, may I, whose token is this; and new
//! tokens for service accounts.

use http::StatusCode;
use serde_json::Value;

use super::dispatch::{Answer, Asked};
use super::write::new_uid;
use super::{Api, Scope};
use crate::answer::{Offer, Wanted};
use crate::auth::{
    bound_object, self_subject_review, token_request, token_review_answer, token_review_question,
};
use crate::discovery::{Review, reviews};
use crate::error::{ApiError, ApiResult};
use crate::rbac;
use crate::request::Verb;

impl Api {
    /// The review that a path names, if it names one.
    pub(super) fn review_of(&self, asked: &Asked) -> Option<&'static Review> {
        let path = &asked.path;
        reviews().iter().find(|review| {
            review.group == path.group
                && path.version == "v1"
                && review.plural == path.plural
                && path.name.is_none()
        })
    }

    pub(super) async fn on_review(&self, asked: &Asked, review: &Review) -> ApiResult<Answer> {
        if asked.verb != Verb::Create || review.namespaced != asked.path.namespace.is_some() {
            return Err(ApiError::method_not_allowed());
        }
        let wanted = Wanted::from_headers(&asked.headers, Offer::Review)?;
        let question = asked.typed_value(review.group, review.kind)?;
        let rbac = self.rbac.load_full();
        let user = &asked.identity;
        let answer = match review.plural {
            "selfsubjectreviews" => self_subject_review(user, self.now()),
            "selfsubjectaccessreviews" => rbac::self_subject_access_review(&rbac, &question, user)?,
            "selfsubjectrulesreviews" => rbac::self_subject_rules_review(&rbac, &question, user)?,
            "subjectaccessreviews" => rbac::subject_access_review(&rbac, &question)?,
            "localsubjectaccessreviews" => {
                let namespace = asked.path.namespace.as_deref().unwrap_or_default();
                rbac::local_subject_access_review(&rbac, &question, namespace)?
            }
            _ => self.review_token(question).await?,
        };
        Ok(wanted.value(StatusCode::CREATED, &answer).into())
    }

    async fn review_token(&self, question: Value) -> ApiResult<Value> {
        let (token, audiences) = token_review_question(&question)?;
        let claim = self.authenticator.review(token, &audiences, self.now().as_second());
        let outcome = match claim {
            Err(refusal) => Err(refusal),
            Ok((claimed, audiences)) => {
                self.confirm(claimed).await?.map(|identity| (identity, audiences))
            }
        };
        Ok(token_review_answer(question, outcome))
    }

    /// `serviceaccounts/NAME/token`
    pub(super) async fn on_token(&self, asked: Asked, scope: Scope) -> ApiResult<Answer> {
        if asked.verb != Verb::Create {
            return Err(ApiError::method_not_allowed());
        }
        let name = asked.path.name.as_deref().unwrap_or_default();
        let request = asked.typed_value("authentication.k8s.io", "TokenRequest")?;
        let found = self.find(&scope, name).await?;
        let account = found.ok_or_else(|| ApiError::not_found(scope.subject(), name))?;
        let account = scope.read(&account);
        let bound = bound_object(&request)?;
        let bound = match &bound {
            None => None,
            Some(wanted) => {
                let owner = self.scope("", "v1", wanted.resource, scope.namespace.as_deref());
                let found = self.find(&owner, &wanted.name).await?;
                let stored =
                    found.ok_or_else(|| ApiError::not_found(owner.subject(), &wanted.name))?;
                Some((wanted, owner.read(&stored)))
            }
        };
        let bound = bound.as_ref().map(|(wanted, object)| (*wanted, object));
        let issuer = &self.authenticator.issuer;
        let answer = token_request(issuer, &request, &account, bound, self.now(), &new_uid())?;
        Ok(asked.wanted.value(StatusCode::CREATED, &answer).into())
    }
}
