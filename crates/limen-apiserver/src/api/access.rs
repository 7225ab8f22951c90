//! Who is asking, and whether they may.

use std::sync::Arc;

use http::HeaderMap;
use jiff::Timestamp;
use serde_json::Value;

use super::{Api, Caller, Scope};
use crate::auth::{Claimed, Identity, Impersonation, Reference, TokenRefusal};
use crate::error::{ApiError, ApiResult};
use crate::rbac::{
    Attributes, Decision, RoleWrite, check_binding_write, check_role_write, forbidden,
};

/// How many seconds the tokens of an account or pod that is being deleted still work, as in
/// Kubernetes.
const DELETION_LEEWAY: i64 = 60;

/// Who a request is carried out for.
#[derive(Clone)]
pub(super) struct Known {
    /// Who may or may not.
    pub(super) identity: Arc<Identity>,
    /// Who asked, if as somebody else.
    pub(super) impersonator: Option<Arc<Identity>>,
    pub(super) warning: Option<&'static str>,
}

impl Api {
    /// Who is at the other end.
    pub(super) async fn identify(&self, caller: &Caller, headers: &HeaderMap) -> ApiResult<Known> {
        let now = self.now().as_second();
        let claimed = self.authenticator.authenticate(caller.identity.as_ref(), headers, now)?;
        let warning = claimed.warning;
        let identity = self.confirm(claimed).await?.map_err(|_| ApiError::unauthorized())?;
        Ok(Known { identity, impersonator: None, warning })
    }

    /// Makes sure that what a claim depends on is still there.
    pub(super) async fn confirm(
        &self,
        claimed: Claimed,
    ) -> ApiResult<Result<Arc<Identity>, TokenRefusal>> {
        let mut found = Vec::new();
        for reference in claimed.references() {
            let uid = self.uid_of(reference).await?;
            found.push((reference.clone(), uid));
        }
        Ok(claimed.confirm(|wanted| {
            found.iter().find(|(reference, _)| reference == wanted).and_then(|(_, uid)| uid.clone())
        }))
    }

    async fn uid_of(&self, reference: &Reference) -> ApiResult<Option<String>> {
        let plural = match reference.kind {
            "ServiceAccount" => "serviceaccounts",
            "Pod" => "pods",
            "Secret" => "secrets",
            _ => "nodes",
        };
        let scope = self.scope("", "v1", plural, Some(&reference.namespace));
        let Some(stored) = self.find(&scope, &reference.name).await? else { return Ok(None) };
        let object = scope.read(&stored);
        let metadata = &object["metadata"];
        if self.was_deleted(metadata) {
            return Ok(None);
        }
        Ok(metadata["uid"].as_str().map(str::to_owned))
    }

    /// Whether an object is being deleted for so long that nobody may go by it any more, whatever
    /// it still waits for.
    fn was_deleted(&self, metadata: &Value) -> bool {
        let at = metadata["deletionTimestamp"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
        at.is_some_and(|at| self.now().as_second() - at.as_second() > DELETION_LEEWAY)
    }

    /// Becomes whom the headers ask for, if that is allowed.
    pub(super) fn impersonate(
        &self,
        known: Known,
        headers: &HeaderMap,
        wanted: &Attributes<'_>,
    ) -> ApiResult<Known> {
        let Some(impersonation) = Impersonation::from_headers(headers)? else { return Ok(known) };
        let rbac = self.rbac.load();
        let request = Attributes { user: &known.identity, ..*wanted };
        let impersonated = impersonation.authorize(&request, &|asked| rbac.decide(asked))?;
        Ok(Known {
            identity: Arc::new(impersonated.identity),
            impersonator: Some(known.identity),
            warning: known.warning,
        })
    }

    pub(super) fn allow(&self, wanted: &Attributes<'_>) -> ApiResult<Decision> {
        let decision = self.rbac.load().decide(wanted);
        if decision.allowed { Ok(decision) } else { Err(forbidden(wanted, &decision.reason)) }
    }

    /// Refuses roles and bindings that grant more than their writer has.
    pub(super) fn check_grant(
        &self,
        identity: &Identity,
        scope: &Scope,
        old: Option<&Value>,
        new: &Value,
    ) -> ApiResult<()> {
        if scope.kind.group != "rbac.authorization.k8s.io" {
            return Ok(());
        }
        let name = old.and_then(|old| old["metadata"]["name"].as_str()).unwrap_or_default();
        let write = RoleWrite {
            user: identity,
            resource: &scope.kind.plural,
            namespace: scope.namespace.as_deref().unwrap_or_default(),
            name,
            new,
            old,
        };
        let rbac = self.rbac.load();
        match scope.kind.plural.as_str() {
            "roles" | "clusterroles" => check_role_write(&rbac, &write),
            _ => check_binding_write(&rbac, &write),
        }
    }
}
