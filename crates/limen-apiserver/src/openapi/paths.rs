//! The paths of a document: what may be asked of each resource, and with what.

use serde_json::{Map, Value, json};

use super::definitions::reference;
use crate::resource::ResourceType;

pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";
pub(super) const TOKEN_REQUEST: &str = "io.k8s.api.authentication.v1.TokenRequest";

/// The paths of one resource.
pub(super) struct ResourcePaths<'a> {
    pub(super) resource: &'a ResourceType,
    /// The names of the definitions of an object and of a list.
    pub(super) definition: &'a str,
    pub(super) list_definition: &'a str,
}

/// Reviews are asked for an answer and never stored.
pub(super) fn is_review(resource: &ResourceType) -> bool {
    matches!(resource.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io")
}

/// A subresource, and how its operations are named.
struct Subresource<'a> {
    name: &'a str,
    suffix: &'a str,
    definition: &'a str,
    kind: Value,
    actions: &'a [Action],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Get,
    List,
    Post,
    Put,
    Patch,
    Delete,
    DeleteCollection,
}

impl Action {
    /// The HTTP method, the start of the operation's name, and what Kubernetes calls the action.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Get => ("get", "read", "get"),
            Self::List => ("get", "list", "list"),
            Self::Post => ("post", "create", "post"),
            Self::Put => ("put", "replace", "put"),
            Self::Patch => ("patch", "patch", "patch"),
            Self::Delete => ("delete", "delete", "delete"),
            Self::DeleteCollection => ("delete", "delete", "deletecollection"),
        }
    }

    fn parameters(self) -> &'static [(&'static str, &'static str, &'static str)] {
        match self {
            Self::Get => &[],
            Self::List => LIST,
            Self::Post | Self::Put => WRITE,
            Self::Patch => PATCH_PARAMETERS,
            Self::Delete => DELETE,
            Self::DeleteCollection => DELETE_COLLECTION,
        }
    }

    fn codes(self) -> &'static [&'static str] {
        match self {
            Self::Get | Self::List | Self::DeleteCollection => &["200"],
            Self::Post => &["200", "201", "202"],
            Self::Put | Self::Patch => &["200", "201"],
            Self::Delete => &["200", "202"],
        }
    }
}

type Parameters = &'static [(&'static str, &'static str, &'static str)];

const DRY_RUN: (&str, &str, &str) =
    ("dryRun", "string", "With All, everything is done but storing the result.");
const GRACE: (&str, &str, &str) =
    ("gracePeriodSeconds", "integer", "How long the object may take to end.");
const ORPHAN: (&str, &str, &str) =
    ("orphanDependents", "boolean", "Deprecated: use propagationPolicy.");
const PROPAGATION: (&str, &str, &str) = (
    "propagationPolicy",
    "string",
    "What becomes of dependents: Orphan, Background or Foreground.",
);
const UNSAFE: (&str, &str, &str) = (
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "boolean",
    "Deletes an object that cannot be read.",
);
const CONTINUE: (&str, &str, &str) =
    ("continue", "string", "Where to go on, from the list before.");
const FIELD_SELECTOR: (&str, &str, &str) =
    ("fieldSelector", "string", "Which objects, by their fields.");
const LABEL_SELECTOR: (&str, &str, &str) =
    ("labelSelector", "string", "Which objects, by their labels.");
const LIMIT: (&str, &str, &str) = ("limit", "integer", "How many objects to list at once.");
const VERSION: (&str, &str, &str) =
    ("resourceVersion", "string", "The state that the answer is to be from, or after.");
const VERSION_MATCH: (&str, &str, &str) =
    ("resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan.");
const INITIAL: (&str, &str, &str) =
    ("sendInitialEvents", "boolean", "Whether a watch starts with the objects that there are.");
const TIMEOUT: (&str, &str, &str) = ("timeoutSeconds", "integer", "How long the call may last.");

const WRITE: Parameters = &[
    DRY_RUN,
    ("fieldManager", "string", "Who makes the change."),
    ("fieldValidation", "string", "What happens to unknown fields: Ignore, Warn or Strict."),
];
const PATCH_PARAMETERS: Parameters = &[
    WRITE[0],
    WRITE[1],
    WRITE[2],
    ("force", "boolean", "Takes fields from other managers in server-side apply."),
];
const DELETE: Parameters = &[DRY_RUN, GRACE, UNSAFE, ORPHAN, PROPAGATION];
const LIST: Parameters = &[
    ("allowWatchBookmarks", "boolean", "Whether a watch may have bookmarks."),
    CONTINUE,
    FIELD_SELECTOR,
    LABEL_SELECTOR,
    LIMIT,
    VERSION,
    VERSION_MATCH,
    INITIAL,
    TIMEOUT,
    ("watch", "boolean", "Streams changes in place of a list."),
];
const DELETE_COLLECTION: Parameters = &[
    CONTINUE,
    DRY_RUN,
    FIELD_SELECTOR,
    GRACE,
    UNSAFE,
    LABEL_SELECTOR,
    LIMIT,
    ORPHAN,
    PROPAGATION,
    VERSION,
    VERSION_MATCH,
    INITIAL,
    TIMEOUT,
];

const JSON_AND_YAML: &[&str] = &["application/json", "application/yaml"];

impl ResourcePaths<'_> {
    /// Adds the paths of the resource and its subresources.
    pub(super) fn enter(&self, paths: &mut Map<String, Value>) {
        let resource = self.resource;
        let base = base_path(&resource.group, &resource.version);
        let plural = &resource.plural;
        let (collection, namespaced) = if resource.namespaced {
            (format!("{base}/namespaces/{{namespace}}/{plural}"), "Namespaced")
        } else {
            (format!("{base}/{plural}"), "")
        };
        let own = Subresource {
            name: "",
            suffix: "",
            definition: self.definition,
            kind: kind_of(&resource.group, &resource.version, &resource.kind),
            actions: &[],
        };
        if is_review(resource) {
            let mut item = Map::new();
            self.operation(&mut item, Action::Post, namespaced, "", &own);
            paths.insert(collection, with_parameters(item, resource.namespaced, false));
            return;
        }

        let mut item = Map::new();
        // Namespaces are deleted one by one.
        let is_namespace =
            (resource.group.as_str(), resource.plural.as_str()) == ("", "namespaces");
        let for_all = [Action::List, Action::Post, Action::DeleteCollection];
        for action in for_all.into_iter().take(if is_namespace { 2 } else { 3 }) {
            self.operation(&mut item, action, namespaced, "", &own);
        }
        paths.insert(collection.clone(), with_parameters(item, resource.namespaced, false));
        let mut item = Map::new();
        for action in [Action::Get, Action::Put, Action::Patch, Action::Delete] {
            self.operation(&mut item, action, namespaced, "", &own);
        }
        let one = format!("{collection}/{{name}}");
        paths.insert(one.clone(), with_parameters(item, resource.namespaced, true));
        if resource.namespaced {
            let mut item = Map::new();
            self.operation(&mut item, Action::List, "", "ForAllNamespaces", &own);
            paths.insert(format!("{base}/{plural}"), with_parameters(item, false, false));
        }
        for subresource in self.subresources() {
            let mut item = Map::new();
            for action in subresource.actions {
                self.operation(&mut item, *action, namespaced, subresource.suffix, &subresource);
            }
            let path = format!("{one}/{}", subresource.name);
            paths.insert(path, with_parameters(item, resource.namespaced, true));
        }
    }

    fn subresources(&self) -> Vec<Subresource<'_>> {
        let resource = self.resource;
        let own_kind = || kind_of(&resource.group, &resource.version, &resource.kind);
        let mut all = Vec::new();
        if resource.has_status {
            all.push(Subresource {
                name: "status",
                suffix: "Status",
                definition: self.definition,
                kind: own_kind(),
                actions: &[Action::Get, Action::Put, Action::Patch],
            });
        }
        if resource.scale.is_some() {
            all.push(Subresource {
                name: "scale",
                suffix: "Scale",
                definition: SCALE,
                kind: kind_of("autoscaling", "v1", "Scale"),
                actions: &[Action::Get, Action::Put, Action::Patch],
            });
        }
        match (resource.group.as_str(), resource.plural.as_str()) {
            ("", "namespaces") => all.push(Subresource {
                name: "finalize",
                suffix: "Finalize",
                definition: self.definition,
                kind: own_kind(),
                actions: &[Action::Put],
            }),
            ("", "serviceaccounts") => all.push(Subresource {
                name: "token",
                suffix: "Token",
                definition: TOKEN_REQUEST,
                kind: kind_of("authentication.k8s.io", "v1", "TokenRequest"),
                actions: &[Action::Post],
            }),
            _ => {}
        }
        all
    }

    fn operation(
        &self,
        item: &mut Map<String, Value>,
        action: Action,
        namespaced: &str,
        suffix: &str,
        of: &Subresource<'_>,
    ) {
        let resource = self.resource;
        let (method, verb, action_name) = action.names();
        let collection = if action == Action::DeleteCollection { "Collection" } else { "" };
        let group = camel(&resource.group);
        let version = capitalized(&resource.version);
        let kind = &resource.kind;
        let tag = format!("{}_{}", uncapitalized(&group), resource.version);
        let mut operation = json!({
            "tags": [tag],
            "description": format!("{action_name} {}", resource.plural),
            "operationId": format!("{verb}{group}{version}{collection}{namespaced}{kind}{suffix}"),
            "responses": self.responses(action, of.definition),
            "x-kubernetes-action": action_name,
            "x-kubernetes-group-version-kind": of.kind,
        });
        let parameters: Vec<Value> = action.parameters().iter().map(|p| query(*p)).collect();
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if let Some(body) = self.body(action, of.definition) {
            operation["requestBody"] = body;
        }
        item.insert(method.to_owned(), operation);
    }

    fn responses(&self, action: Action, definition: &str) -> Value {
        let (definition, types) = match action {
            Action::List => (
                self.list_definition,
                &["application/json", "application/json;stream=watch", "application/yaml"][..],
            ),
            Action::Delete | Action::DeleteCollection => (STATUS, JSON_AND_YAML),
            _ => (definition, JSON_AND_YAML),
        };
        let mut responses = Map::new();
        for code in action.codes() {
            let description = match *code {
                "201" => "Created",
                "202" => "Accepted",
                _ => "OK",
            };
            let answer = json!({"description": description, "content": content(types, definition)});
            responses.insert((*code).to_owned(), answer);
        }
        responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        responses.into()
    }

    fn body(&self, action: Action, definition: &str) -> Option<Value> {
        let any = if self.resource.custom { JSON_AND_YAML } else { &["*/*"] };
        match action {
            Action::Get | Action::List => None,
            Action::Post | Action::Put => {
                Some(json!({"content": content(any, definition), "required": true}))
            }
            Action::Patch => {
                let mut types = vec![
                    "application/apply-patch+yaml",
                    "application/json-patch+json",
                    "application/merge-patch+json",
                ];
                if !self.resource.custom {
                    types.push("application/strategic-merge-patch+json");
                }
                Some(json!({"content": content(&types, PATCH), "required": true}))
            }
            Action::Delete | Action::DeleteCollection => {
                Some(json!({"content": content(any, DELETE_OPTIONS)}))
            }
        }
    }
}

fn content(types: &[&str], definition: &str) -> Value {
    let schema = json!({"schema": reference(definition)});
    types.iter().map(|name| ((*name).to_owned(), schema.clone())).collect::<Map<_, _>>().into()
}

fn with_parameters(mut item: Map<String, Value>, namespaced: bool, named: bool) -> Value {
    let in_path = |name: &str, description: &str| {
        json!({
            "name": name, "in": "path", "required": true, "description": description,
            "schema": {"type": "string", "uniqueItems": true},
        })
    };
    let mut parameters = Vec::new();
    if named {
        parameters.push(in_path("name", "The name of the object."));
    }
    if namespaced {
        parameters.push(in_path("namespace", "The namespace of the objects."));
    }
    parameters.push(query(("pretty", "string", "Whether the answer is laid out for people.")));
    item.insert("parameters".to_owned(), parameters.into());
    item.into()
}

fn query((name, kind, description): (&str, &str, &str)) -> Value {
    json!({
        "name": name, "in": "query", "description": description,
        "schema": {"type": kind, "uniqueItems": true},
    })
}

fn kind_of(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

/// `/api/v1` or `/apis/apps/v1`.
pub(super) fn base_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// `RbacAuthorization` of `rbac.authorization.k8s.io`.
fn camel(group: &str) -> String {
    let group = if group.is_empty() { "core" } else { group };
    let group = group.strip_suffix(".k8s.io").unwrap_or(group);
    group.split(['.', '-']).map(capitalized).collect()
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn uncapitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
