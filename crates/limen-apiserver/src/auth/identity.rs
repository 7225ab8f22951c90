//! A user as the rest of the server sees one, and the names that Kubernetes gives a meaning to.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The name of a user nobody knows.
pub(crate) const ANONYMOUS: &str = "system:anonymous";
/// The group of users nobody knows.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group of everybody who proved who they are.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group that may do everything.
pub const MASTERS: &str = "system:masters";

/// The key in `extra` of what names the credential, so that audit lines can be told apart.
pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// A user: who they are and what is known of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The user's name, which is all that tells users apart.
    pub name: String,
    /// The groups, in the order in which they were found.
    pub groups: Vec<String>,
    /// What tells a user from a later one of the same name; empty if unknown.
    pub uid: String,
    /// Anything else that an authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// A user with a name and groups, and nothing else.
    pub(crate) fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    /// Somebody who showed nothing.
    pub(crate) fn anonymous() -> Self {
        Self::new(ANONYMOUS, &[UNAUTHENTICATED])
    }

    /// A service account of a namespace.
    pub(crate) fn service_account(namespace: &str, name: &str) -> Self {
        let groups = service_account_groups(namespace);
        Self { name: service_account_username(namespace, name), groups, ..Self::default() }
    }

    /// Whether the user is in the group.
    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|member| member == group)
    }

    /// Adds the group that everybody is in who proved who they are.
    #[must_use]
    pub(crate) fn authenticated(mut self) -> Self {
        if !self.is_in(AUTHENTICATED) && !self.is_in(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// The `UserInfo` of reviews and audit events; what is empty is left out.
    pub(crate) fn user_info(&self) -> Value {
        let mut info = Map::new();
        if !self.name.is_empty() {
            info.insert("username".to_owned(), json!(self.name));
        }
        if !self.uid.is_empty() {
            info.insert("uid".to_owned(), json!(self.uid));
        }
        if !self.groups.is_empty() {
            info.insert("groups".to_owned(), json!(self.groups));
        }
        if !self.extra.is_empty() {
            info.insert("extra".to_owned(), json!(self.extra));
        }
        Value::Object(info)
    }
}

/// The user name of a service account.
pub(crate) fn service_account_username(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT}{namespace}:{name}")
}

/// The groups that every service account of a namespace is in.
pub(crate) fn service_account_groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

/// The namespace and name of the service account that a user name stands for.
pub(crate) fn service_account_name(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (is_dns_label(namespace) && is_dns_subdomain(name)).then_some((namespace, name))
}

pub(crate) fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_dns_word)
}

fn is_dns_label(name: &str) -> bool {
    name.len() <= 63 && is_dns_word(name)
}

fn is_dns_word(word: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = word.as_bytes();
    bytes.iter().all(|&byte| alphanumeric(byte) || byte == b'-')
        && bytes.first().is_some_and(|&byte| alphanumeric(byte))
        && bytes.last().is_some_and(|&byte| alphanumeric(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_made_names_stand_for_service_accounts() {
        let cases = [
            ("system:serviceaccount:ns:bot", Some(("ns", "bot"))),
            ("system:serviceaccount:ns:a.b-c", Some(("ns", "a.b-c"))),
            ("system:serviceaccount:Ns:bot", None),
            ("system:serviceaccount:ns:", None),
            ("system:serviceaccount::bot", None),
            ("system:serviceaccount:ns:bot:x", None),
            ("system:serviceaccount:a.b:bot", None),
            ("system:serviceaccount:ns", None),
            ("ann", None),
        ];
        for (username, expected) in cases {
            assert_eq!(service_account_name(username), expected, "{username}");
        }
    }

    #[test]
    fn anonymous_users_never_become_authenticated() {
        assert_eq!(Identity::anonymous().authenticated(), Identity::anonymous());
        let ann = Identity::new("ann", &["dev"]).authenticated();
        assert_eq!(ann.groups, ["dev", AUTHENTICATED]);
        assert_eq!(ann.clone().authenticated(), ann);
    }
}
