//! Where objects are in the store: `GROUP/PLURAL/NAMESPACE/NAME`, or `GROUP/PLURAL/NAME`.

use bytes::Bytes;

use crate::resource::ResourceType;

/// Where the objects of a type, or of a type in a namespace, are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    prefix: String,
}

impl Place {
    /// All objects of a type, or those of one namespace.
    pub(crate) fn new(kind: &ResourceType, namespace: Option<&str>) -> Self {
        let mut prefix = all_prefix(kind);
        if let Some(namespace) = namespace.filter(|_| kind.namespaced) {
            prefix.push_str(namespace);
            prefix.push('/');
        }
        Self { prefix }
    }

    pub(crate) fn prefix(&self) -> Bytes {
        self.prefix.clone().into()
    }

    /// The key of a named object. The place must be a namespace if the type has them.
    pub(crate) fn key(&self, name: &str) -> Bytes {
        format!("{}{name}", self.prefix).into()
    }
}

/// What the keys of all objects of a type start with. Both versions of Event share theirs.
pub(crate) fn all_prefix(kind: &ResourceType) -> String {
    let group = match (kind.group.as_str(), kind.plural.as_str()) {
        ("", _) | ("events.k8s.io", "events") => "core",
        (group, _) => group,
    };
    format!("{group}/{}/", kind.plural)
}

/// The namespace and name in a key of a type.
pub(crate) fn place_of<'a>(
    kind: &ResourceType,
    key: &'a [u8],
) -> Option<(Option<&'a str>, &'a str)> {
    let rest = std::str::from_utf8(key).ok()?.strip_prefix(&all_prefix(kind))?;
    if !kind.namespaced {
        return Some((None, rest));
    }
    let (namespace, name) = rest.split_once('/')?;
    Some((Some(namespace), name))
}
