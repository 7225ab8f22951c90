//! The kinds that a simulated API serves.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

/// A kind that an API serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The API group, empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The plural that paths use.
    pub plural: String,
    /// Whether objects are in namespaces.
    pub namespaced: bool,
}

impl Resource {
    fn new(api_version: &str, kind: &str, plural: &str, namespaced: bool) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            namespaced,
        }
    }

    /// `deployments.apps`, or `services` in the core group: the identity of the kind.
    pub fn id(&self) -> Arc<str> {
        resource_id(&self.group, &self.plural)
    }

    /// `apps/v1`, or `v1` in the core group.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// `deployments.apps`, or `services` in the core group.
pub(super) fn resource_id(group: &str, plural: &str) -> Arc<str> {
    match group {
        "" => plural.into(),
        group => format!("{plural}.{group}").into(),
    }
}

/// Every kind of one API.
#[derive(Clone, Debug, Default)]
pub struct Kinds(BTreeMap<Arc<str>, Arc<Resource>>);

impl Kinds {
    fn of(rows: impl IntoIterator<Item = Resource>) -> Self {
        Self(rows.into_iter().map(|resource| (resource.id(), Arc::new(resource))).collect())
    }

    /// Kinds of a member.
    pub fn member() -> Self {
        Self::of(native())
    }

    /// Kinds of a hub: native kinds, Limen's own, and the federated forms.
    pub fn hub() -> Self {
        let own = limen_api::crds().into_iter();
        let forms = limen_api::NATIVE.iter().flat_map(|&row| {
            let leaf = limen_api::kind(row);
            let three = limen_api::three_object_kinds(&leaf);
            [limen_api::federated_kind(&leaf)].into_iter().chain(three)
        });
        let defined = own.chain(forms).map(|crd| {
            let version = crd.spec.versions.first().map_or("v1", |version| version.name.as_str());
            let api_version = format!("{}/{version}", crd.spec.group);
            let names = &crd.spec.names;
            Resource::new(&api_version, &names.kind, &names.plural, crd.spec.scope == "Namespaced")
        });
        Self::of(native().chain(defined))
    }

    /// The kind with this id.
    pub fn get(&self, id: &str) -> Option<&Arc<Resource>> {
        self.0.get(id)
    }

    /// Stops serving a kind.
    pub fn remove(&mut self, id: &str) -> Option<Arc<Resource>> {
        self.0.remove(id)
    }

    /// Serves a kind.
    pub fn insert(&mut self, resource: Arc<Resource>) {
        self.0.insert(resource.id(), resource);
    }

    /// The kind in a path, if this version of it is served.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.get(&resource_id(group, plural)).filter(|found| found.version == version)
    }

    /// The document at `/apis`.
    pub fn groups(&self) -> Value {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for resource in self.0.values().filter(|resource| !resource.group.is_empty()) {
            let versions = groups.entry(&resource.group).or_default();
            if !versions.contains(&resource.version.as_str()) {
                versions.push(&resource.version);
            }
        }
        let group = |(name, versions): (&&str, &Vec<&str>)| {
            let version = |version: &&str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
            json!({"name": name, "versions": versions.iter().map(version).collect::<Vec<_>>()})
        };
        json!({"kind": "APIGroupList", "apiVersion": "v1",
            "groups": groups.iter().map(group).collect::<Vec<_>>()})
    }

    /// The document at `/api/v1` or `/apis/GROUP/VERSION`; nothing if that is not served.
    pub fn resources(&self, group: &str, version: &str) -> Option<Value> {
        let served =
            |resource: &&Arc<Resource>| resource.group == group && resource.version == version;
        let resources: Vec<_> = self
            .0
            .values()
            .filter(served)
            .map(|resource| {
                json!({"name": resource.plural, "kind": resource.kind,
                    "namespaced": resource.namespaced,
                    "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"]})
            })
            .collect();
        let name = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        (!resources.is_empty()).then(|| {
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name,
                "resources": resources})
        })
    }
}

fn native() -> impl Iterator<Item = Resource> {
    let rows = [
        ("v1", "Node", "nodes", false),
        ("v1", "Event", "events", true),
        ("v1", "ServiceAccount", "serviceaccounts", true),
        ("coordination.k8s.io/v1", "Lease", "leases", true),
        // It shares its name with a kind of the core group.
        ("serving.knative.dev/v1", "Service", "services", true),
    ];
    limen_api::NATIVE.into_iter().chain(rows).map(|(api_version, kind, plural, namespaced)| {
        Resource::new(api_version, kind, plural, namespaced)
    })
}
