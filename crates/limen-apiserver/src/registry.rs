//! Which types the server has at this moment.
//!
//! One immutable snapshot, replaced whole when a custom resource definition comes or goes. Requests
//! work with the snapshot that they started with.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::resource::ResourceType;

/// The types of a server; shared and swapped atomically.
pub(crate) struct Registry {
    built_in: Vec<Arc<ResourceType>>,
    current: ArcSwap<Types>,
}

/// A snapshot of the types.
pub(crate) struct Types {
    /// By group, then version (in the order of preference), then plural name.
    groups: BTreeMap<String, Vec<Version>>,
}

pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) types: BTreeMap<String, Arc<ResourceType>>,
}

impl Registry {
    pub(crate) fn new(built_in: Vec<ResourceType>) -> Self {
        let built_in: Vec<Arc<ResourceType>> = built_in.into_iter().map(Arc::new).collect();
        let types = Types::new(built_in.iter().cloned());
        Self { built_in, current: ArcSwap::from_pointee(types) }
    }

    pub(crate) fn types(&self) -> Arc<Types> {
        self.current.load_full()
    }

    /// Replaces the custom types. None comes into a group of built-in ones, whose place it might
    /// take.
    pub(crate) fn set_custom(&self, custom: impl IntoIterator<Item = Arc<ResourceType>>) {
        let custom = custom.into_iter().filter(|kind| !self.is_built_in(&kind.group));
        let types = Types::new(self.built_in.iter().cloned().chain(custom));
        self.current.store(Arc::new(types));
    }

    /// Whether a group has types that are built in.
    pub(crate) fn is_built_in(&self, group: &str) -> bool {
        self.built_in.iter().any(|kind| kind.group == group)
    }
}

impl Types {
    fn new(types: impl Iterator<Item = Arc<ResourceType>>) -> Self {
        let mut groups: BTreeMap<String, Vec<Version>> = BTreeMap::new();
        for kind in types {
            let versions = groups.entry(kind.group.clone()).or_default();
            let at = versions.iter().position(|version| version.name == kind.version);
            let at = at.unwrap_or_else(|| {
                versions.push(Version { name: kind.version.clone(), types: BTreeMap::new() });
                versions.len() - 1
            });
            versions[at].types.insert(kind.plural.clone(), kind);
        }
        for versions in groups.values_mut() {
            versions.sort_by_key(|version| std::cmp::Reverse(maturity(&version.name)));
        }
        Self { groups }
    }

    pub(crate) fn find(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<&Arc<ResourceType>> {
        self.version(group, version)?.types.get(plural)
    }

    /// The type of a kind, for references that name one.
    pub(crate) fn of_kind(
        &self,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Option<&Arc<ResourceType>> {
        self.version(group, version)?.types.values().find(|found| found.kind == kind)
    }

    pub(crate) fn version(&self, group: &str, version: &str) -> Option<&Version> {
        self.versions(group)?.iter().find(|found| found.name == version)
    }

    pub(crate) fn versions(&self, group: &str) -> Option<&[Version]> {
        self.groups.get(group).map(Vec::as_slice)
    }

    /// Whether a group is one that the server has by itself.
    pub(crate) fn has_built_in(&self, group: &str) -> bool {
        let all = self.versions(group).into_iter().flatten();
        all.flat_map(|version| version.types.values()).any(|kind| !kind.custom)
    }

    /// Every group with its versions.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&str, &[Version])> {
        self.groups.iter().map(|(group, versions)| (group.as_str(), versions.as_slice()))
    }

    /// One type for each place in the store: the preferred version of each.
    pub(crate) fn stored(&self) -> Vec<Arc<ResourceType>> {
        let mut seen = std::collections::HashSet::new();
        let all = self.groups.values().flatten().flat_map(|version| version.types.values());
        all.filter(|kind| seen.insert(crate::storage::all_prefix(kind))).cloned().collect()
    }
}

/// The order of versions: stable before beta before alpha, then the higher number; others last.
pub(crate) fn maturity(version: &str) -> (u8, u32, u32, std::cmp::Reverse<String>) {
    let parsed = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major: u32 = rest[..digits].parse().ok()?;
        let stage = &rest[digits..];
        let numbered = |name| stage.strip_prefix(name).and_then(|n| n.parse::<u32>().ok());
        match (stage, numbered("beta"), numbered("alpha")) {
            ("", ..) => Some((3, major, 0)),
            (_, Some(n), _) => Some((2, major, n)),
            (_, _, Some(n)) => Some((1, major, n)),
            _ => None,
        }
    };
    let (stage, major, minor) = parsed().unwrap_or((0, 0, 0));
    (stage, major, minor, std::cmp::Reverse(version.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_preferred_by_maturity() {
        let mut versions =
            ["foo10", "v1", "v2beta1", "v10", "v2", "v1alpha1", "v2alpha2", "foo1", "v3beta1"];
        versions.sort_by_key(|version| std::cmp::Reverse(maturity(version)));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v3beta1", "v2beta1", "v2alpha2", "v1alpha1", "foo1", "foo10"]
        );
    }
}
