//! One row for each resource and subresource.

use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::resource::{Columns, LazySchema, ResourceType, Rules};
use crate::schema::builtin;
use crate::schema::types::definition_name;

const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Custom resources list theirs in another order.
const CUSTOM_VERBS: &[&str] =
    &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const STATUS_VERBS: &[&str] = &["get", "patch", "update"];

/// A resource that answers a question and is not stored.
#[derive(Debug)]
pub(crate) struct Review {
    pub(crate) group: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespaced: bool,
}

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// The reviews that the server answers.
static REVIEWS: [Review; 6] = [
    Review::new(AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview", false),
    Review::new(AUTHENTICATION, "tokenreviews", "TokenReview", false),
    Review::new(AUTHORIZATION, "localsubjectaccessreviews", "LocalSubjectAccessReview", true),
    Review::new(AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview", false),
    Review::new(AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview", false),
    Review::new(AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview", false),
];

/// The reviews that the server answers.
pub(crate) fn reviews() -> &'static [Review] {
    &REVIEWS
}

/// The reviews as types, for describing them.
pub(crate) fn review_types() -> &'static [ResourceType] {
    static TYPES: LazyLock<Vec<ResourceType>> =
        LazyLock::new(|| REVIEWS.iter().map(Review::resource_type).collect());
    &TYPES
}

impl Review {
    const fn new(
        group: &'static str,
        plural: &'static str,
        kind: &'static str,
        namespaced: bool,
    ) -> Self {
        Self { group, plural, kind, namespaced }
    }

    fn resource_type(&self) -> ResourceType {
        let definition = definition_name(self.group, "v1", self.kind);
        ResourceType {
            group: self.group.to_owned(),
            version: "v1".to_owned(),
            kind: self.kind.to_owned(),
            list_kind: String::new(),
            plural: self.plural.to_owned(),
            singular: self.kind.to_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: self.namespaced,
            has_status: false,
            scale: None,
            columns: Columns::Paths(Vec::new()),
            rules: Rules::NONE,
            schema: LazySchema::new(move || builtin(&definition)),
            custom: false,
            selectable_paths: Vec::new(),
            published: None,
            among: None,
        }
    }

    pub(super) fn row(&self) -> Row {
        Row {
            name: self.plural.to_owned(),
            singular: self.kind.to_lowercase(),
            namespaced: self.namespaced,
            kind: (self.group.to_owned(), "v1".to_owned(), self.kind.to_owned()),
            foreign: false,
            custom: false,
            verbs: &["create"],
            short_names: Vec::new(),
            categories: Vec::new(),
            storage_hash: None,
        }
    }
}

/// A line of discovery.
pub(super) struct Row {
    /// `deployments` or `deployments/scale`.
    pub(super) name: String,
    singular: String,
    namespaced: bool,
    /// Group, version and kind of what is sent and answered.
    kind: (String, String, String),
    /// Whether that is of another group than the resource.
    foreign: bool,
    custom: bool,
    verbs: &'static [&'static str],
    short_names: Vec<String>,
    categories: Vec<String>,
    /// Tells clients when objects are stored in another version.
    storage_hash: Option<String>,
}

/// As Kubernetes makes it: the start of a digest of group, version and kind.
fn storage_hash(kind: &ResourceType) -> String {
    let (group, version) = match (kind.group.as_str(), &kind.among) {
        (group, Some(among)) => (group, among.storage.as_str()),
        // The real server keeps these in older forms than it shows them in.
        ("events.k8s.io", None) => ("", "v1"),
        (group @ "apiextensions.k8s.io", None) => (group, "v1beta1"),
        (group, None) => (group, kind.version.as_str()),
    };
    let text = format!("{group}/{version}/{}", kind.kind);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    STANDARD.encode(&digest.as_ref()[..8])
}

pub(super) fn rows<'a>(types: impl Iterator<Item = &'a Arc<ResourceType>>) -> Vec<Row> {
    types.flat_map(|kind| type_rows(kind)).collect()
}

fn type_rows(kind: &ResourceType) -> Vec<Row> {
    let own = (kind.group.clone(), kind.version.clone(), kind.kind.clone());
    let is = |plural: &str| kind.group.is_empty() && kind.plural == plural;
    let sub = |name: &str, of: (&str, &str, &str), verbs: &'static [&'static str]| Row {
        name: format!("{}/{name}", kind.plural),
        singular: String::new(),
        namespaced: kind.namespaced,
        kind: (of.0.to_owned(), of.1.to_owned(), of.2.to_owned()),
        foreign: (of.0, of.1) != (kind.group.as_str(), kind.version.as_str()),
        custom: kind.custom,
        verbs,
        short_names: Vec::new(),
        categories: Vec::new(),
        storage_hash: None,
    };
    let mut rows = vec![Row {
        name: kind.plural.clone(),
        singular: kind.singular.clone(),
        namespaced: kind.namespaced,
        kind: own.clone(),
        foreign: false,
        custom: kind.custom,
        // A namespace is never deleted together with others by mistake.
        verbs: if is("namespaces") {
            &["create", "delete", "get", "list", "patch", "update", "watch"]
        } else if kind.custom {
            CUSTOM_VERBS
        } else {
            ALL_VERBS
        },
        short_names: kind.short_names.clone(),
        categories: kind.categories.clone(),
        storage_hash: Some(storage_hash(kind)),
    }];
    let this = (own.0.as_str(), own.1.as_str(), own.2.as_str());
    if is("namespaces") {
        rows.push(sub("finalize", this, &["update"]));
    }
    if kind.scale.is_some() {
        rows.push(sub("scale", ("autoscaling", "v1", "Scale"), STATUS_VERBS));
    }
    if kind.has_status {
        // Custom resources have theirs the other way round.
        let at = if kind.custom { 1 } else { rows.len() };
        rows.insert(at, sub("status", this, STATUS_VERBS));
    }
    if is("serviceaccounts") {
        rows.push(sub("token", ("authentication.k8s.io", "v1", "TokenRequest"), &["create"]));
    }
    rows
}

impl Row {
    /// The resource that the row is of, or of a part of which it is.
    pub(super) fn resource_name(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// The row in a resource list.
    pub(super) fn resource(&self) -> Value {
        let (group, version, kind) = &self.kind;
        let mut row = json!({
            "name": self.name,
            "singularName": self.singular,
            "namespaced": self.namespaced,
            "kind": kind,
            "verbs": self.verbs,
        });
        if self.foreign {
            row["group"] = group.as_str().into();
            row["version"] = version.as_str().into();
        }
        self.add_names(&mut row);
        if let Some(hash) = &self.storage_hash {
            row["storageVersionHash"] = hash.as_str().into();
        }
        row
    }

    fn add_names(&self, row: &mut Value) {
        if !self.short_names.is_empty() {
            row["shortNames"] = self.short_names.clone().into();
        }
        if !self.categories.is_empty() {
            row["categories"] = self.categories.clone().into();
        }
    }

    fn response_kind(&self) -> Value {
        let (group, version, kind) = &self.kind;
        // The built-in ones name what differs from where they stand.
        if !self.foreign && !self.custom {
            return json!({"group": "", "version": "", "kind": kind});
        }
        json!({"group": group, "version": version, "kind": kind})
    }
}

/// The rows of a version in the aggregated form: subresources within their resource.
pub(super) fn aggregated(rows: &[Row]) -> Vec<Value> {
    let mut resources: Vec<Value> = Vec::new();
    for row in rows {
        match row.name.split_once('/') {
            None => {
                let mut resource = json!({
                    "resource": row.name,
                    "responseKind": row.response_kind(),
                    "scope": if row.namespaced { "Namespaced" } else { "Cluster" },
                    "singularResource": row.singular,
                    "verbs": row.verbs,
                });
                row.add_names(&mut resource);
                resources.push(resource);
            }
            // Sorted by name, a subresource follows its resource.
            Some((resource, subresource)) => {
                let entry = json!({
                    "subresource": subresource,
                    "responseKind": row.response_kind(),
                    "verbs": row.verbs,
                });
                let parent = resources.iter_mut().find(|found| found["resource"] == resource);
                if let Some(parent) = parent {
                    match parent["subresources"].as_array_mut() {
                        Some(list) => list.push(entry),
                        None => parent["subresources"] = json!([entry]),
                    }
                }
            }
        }
    }
    resources
}
