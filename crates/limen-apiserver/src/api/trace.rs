//! What is remembered of a request while it is answered, for the audit log.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::USER_AGENT;
use http::request::Parts;
use jiff::Timestamp;

use super::access::Known;
use super::write::new_uid;
use crate::audit::{AuditLog, Record};
use crate::auth::Identity;
use crate::error::ApiResult;
use crate::rbac::{Attributes, Decision};

pub(super) struct Trace {
    /// Tells this request from all others; the client is told too.
    pub(super) id: String,
    uri: String,
    user_agent: String,
    address: IpAddr,
    received: Timestamp,
    wanted: Option<Wanted>,
    decision: Option<(bool, String)>,
}

/// [`Attributes`] that own what they say.
struct Wanted {
    user: Arc<Identity>,
    impersonator: Option<Arc<Identity>>,
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    name: String,
    namespace: String,
    path: Option<String>,
}

impl Trace {
    pub(super) fn new(parts: &Parts, address: IpAddr, received: Timestamp) -> Self {
        let user_agent = parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
        Self {
            id: new_uid(),
            uri: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            user_agent: user_agent.unwrap_or_default().to_owned(),
            address,
            received,
            wanted: None,
            decision: None,
        }
    }

    pub(super) fn know(&mut self, known: &Known, wanted: &Attributes<'_>) {
        self.wanted = Some(Wanted {
            user: known.identity.clone(),
            impersonator: known.impersonator.clone(),
            verb: wanted.verb.to_owned(),
            group: wanted.group.to_owned(),
            version: wanted.version.to_owned(),
            resource: wanted.resource.to_owned(),
            subresource: wanted.subresource.to_owned(),
            name: wanted.name.to_owned(),
            namespace: wanted.namespace.to_owned(),
            path: wanted.path.map(str::to_owned),
        });
    }

    /// Remembers a decision, and passes a refusal on.
    pub(super) fn decide(&mut self, decision: ApiResult<Decision>) -> ApiResult<()> {
        match decision {
            Ok(decision) => {
                self.decision = Some((true, decision.reason));
                Ok(())
            }
            Err(error) => {
                self.decision = Some((false, String::new()));
                Err(error)
            }
        }
    }

    /// The verb, as metrics count it.
    pub(super) fn verb(&self) -> &str {
        self.wanted.as_ref().map_or("unknown", |wanted| wanted.verb.as_str())
    }

    pub(super) fn record(
        &self,
        log: &AuditLog,
        code: u16,
        failure: Option<&str>,
        answered: Timestamp,
    ) {
        let Some(wanted) = &self.wanted else { return };
        let attributes = Attributes {
            user: &wanted.user,
            verb: &wanted.verb,
            group: &wanted.group,
            version: &wanted.version,
            resource: &wanted.resource,
            subresource: &wanted.subresource,
            name: &wanted.name,
            namespace: &wanted.namespace,
            path: wanted.path.as_deref(),
        };
        log.record(&Record {
            audit_id: &self.id,
            uri: &self.uri,
            attributes: &attributes,
            impersonator: wanted.impersonator.as_deref(),
            source_ips: &[self.address],
            user_agent: &self.user_agent,
            code,
            failure,
            decision: self.decision.as_ref().map(|(allowed, reason)| (*allowed, reason.as_str())),
            received: self.received,
            answered,
        });
    }
}
