//! Who may do what.
//!
//! ```text
//!   Role, ClusterRole, RoleBinding, ClusterRoleBinding
//!                        │ Rbac::new
//!                        ▼
//!   Attributes ──► Rbac (immutable snapshot) ──► Decision
//! ```
//!
//! Whoever owns the objects builds a new [`Rbac`] when one of them changes and swaps it in; a
//! decision takes no lock and does no I/O. Permissions only add up: there is no way to deny.
//! Members of `system:masters` may do everything, whatever the objects say.

mod access_reviews;
mod aggregation;
mod cover;
mod defaults;
mod escalation;
mod forbidden;
mod rule;
mod snapshot;

pub(crate) use access_reviews::{
    local_subject_access_review, self_subject_access_review, self_subject_rules_review,
    subject_access_review,
};
pub(crate) use aggregation::settle_aggregation;
pub(crate) use defaults::{default_objects, reconciled};
pub(crate) use escalation::{RoleWrite, check_binding_write, check_role_write};
pub(crate) use forbidden::forbidden;
pub(crate) use rule::Rule;
pub(crate) use snapshot::{Decision, Rbac};

use crate::auth::Identity;

/// What somebody wants to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    /// Who.
    pub user: &'a Identity,
    /// The verb: `get`, `list`, `create`, ..., or the lower-case HTTP method for a path.
    pub verb: &'a str,
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The API version.
    pub version: &'a str,
    /// The plural resource name.
    pub resource: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The object's name, or empty.
    pub name: &'a str,
    /// The namespace; empty at the cluster scope.
    pub namespace: &'a str,
    /// The path, for what is no resource; `None` for resources.
    pub path: Option<&'a str>,
}

impl<'a> Attributes<'a> {
    /// The attributes of a request for something that is no resource.
    pub(crate) fn path(user: &'a Identity, verb: &'a str, path: &'a str) -> Self {
        Self {
            user,
            verb,
            group: "",
            version: "",
            resource: "",
            subresource: "",
            name: "",
            namespace: "",
            path: Some(path),
        }
    }
}

#[cfg(test)]
mod real_server;
