//! The objects that a request is about: a type, perhaps in a namespace.

use std::sync::Arc;

use serde_json::Value;

use crate::error::{ApiError, ApiResult, Subject};
use crate::request::FieldSelector;
use crate::resource::ResourceType;
use crate::storage::{Place, StoredObject};

#[derive(Clone)]
pub(crate) struct Scope {
    pub(crate) kind: Arc<ResourceType>,
    /// `None` for cluster-scoped types, and for all namespaces together.
    pub(crate) namespace: Option<String>,
}

impl Scope {
    pub(crate) fn new(kind: &Arc<ResourceType>, namespace: Option<&str>) -> Self {
        let namespace = namespace.filter(|_| kind.namespaced).map(str::to_owned);
        Self { kind: kind.clone(), namespace }
    }

    pub(crate) fn place(&self) -> Place {
        Place::new(&self.kind, self.namespace.as_deref())
    }

    pub(crate) fn api_version(&self) -> String {
        api_version(&self.kind.group, &self.kind.version)
    }

    /// How errors about an object call it: by its resource.
    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject { group: &self.kind.group, resource: &self.kind.plural }
    }

    /// How errors about an object's contents call it: by its kind.
    pub(crate) fn kind_subject(&self) -> Subject<'_> {
        Subject { group: &self.kind.group, resource: &self.kind.kind }
    }

    /// Whether objects are stored in another form than this type shows them in.
    pub(crate) fn converts(&self) -> bool {
        self.is_new_event() || self.kind.is_reshaped()
    }

    /// Whether objects are Events in their newer form, which are stored in the older one.
    fn is_new_event(&self) -> bool {
        self.kind.group == "events.k8s.io"
    }

    /// The object in the form of this type.
    pub(crate) fn read(&self, stored: &StoredObject) -> Value {
        let mut object = stored.object(&self.api_version(), &self.kind.kind);
        if self.is_new_event() {
            return crate::kinds::event::to_events(&object);
        }
        if self.kind.is_reshaped() {
            let schema = self.kind.schema.get();
            crate::crd::prune(&mut object, schema.root());
            crate::crd::default(&mut object, schema.root());
        }
        object
    }

    /// An object of this type in the form that is stored.
    pub(crate) fn to_stored(&self, object: Value) -> Value {
        if self.is_new_event() { crate::kinds::event::to_core(&object) } else { object }
    }

    /// What to warn a writer of.
    pub(crate) fn warnings(&self, object: &Value, creates: bool) -> Vec<String> {
        if self.kind.custom {
            return crate::kinds::metadata::finalizer_warnings(object);
        }
        // An Ingress is warned of once.
        if self.kind.kind == "Ingress" && !creates {
            return Vec::new();
        }
        (self.kind.rules.warnings)(object)
    }

    pub(crate) fn check_fields(&self, fields: &FieldSelector) -> ApiResult<()> {
        for requirement in fields.requirements() {
            let field = requirement.field.as_str();
            let known = field == "metadata.name"
                || (field == "metadata.namespace" && self.kind.namespaced)
                || self.kind.rules.selectable.iter().any(|(name, _)| *name == field)
                || self.kind.selectable_paths.iter().any(|path| path == field);
            if !known {
                let message = format!("field label not supported: {field}");
                return Err(ApiError::bad_request(message));
            }
        }
        Ok(())
    }
}

/// `v1`, or `apps/v1`.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
