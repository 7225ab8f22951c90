//! Acting as somebody else, with the `Impersonate-*` headers.
//!
//! There are several ways to be allowed to. The constrained ones ask two things: may the user
//! do this very request while impersonating (`impersonate-on:MODE:VERB`), and may they take on
//! each part of the wanted identity (`impersonate:MODE`). The old one asks only the second, with
//! the verb `impersonate`. The first way that allows it wins; if none does, the first refusal is
//! the answer.

use std::borrow::Cow;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::identity::{
    ANONYMOUS, AUTHENTICATED, Identity, MASTERS, UNAUTHENTICATED, is_dns_subdomain,
    service_account_groups, service_account_name,
};
use crate::error::{ApiError, ApiResult};
use crate::rbac::{Attributes, Decision, forbidden};

const GROUP: &str = "authentication.k8s.io";
const EXTRA_PREFIX: &str = "impersonate-extra-";
/// From so many values on, a constrained mode first asks for all at once.
const MANY: usize = 4;

/// Whom a request wants to act as, as its headers say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Impersonation {
    wanted: Identity,
}

/// Whom a request acts as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Impersonated {
    /// The user to go on with.
    pub identity: Identity,
    /// The verb of the constrained mode that allowed it, for the audit log; empty for the old
    /// mode.
    pub constraint: String,
}

impl Impersonation {
    /// What the headers ask for; `None` if nothing.
    pub(crate) fn from_headers(headers: &HeaderMap) -> ApiResult<Option<Self>> {
        let mut wanted = Identity {
            name: first(headers, "impersonate-user")?,
            uid: first(headers, "impersonate-uid")?,
            ..Identity::default()
        };
        for group in headers.get_all("impersonate-group") {
            wanted.groups.push(text(group)?);
        }
        for (header, value) in headers {
            if let Some(key) = header.as_str().strip_prefix(EXTRA_PREFIX) {
                let key = percent_decode_str(key).decode_utf8().unwrap_or(Cow::Borrowed(key));
                wanted.extra.entry(key.into_owned()).or_default().push(text(value)?);
            }
        }
        if !wanted.name.is_empty() {
            return Ok(Some(Self { wanted }));
        }
        if wanted == Identity::default() {
            return Ok(None);
        }
        Err(ApiError::bad_request(format!(
            "requested {} without impersonating a user name",
            as_go(&wanted)
        )))
    }

    /// Whom the user of `request` acts as, if `decide` allows it.
    pub(crate) fn authorize(
        &self,
        request: &Attributes<'_>,
        decide: &dyn Fn(&Attributes<'_>) -> Decision,
    ) -> ApiResult<Impersonated> {
        let mut refusal = None;
        for mode in Mode::ALL {
            if !mode.fits(&self.wanted) {
                continue;
            }
            match self.authorize_in(mode, request, decide) {
                Ok(impersonated) => return Ok(impersonated),
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        Err(refusal.unwrap_or_else(|| ApiError::internal("all impersonation modes failed")))
    }

    fn authorize_in(
        &self,
        mode: Mode,
        request: &Attributes<'_>,
        decide: &dyn Fn(&Attributes<'_>) -> Decision,
    ) -> ApiResult<Impersonated> {
        let allowed = |attributes: &Attributes<'_>| {
            let decision = decide(attributes);
            if decision.allowed { Ok(()) } else { Err(forbidden(attributes, &decision.reason)) }
        };
        if mode != Mode::Legacy {
            let verb = format!("impersonate-on:{}:{}", mode.name(), request.verb);
            allowed(&Attributes { verb: &verb, ..*request })?;
        }
        let verb = mode.verb();
        let names_group = if mode == Mode::Legacy { "" } else { GROUP };
        let part = |group, resource, subresource, name| Attributes {
            user: request.user,
            verb: &verb,
            group,
            version: "v1",
            resource,
            subresource,
            name,
            namespace: "",
            path: None,
        };

        let wanted = &self.wanted;
        let mut identity = wanted.clone();
        let mut username = part(names_group, "users", "", wanted.name.as_str());
        if mode == Mode::ArbitraryNode
            && let Some(node) = node_name(&wanted.name)
        {
            username.resource = "nodes";
            username.name = node;
            identity.groups = vec!["system:nodes".to_owned()];
        }
        if let Some((namespace, name)) = service_account_name(&wanted.name) {
            username.resource = "serviceaccounts";
            username.namespace = namespace;
            username.name = name;
            if wanted.groups.is_empty() {
                identity.groups = service_account_groups(namespace);
            }
        }
        allowed(&username)?;
        if !wanted.uid.is_empty() {
            allowed(&part(GROUP, "uids", "", &wanted.uid))?;
        }

        let groups = part(names_group, "groups", "", "");
        if mode != Mode::Legacy {
            if wanted.is_in("") {
                let reason = "impersonating the empty string group is not allowed";
                return Err(forbidden(&groups, reason));
            }
            if wanted.is_in(MASTERS) {
                let reason = "impersonating the system:masters group is not allowed";
                return Err(forbidden(&Attributes { name: MASTERS, ..groups }, reason));
            }
        }
        let all_at_once = mode != Mode::Legacy
            && wanted.groups.len() >= MANY
            && decide(&Attributes { name: "*", ..groups }).allowed;
        if !all_at_once {
            for group in &wanted.groups {
                allowed(&Attributes { name: group, ..groups })?;
            }
        }

        let extras = part(GROUP, "userextras", "", "");
        if mode != Mode::Legacy
            && let Some(reason) = self.odd_extra()
        {
            return Err(forbidden(&extras, &reason));
        }
        let values: usize = wanted.extra.values().map(Vec::len).sum();
        let all_at_once = mode != Mode::Legacy
            && values >= MANY
            && decide(&Attributes { subresource: "*", name: "*", ..extras }).allowed;
        if !all_at_once {
            for (key, values) in &wanted.extra {
                for value in values {
                    allowed(&Attributes { subresource: key, name: value, ..extras })?;
                }
            }
        }

        if identity.name == ANONYMOUS {
            if !identity.is_in(UNAUTHENTICATED) {
                identity.groups.push(UNAUTHENTICATED.to_owned());
            }
        } else if !identity.is_in(UNAUTHENTICATED) && !identity.is_in(AUTHENTICATED) {
            identity.groups.push(AUTHENTICATED.to_owned());
        }
        let constraint = if mode == Mode::Legacy { String::new() } else { verb };
        Ok(Impersonated { identity, constraint })
    }

    /// What constrained modes do not take in `extra`, though the old one does.
    fn odd_extra(&self) -> Option<String> {
        for (key, values) in &self.wanted.extra {
            if key.is_empty() {
                return Some("impersonating the empty string key in extra is not allowed".into());
            }
            let domain = key
                .split_once('/')
                .filter(|(domain, path)| is_dns_subdomain(domain) && !path.is_empty());
            if domain.is_none() {
                let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
                return Some(format!(
                    "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: {key:?}: {why}"
                ));
            }
            if *key != key.to_lowercase() {
                return Some(format!(
                    "impersonating a non-lowercase key in extra is not allowed: {key:?}"
                ));
            }
            if values.iter().any(String::is_empty) {
                let why = "impersonating the empty string value in extra is not allowed";
                return Some(why.to_owned());
            }
        }
        None
    }
}

/// The ways to be allowed to impersonate, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

impl Mode {
    const ALL: [Self; 4] =
        [Self::ArbitraryNode, Self::ServiceAccount, Self::UserInfo, Self::Legacy];

    fn name(self) -> &'static str {
        match self {
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    fn verb(self) -> String {
        match self {
            Self::Legacy => "impersonate".to_owned(),
            mode => format!("impersonate:{}", mode.name()),
        }
    }

    fn fits(self, wanted: &Identity) -> bool {
        let only_name =
            wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let is_node = node_name(&wanted.name).is_some();
        let is_account = service_account_name(&wanted.name).is_some();
        match self {
            Self::ArbitraryNode => is_node && only_name,
            Self::ServiceAccount => is_account && only_name,
            Self::UserInfo => !is_node && !is_account,
            Self::Legacy => true,
        }
    }
}

fn node_name(username: &str) -> Option<&str> {
    username.strip_prefix("system:node:").filter(|name| is_dns_subdomain(name))
}

fn first(headers: &HeaderMap, name: &str) -> ApiResult<String> {
    headers.get(name).map_or_else(|| Ok(String::new()), text)
}

fn text(value: &http::HeaderValue) -> ApiResult<String> {
    // Lossy reading could turn one name into another.
    std::str::from_utf8(value.as_bytes())
        .map(str::to_owned)
        .map_err(|_| ApiError::bad_request("an impersonation header is not valid UTF-8"))
}

/// An identity as the real server's message shows it.
fn as_go(identity: &Identity) -> String {
    let list = |items: &[String]| {
        let items: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
        format!("[]string{{{}}}", items.join(", "))
    };
    let nil_or = |empty: bool, kind: &str, shown: String| {
        if empty { format!("{kind}(nil)") } else { shown }
    };
    let extra: Vec<String> =
        identity.extra.iter().map(|(key, values)| format!("{key:?}:{}", list(values))).collect();
    format!(
        "&user.DefaultInfo{{Name:{:?}, UID:{:?}, Groups:{}, Extra:{}}}",
        identity.name,
        identity.uid,
        nil_or(identity.groups.is_empty(), "[]string", list(&identity.groups)),
        nil_or(
            identity.extra.is_empty(),
            "map[string][]string",
            format!("map[string][]string{{{}}}", extra.join(", "))
        ),
    )
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    type Headers<'a> = &'a [(&'a str, &'a str)];

    fn parse(headers: Headers<'_>) -> ApiResult<Option<Impersonation>> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        Impersonation::from_headers(&map)
    }

    /// Lists pods as `bot`, who may do what `may` says (as `verb resource[/sub] name`).
    fn act(headers: Headers<'_>, may: &[&str]) -> Result<Identity, String> {
        let bot = Identity::new("bot", &[]);
        let request = Attributes {
            user: &bot,
            verb: "list",
            group: "",
            version: "v1",
            resource: "pods",
            subresource: "",
            name: "",
            namespace: "",
            path: None,
        };
        let decide = |asked: &Attributes<'_>| {
            let slash = if asked.subresource.is_empty() { "" } else { "/" };
            let asked = format!(
                "{} {}{slash}{} {}",
                asked.verb, asked.resource, asked.subresource, asked.name
            );
            Decision { allowed: may.contains(&asked.trim()), reason: String::new() }
        };
        let impersonation = parse(headers).map_err(|error| error.message)?.unwrap();
        let outcome = impersonation.authorize(&request, &decide);
        outcome.map(|impersonated| impersonated.identity).map_err(|error| error.message)
    }

    #[test]
    fn each_part_of_the_wanted_identity_needs_a_permission() {
        let ann = ("Impersonate-User", "ann");
        let dev = ("Impersonate-Group", "dev");
        let uid = ("Impersonate-Uid", "u1");
        let extra = ("Impersonate-Extra-Acme.io%2Fproject", "x");
        let full = [ann, dev, uid, extra];
        let all = [
            "impersonate users ann",
            "impersonate groups dev",
            "impersonate uids u1",
            "impersonate userextras/acme.io/project x",
        ];
        let identity = act(&full, &all).unwrap();
        assert_eq!(identity.name, "ann");
        assert_eq!(identity.groups, ["dev", "system:authenticated"]);
        assert_eq!(identity.uid, "u1");
        assert_eq!(identity.extra["acme.io/project"], ["x"]);
        for missing in all {
            let most: Vec<&str> = all.into_iter().filter(|one| *one != missing).collect();
            let error = act(&full, &most).unwrap_err();
            assert_eq!(
                error,
                "pods is forbidden: User \"bot\" cannot impersonate-on:user-info:list resource \"pods\" in API group \"\" at the cluster scope"
            );
        }
    }

    #[test]
    fn groups_follow_from_the_kind_of_user() {
        let cases: [(Headers<'_>, &[&str], &[&str]); 6] = [
            (&[("Impersonate-User", "ann")], &["impersonate users ann"], &["system:authenticated"]),
            (
                &[("Impersonate-User", "system:serviceaccount:ns:bot")],
                &["impersonate serviceaccounts bot"],
                &["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
            ),
            (
                &[("Impersonate-User", "system:serviceaccount:ns:bot"), ("Impersonate-Group", "g")],
                &["impersonate serviceaccounts bot", "impersonate groups g"],
                &["g", "system:authenticated"],
            ),
            (
                &[("Impersonate-User", "system:anonymous")],
                &["impersonate users system:anonymous"],
                &["system:unauthenticated"],
            ),
            (
                &[("Impersonate-User", "ann"), ("Impersonate-Group", "system:unauthenticated")],
                &["impersonate users ann", "impersonate groups system:unauthenticated"],
                &["system:unauthenticated"],
            ),
            (
                &[("Impersonate-User", "system:node:n1")],
                &["impersonate-on:arbitrary-node:list pods", "impersonate:arbitrary-node nodes n1"],
                &["system:nodes", "system:authenticated"],
            ),
        ];
        for (headers, may, groups) in cases {
            assert_eq!(act(headers, may).unwrap().groups, groups, "{headers:?}");
        }
    }

    #[test]
    fn constrained_modes_ask_for_the_request_too() {
        let ann = [("Impersonate-User", "ann")];
        let on = "impersonate-on:user-info:list pods";
        assert!(act(&ann, &[on, "impersonate:user-info users ann"]).is_ok());
        assert!(act(&ann, &["impersonate:user-info users ann"]).is_err());
        assert_eq!(
            act(&ann, &[on]).unwrap_err(),
            "users.authentication.k8s.io \"ann\" is forbidden: User \"bot\" cannot impersonate:user-info resource \"users\" in API group \"authentication.k8s.io\" at the cluster scope"
        );
        let masters = [("Impersonate-User", "ann"), ("Impersonate-Group", "system:masters")];
        let may =
            [on, "impersonate:user-info users ann", "impersonate:user-info groups system:masters"];
        assert!(act(&masters, &may).unwrap_err().ends_with("group is not allowed"));
        let account = [("Impersonate-User", "system:serviceaccount:ns:y")];
        assert!(act(&account, &[]).unwrap_err().contains("impersonate-on:serviceaccount:list"));
    }

    #[test]
    fn parts_without_a_user_are_refused() {
        let error = parse(&[
            ("Impersonate-Group", "g"),
            ("Impersonate-Group", "g2"),
            ("Impersonate-Uid", "u"),
            ("Impersonate-Extra-Foo%2fbar", "u"),
        ])
        .unwrap_err();
        assert_eq!(
            error.message,
            "requested &user.DefaultInfo{Name:\"\", UID:\"u\", Groups:[]string{\"g\", \"g2\"}, Extra:map[string][]string{\"foo/bar\":[]string{\"u\"}}} without impersonating a user name"
        );
        assert_eq!(parse(&[]).unwrap(), None);
    }

    proptest! {
        #[test]
        fn arbitrary_headers_name_exactly_one_user_or_are_refused(
            name in "[a-zA-Z0-9%-]{0,20}",
            value in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut headers = HeaderMap::new();
            let name = HeaderName::from_bytes(format!("impersonate-extra-{name}").as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(&value)) {
                headers.append(name, value.clone());
                headers.append("impersonate-user", value.clone());
                match Impersonation::from_headers(&headers) {
                    Ok(found) => {
                        let wanted = found.map(|found| found.wanted).unwrap_or_default();
                        prop_assert_eq!(wanted.name.as_bytes(), value.as_bytes());
                        prop_assert_eq!(wanted.extra.len(), 1);
                    }
                    Err(error) => prop_assert_eq!(error.code.as_u16(), 400),
                }
            }
        }
    }
}
