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

    /// The Go type that the real server has for an object, which some of its errors name.
    pub(crate) fn go_type(&self) -> String {
        if self.kind.custom {
            return "unstructured.Unstructured".to_owned();
        }
        let package = match self.kind.group.split('.').next().unwrap_or_default() {
            "" | "events" => "core",
            package => package,
        };
        format!("{package}.{}", self.kind.kind)
    }

    /// Whether objects are stored in another form than this type shows them in.
    pub(crate) fn converts(&self) -> bool {
        self.is_new_event() || self.kind.is_reshaped() || self.fills_in()
    }

    /// Whether objects are Events in their newer form, which are stored in the older one.
    fn is_new_event(&self) -> bool {
        self.kind.group == "events.k8s.io"
    }

    /// Whether stored objects may lack what their definition has come to have a default for.
    fn fills_in(&self) -> bool {
        self.kind.custom && self.kind.schema.get().has_defaults()
    }

    /// The object in the form of this type.
    pub(crate) fn read(&self, stored: &StoredObject) -> Value {
        let mut object = stored.object(&self.api_version(), &self.kind.kind);
        if self.is_new_event() {
            return crate::kinds::event::to_events(&object);
        }
        let reshaped = self.kind.is_reshaped();
        if reshaped || self.fills_in() {
            let schema = self.kind.schema.get();
            if reshaped {
                crate::crd::prune(&mut object, schema.root());
            }
            crate::crd::default(&mut object, schema.root());
        }
        object
    }

    /// An object of this type in the form that is stored.
    pub(crate) fn to_stored(&self, object: Value) -> Value {
        if self.is_new_event() { crate::kinds::event::to_core(&object) } else { object }
    }

    /// What everybody who asks for this type is warned of.
    pub(crate) fn deprecation(&self) -> Option<String> {
        let is_endpoints = self.kind.group.is_empty() && self.kind.kind == "Endpoints";
        let built_in = is_endpoints.then(|| crate::kinds::ENDPOINTS_DEPRECATED.to_owned());
        built_in.or_else(|| self.kind.among.as_ref()?.deprecation.clone())
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
            // Kinds that add no fields of their own share one rule, whatever their scope.
            let plain = !self.kind.custom && self.kind.rules.selectable.is_empty();
            let known = field == "metadata.name"
                || (field == "metadata.namespace" && (self.kind.namespaced || plain))
                || self.kind.rules.selectable.iter().any(|(name, _)| *name == field)
                || self.kind.selectable_paths.iter().any(|path| path == field);
            if !known {
                return Err(ApiError::bad_request(if plain {
                    format!(
                        "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                    )
                } else {
                    format!("field label not supported: {field}")
                }));
            }
        }
        Ok(())
    }
}

/// `v1`, or `apps/v1`.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin_types;

    #[test]
    fn fields_that_may_be_selected_by_depend_on_the_kind() {
        let message = |plural: &str, selector: &str| {
            let kind = builtin_types().into_iter().find(|kind| kind.plural == plural).unwrap();
            let fields = FieldSelector::parse(selector).unwrap();
            let checked = Scope::new(&Arc::new(kind), None).check_fields(&fields);
            checked.map_or_else(|error| error.message, |()| String::new())
        };
        let plain =
            "\"x.y\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
        let cases = [
            ("configmaps", "metadata.name=a,metadata.namespace!=b", ""),
            ("configmaps", "x.y=1", plain),
            ("clusterroles", "metadata.namespace=b", ""),
            ("pods", "status.phase=Running", ""),
            ("pods", "x.y=1", "field label not supported: x.y"),
            ("namespaces", "metadata.namespace=a", "field label not supported: metadata.namespace"),
        ];
        for (plural, selector, expected) in cases {
            assert_eq!(message(plural, selector), expected, "{plural} {selector}");
        }
    }

    #[test]
    fn errors_name_the_go_type() {
        let types = builtin_types();
        let named = |group: &str, plural: &str| {
            let kind = types.iter().position(|it| it.group == group && it.plural == plural);
            let kind = builtin_types().swap_remove(kind.unwrap());
            Scope::new(&Arc::new(kind), None).go_type()
        };
        assert_eq!(named("", "configmaps"), "core.ConfigMap");
        assert_eq!(named("events.k8s.io", "events"), "core.Event");
        assert_eq!(named("rbac.authorization.k8s.io", "roles"), "rbac.Role");
        assert_eq!(named("apps", "deployments"), "apps.Deployment");
    }
}
