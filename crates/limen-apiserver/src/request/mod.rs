//! What a request asks for, read off its method, path and query.
//!
//! ```text
//!   /api/v1/namespaces/NS/pods/NAME/status?watch=1   ──►  Target + Verb + Options
//! ```
//!
//! Types come and go with custom resource definitions, so nothing here knows which exist.

mod field_selector;
mod label_selector;
mod options;

use http::Method;
use percent_encoding::percent_decode_str;

pub(crate) use field_selector::FieldSelector;
pub(crate) use label_selector::{LabelSelector, Labels};
pub(crate) use options::{Options, VersionMatch};

use crate::auth::Identity;
use crate::error::{ApiError, ApiResult};
use crate::rbac::Attributes;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A resource, or a collection of them.
    Resource(ResourcePath),
    /// Something else, such as `/healthz` or `/apis`.
    Other(String),
}

/// The parts of a resource's path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// Whether it is a path of old, `/api/v1/watch/...`, which means a watch by itself.
    pub(crate) watch: bool,
}

impl ResourcePath {
    /// What RBAC decides by.
    pub(crate) fn attributes<'a>(&'a self, user: &'a Identity, verb: Verb) -> Attributes<'a> {
        let text = |part: &'a Option<String>| part.as_deref().unwrap_or_default();
        // A namespace is in itself.
        let is_namespace = self.group.is_empty() && self.plural == "namespaces";
        let namespace = if is_namespace { &self.name } else { &self.namespace };
        Attributes {
            user,
            verb: verb.as_str(),
            group: &self.group,
            version: &self.version,
            resource: &self.plural,
            subresource: text(&self.subresource),
            name: text(&self.name),
            namespace: text(namespace),
            path: None,
        }
    }
}

/// What to do with the target, as RBAC names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    pub(crate) fn is_mutating(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }

    /// What the real server calls the options of a verb.
    pub(crate) fn options_kind(self) -> &'static str {
        match self {
            Self::Get => "GetOptions",
            Self::List | Self::Watch => "ListOptions",
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch => "PatchOptions",
            Self::Delete | Self::DeleteCollection => "DeleteOptions",
        }
    }

    /// The verb of a method on a resource path.
    pub(crate) fn of(method: &Method, path: &ResourcePath, options: &Options) -> ApiResult<Self> {
        let named = path.name.is_some();
        Ok(match *method {
            Method::GET | Method::HEAD if path.watch => Self::Watch,
            // Of a named object, `watch` is not listened to.
            Method::GET | Method::HEAD if named => Self::Get,
            Method::GET | Method::HEAD if options.watch => Self::Watch,
            Method::GET | Method::HEAD => Self::List,
            _ if path.watch => return Err(ApiError::method_not_allowed()),
            // Creating a subresource (a token, an eviction) names its parent.
            Method::POST if !named || path.subresource.is_some() => Self::Create,
            Method::PUT if named => Self::Update,
            Method::PATCH if named => Self::Patch,
            Method::DELETE if named => Self::Delete,
            Method::DELETE => Self::DeleteCollection,
            _ => return Err(ApiError::method_not_allowed()),
        })
    }
}

impl Target {
    /// Reads a path as it stands in the request line.
    pub(crate) fn parse(path: &str) -> ApiResult<Self> {
        let decoded = percent_decode_str(path)
            .decode_utf8()
            .map_err(|_| ApiError::bad_request("the path is not valid UTF-8"))?;
        let parts: Vec<&str> = decoded.trim_end_matches('/').split('/').collect();
        let (group, version, rest) = match parts.as_slice() {
            ["", "api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["", "apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Ok(Self::Other(decoded.into_owned())),
        };
        if rest.iter().any(|part| part.is_empty()) {
            return Err(ApiError::no_such_path());
        }
        let (watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        let mut target = ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            watch,
            ..ResourcePath::default()
        };
        let rest = match rest {
            // `namespaces` is a resource itself, unless something of a namespace follows.
            ["namespaces", namespace, inner @ ..]
                if !matches!(inner, [] | ["status" | "finalize"]) =>
            {
                target.namespace = Some((*namespace).to_owned());
                inner
            }
            rest => rest,
        };
        let mut rest = rest.iter().map(|part| (*part).to_owned());
        target.plural = rest.next().unwrap_or_default();
        target.name = rest.next();
        let subresource: Vec<String> = rest.collect();
        if !subresource.is_empty() {
            target.subresource = Some(subresource.join("/"));
        }
        Ok(Self::Resource(target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(parts: [&str; 6]) -> Target {
        let [group, version, namespace, plural, name, subresource] = parts.map(str::to_owned);
        let some = |text: String| (!text.is_empty()).then_some(text);
        Target::Resource(ResourcePath {
            group,
            version,
            plural,
            namespace: some(namespace),
            name: some(name),
            subresource: some(subresource),
            watch: false,
        })
    }

    #[test]
    fn paths_are_taken_apart() {
        let cases = [
            ("/api/v1/pods", path(["", "v1", "", "pods", "", ""])),
            ("/api/v1/namespaces", path(["", "v1", "", "namespaces", "", ""])),
            ("/api/v1/namespaces/a", path(["", "v1", "", "namespaces", "a", ""])),
            ("/api/v1/namespaces/a/status", path(["", "v1", "", "namespaces", "a", "status"])),
            ("/api/v1/namespaces/a/pods", path(["", "v1", "a", "pods", "", ""])),
            ("/api/v1/namespaces/a/pods/b", path(["", "v1", "a", "pods", "b", ""])),
            ("/api/v1/namespaces/a/pods/b/", path(["", "v1", "a", "pods", "b", ""])),
            (
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                path(["apps", "v1", "a", "deployments", "b", "scale"]),
            ),
            ("/apis/g/v1/things/a%3Ab", path(["g", "v1", "", "things", "a:b", ""])),
            ("/apis/apps/v1", Target::Other("/apis/apps/v1".to_owned())),
            ("/healthz", Target::Other("/healthz".to_owned())),
            ("//api/v1/pods", Target::Other("//api/v1/pods".to_owned())),
            // No path is cleaned: dots are names like any other.
            ("/api/v1/namespaces/../pods", path(["", "v1", "..", "pods", "", ""])),
        ];
        for (text, expected) in cases {
            assert_eq!(Target::parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn tricks_in_paths_lead_nowhere() {
        for text in ["/api/v1//pods", "/api/v1/%ff"] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
        // An encoded slash is a slash.
        let target = Target::parse("/api/v1/namespaces/a/pods/b%2Fc").unwrap();
        assert_eq!(target, path(["", "v1", "a", "pods", "b", "c"]));
    }

    #[test]
    fn verbs_follow_from_method_and_path() {
        let verb = |method: Method, path: &str, query: &str| {
            let Target::Resource(path) = Target::parse(path).unwrap() else { panic!() };
            Verb::of(&method, &path, &Options::parse(query))
        };
        let pods = "/api/v1/namespaces/a/pods";
        let pod = "/api/v1/namespaces/a/pods/b";
        assert_eq!(verb(Method::GET, pods, "").unwrap(), Verb::List);
        assert_eq!(verb(Method::GET, pods, "watch=true").unwrap(), Verb::Watch);
        assert_eq!(verb(Method::GET, pod, "").unwrap(), Verb::Get);
        assert_eq!(verb(Method::GET, pod, "watch=true").unwrap(), Verb::Get);
        let old = "/api/v1/watch/namespaces/a/pods/b";
        assert_eq!(verb(Method::GET, old, "").unwrap(), Verb::Watch);
        assert_eq!(verb(Method::PUT, old, "").unwrap_err().code, 405);
        assert_eq!(verb(Method::DELETE, pods, "").unwrap(), Verb::DeleteCollection);
        assert_eq!(verb(Method::POST, pods, "").unwrap(), Verb::Create);
        assert_eq!(verb(Method::POST, pod, "").unwrap_err().code, 405);
        assert_eq!(verb(Method::PUT, pods, "").unwrap_err().code, 405);
    }
}
