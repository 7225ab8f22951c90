//! The API's description of itself: OpenAPI v3, one document for each group and version.
//!
//! kubectl explains, validates, diffs and applies from these. A document is made when it is asked
//! for and not kept: clients keep it under the hash that the index gives, which is one of what a
//! document is made from, so that the index costs next to nothing.
//!
//! OpenAPI v2 is not there: the clients that still want it read nothing but its protobuf form.

mod definitions;
mod paths;
mod prose;

#[cfg(all(test, feature = "e2e"))]
mod facts;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Write;

use bytes::Bytes;
use http::{Response, StatusCode};
use ring::digest;
use serde_json::{Map, Value, json};

use crate::answer::{self, Body};
use crate::resource::ResourceType;
use crate::schema::types;
use paths::ResourcePaths;

/// The description of one version of one group.
pub(crate) struct Document<'a> {
    group: &'a str,
    version: &'a str,
    resources: Vec<&'a ResourceType>,
    /// The schema that the definition of a custom resource has for it.
    custom_schema: &'a dyn Fn(&ResourceType) -> Option<Value>,
}

impl<'a> Document<'a> {
    /// The document of those of the resources that are of a group and version. `custom_schema`
    /// gives the OpenAPI v3 schema of a custom resource, as its definition has it.
    pub(crate) fn new(
        group: &'a str,
        version: &'a str,
        resources: impl IntoIterator<Item = &'a ResourceType>,
        custom_schema: &'a dyn Fn(&ResourceType) -> Option<Value>,
    ) -> Self {
        let own = |resource: &&ResourceType| resource.group == group && resource.version == version;
        let resources = resources.into_iter().filter(own).collect();
        Self { group, version, resources, custom_schema }
    }

    /// Whether there is anything to describe.
    pub(crate) fn has_resources(&self) -> bool {
        !self.resources.is_empty()
    }

    /// Where the document is under `/openapi/v3/`: `api/v1` or `apis/<group>/<version>`.
    pub(crate) fn path(&self) -> String {
        paths::base_path(self.group, self.version).split_off(1)
    }

    /// A hash that changes whenever the document does.
    pub(crate) fn hash(&self) -> String {
        let mut context = digest::Context::new(&digest::SHA512);
        let mut enter = |text: &str| {
            context.update(&text.len().to_le_bytes());
            context.update(text.as_bytes());
        };
        enter(env!("CARGO_PKG_VERSION"));
        enter(&self.path());
        for resource in &self.resources {
            enter(&resource.kind);
            enter(&resource.list_kind);
            enter(&resource.plural);
            let traits = [
                resource.namespaced,
                resource.has_status,
                resource.scale.is_some(),
                resource.custom,
            ];
            enter(&format!("{traits:?}"));
            if resource.custom {
                enter(&(self.custom_schema)(resource).unwrap_or_default().to_string());
            }
        }
        let mut hash = String::new();
        for byte in context.finish().as_ref() {
            let _ = write!(hash, "{byte:02X}");
        }
        hash
    }

    /// The document itself.
    pub(crate) fn to_json(&self) -> Value {
        let mut all_paths = Map::new();
        let mut schemas = Map::new();
        let mut built_in = BTreeSet::new();
        for resource in &self.resources {
            let definition = definition_of(resource);
            let list_definition = format!("{definition}List");
            let resource_paths = ResourcePaths {
                resource,
                definition: &definition,
                list_definition: &list_definition,
            };
            resource_paths.enter(&mut all_paths);
            if !paths::is_review(resource) {
                let shared = [
                    definitions::LIST_META,
                    definitions::OBJECT_META,
                    paths::DELETE_OPTIONS,
                    paths::PATCH,
                    paths::STATUS,
                ];
                built_in.extend(shared.map(str::to_owned));
                schemas.insert(list_definition, definitions::list(resource, &definition));
            }
            if resource.scale.is_some() {
                built_in.insert(paths::SCALE.to_owned());
            }
            if (resource.group.as_str(), resource.kind.as_str()) == ("", "ServiceAccount") {
                built_in.insert(paths::TOKEN_REQUEST.to_owned());
            }
            if resource.custom {
                let schema = definitions::custom(resource, (self.custom_schema)(resource));
                schemas.insert(definition, schema);
            } else {
                built_in.insert(definition);
            }
        }
        schemas.extend(definitions::built_in(&built_in));
        json!({
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "1.36"},
            "paths": all_paths,
            "components": {
                "schemas": schemas,
                "securitySchemes": {"BearerToken": {
                    "type": "apiKey",
                    "description": "Bearer Token authentication",
                    "name": "authorization",
                    "in": "header",
                }},
            },
        })
    }
}

/// What `/openapi/v3` answers: where the documents are.
pub(crate) fn index<'a>(documents: impl IntoIterator<Item = Document<'a>>) -> Value {
    let paths: Map<String, Value> = documents
        .into_iter()
        .map(|document| {
            let (path, hash) = (document.path(), document.hash());
            let url = format!("/openapi/v3/{path}?hash={hash}");
            (path, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

/// The name of the definition of a resource's objects. That of a custom resource starts with its
/// group read backwards.
fn definition_of(resource: &ResourceType) -> String {
    let ResourceType { group, version, kind, .. } = resource;
    if !resource.custom {
        return types::definition_name(group, version, kind);
    }
    let reversed: Vec<&str> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

/// What `/openapi/v2` answers: an empty document.
///
/// kubectl asks for it when version 3 does not describe a kind, and skips validation then, which
/// is what `kind: List` and misspelt kinds need. It reads nothing but the protobuf form.
pub(crate) fn version_2(accept: &str) -> Response<Body> {
    const MEDIA: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    // Document { swagger = 1, info = 2 { title = 1, version = 2 }, paths = 8 {} }
    const EMPTY: &[u8] = b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.36.0\x42\x00";
    if accept.contains("proto-openapi.spec.v2") {
        return answer::bytes(StatusCode::OK, MEDIA, Bytes::from_static(EMPTY));
    }
    let info = json!({"title": "Kubernetes", "version": "v1.36.0"});
    let document = json!({"swagger": "2.0", "info": info, "paths": {}});
    answer::bytes(StatusCode::OK, "application/json", document.to_string().into())
}
