//! The descriptions of the built-in types, which k8s-openapi has.
//!
//! They are made anew for each document and dropped with it: nobody reads them often, and all of
//! them together are large.

use k8s_openapi::api::{
    apps, authentication, authorization, autoscaling, batch, coordination, core, discovery, events,
    networking, policy, rbac,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

/// The definitions that a document needs, with their descriptions.
pub(super) struct Prose {
    definitions: Map<String, Value>,
}

type Enter = fn(&mut SchemaGenerator);

/// The types that resources, subresources and answers are of, by their OpenAPI names' ends. What
/// they refer to comes with them.
const ROOTS: &[(&str, Enter)] = &[
    ("apps.v1.DaemonSet", enter::<apps::v1::DaemonSet>),
    ("apps.v1.Deployment", enter::<apps::v1::Deployment>),
    ("apps.v1.ReplicaSet", enter::<apps::v1::ReplicaSet>),
    ("apps.v1.StatefulSet", enter::<apps::v1::StatefulSet>),
    ("authentication.v1.SelfSubjectReview", enter::<authentication::v1::SelfSubjectReview>),
    ("authentication.v1.TokenRequest", enter::<authentication::v1::TokenRequest>),
    ("authentication.v1.TokenReview", enter::<authentication::v1::TokenReview>),
    (
        "authorization.v1.LocalSubjectAccessReview",
        enter::<authorization::v1::LocalSubjectAccessReview>,
    ),
    (
        "authorization.v1.SelfSubjectAccessReview",
        enter::<authorization::v1::SelfSubjectAccessReview>,
    ),
    ("authorization.v1.SelfSubjectRulesReview", enter::<authorization::v1::SelfSubjectRulesReview>),
    ("authorization.v1.SubjectAccessReview", enter::<authorization::v1::SubjectAccessReview>),
    ("autoscaling.v1.Scale", enter::<autoscaling::v1::Scale>),
    ("autoscaling.v2.HorizontalPodAutoscaler", enter::<autoscaling::v2::HorizontalPodAutoscaler>),
    ("batch.v1.CronJob", enter::<batch::v1::CronJob>),
    ("batch.v1.Job", enter::<batch::v1::Job>),
    ("coordination.v1.Lease", enter::<coordination::v1::Lease>),
    ("core.v1.ConfigMap", enter::<core::v1::ConfigMap>),
    ("core.v1.Endpoints", enter::<core::v1::Endpoints>),
    ("core.v1.Event", enter::<core::v1::Event>),
    ("core.v1.LimitRange", enter::<core::v1::LimitRange>),
    ("core.v1.Namespace", enter::<core::v1::Namespace>),
    ("core.v1.Node", enter::<core::v1::Node>),
    ("core.v1.PersistentVolumeClaim", enter::<core::v1::PersistentVolumeClaim>),
    ("core.v1.Pod", enter::<core::v1::Pod>),
    ("core.v1.ResourceQuota", enter::<core::v1::ResourceQuota>),
    ("core.v1.Secret", enter::<core::v1::Secret>),
    ("core.v1.Service", enter::<core::v1::Service>),
    ("core.v1.ServiceAccount", enter::<core::v1::ServiceAccount>),
    ("discovery.v1.EndpointSlice", enter::<discovery::v1::EndpointSlice>),
    ("events.v1.Event", enter::<events::v1::Event>),
    ("networking.v1.Ingress", enter::<networking::v1::Ingress>),
    ("networking.v1.IngressClass", enter::<networking::v1::IngressClass>),
    ("networking.v1.NetworkPolicy", enter::<networking::v1::NetworkPolicy>),
    ("policy.v1.PodDisruptionBudget", enter::<policy::v1::PodDisruptionBudget>),
    ("rbac.v1.ClusterRole", enter::<rbac::v1::ClusterRole>),
    ("rbac.v1.ClusterRoleBinding", enter::<rbac::v1::ClusterRoleBinding>),
    ("rbac.v1.Role", enter::<rbac::v1::Role>),
    ("rbac.v1.RoleBinding", enter::<rbac::v1::RoleBinding>),
    (
        "apiextensions.v1.CustomResourceDefinition",
        enter::<apiextensions::v1::CustomResourceDefinition>,
    ),
    ("meta.v1.DeleteOptions", enter::<meta::DeleteOptions>),
    ("meta.v1.ListMeta", enter::<meta::ListMeta>),
    ("meta.v1.ObjectMeta", enter::<meta::ObjectMeta>),
    ("meta.v1.Patch", enter::<meta::Patch>),
    ("meta.v1.Status", enter::<meta::Status>),
];

fn enter<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

impl Prose {
    /// The prose of these definitions and of all that they refer to.
    pub(super) fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut generator = SchemaSettings::openapi3().into_generator();
        for name in names {
            let root = ROOTS
                .iter()
                .find(|(end, _)| name.strip_suffix(end).is_some_and(|start| start.ends_with('.')));
            if let Some((_, enter)) = root {
                enter(&mut generator);
            }
        }
        Self { definitions: generator.take_definitions(false) }
    }

    /// What a definition is.
    pub(super) fn of_definition(&mut self, name: &str) -> Option<Value> {
        self.definitions.get_mut(name)?.get_mut("description").map(Value::take)
    }

    /// What a field is.
    pub(super) fn of_field(&mut self, definition: &str, field: &str) -> Option<Value> {
        let properties = self.definitions.get_mut(definition)?.get_mut("properties")?;
        properties.get_mut(field)?.get_mut("description").map(Value::take)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::schema::types;

    /// Both say what Kubernetes' types look like; an upgrade of one without the other shows here.
    #[test]
    fn the_table_of_types_has_the_fields_that_k8s_openapi_has() {
        let mut generator = SchemaSettings::openapi3().into_generator();
        ROOTS.iter().for_each(|(_, enter)| enter(&mut generator));
        let mut compared = 0;
        for (name, schema) in generator.take_definitions(false) {
            let Some(definition) = types::definition(&name) else { continue };
            let ours: BTreeSet<&str> = definition.fields.iter().map(|field| field.name).collect();
            let theirs: BTreeSet<&str> = schema["properties"]
                .as_object()
                .map(|fields| fields.keys().map(String::as_str).collect())
                .unwrap_or_default();
            assert_eq!(ours, theirs, "{name}");
            compared += 1;
        }
        assert!(compared > 300, "only {compared} definitions were compared");
    }
}
