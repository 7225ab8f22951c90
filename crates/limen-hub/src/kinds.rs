//! Where roots come from: the kinds that the hub watches, and what each of them means.

use std::collections::BTreeMap;
use std::sync::Arc;

use limen_api::{FederatedType, FederatedTypeSpec, Scope};
use limen_core::federated::Kind;

/// What objects of a kind on the hub are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Roots by themselves.
    Native,
    /// `Federated<Kind>` in one object, for leaves of this kind.
    OneObject(Arc<Kind>),
    /// The template of the form in three objects, for leaves of this kind.
    Template(Arc<Kind>),
    /// The placement that goes with a template of this kind.
    Placement(Arc<Kind>),
    /// The override that goes with a template of this kind.
    Override(Arc<Kind>),
}

/// All kinds that the hub watches for roots.
pub(crate) type Sources = BTreeMap<Arc<Kind>, Source>;

/// The types that a hub knows from the start.
pub fn federated_types() -> Vec<FederatedType> {
    limen_api::NATIVE
        .iter()
        .map(|&(api_version, kind, plural, namespaced)| {
            let group = api_version.split_once('/').map_or("core", |(group, _)| group);
            let spec = FederatedTypeSpec {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                plural: plural.to_owned(),
                scope: if namespaced { Scope::Namespaced } else { Scope::Cluster },
            };
            FederatedType::new(&format!("{plural}.{group}"), spec)
        })
        .collect()
}

/// The kind that a type federates.
pub(crate) fn leaf_kind(spec: &FederatedTypeSpec) -> Arc<Kind> {
    let namespaced = spec.scope == Scope::Namespaced;
    limen_api::kind((&spec.api_version, &spec.kind, &spec.plural, namespaced))
}

/// What the hub watches for one type.
pub(crate) fn sources_of(leaf: &Arc<Kind>) -> Vec<(Arc<Kind>, Source)> {
    let of = |crd: k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition| {
        let version = crd.spec.versions.first().map_or("v1", |version| version.name.as_str());
        let api_version = format!("{}/{version}", crd.spec.group);
        limen_api::kind((&api_version, &crd.spec.names.kind, &crd.spec.names.plural, leaf.namespaced))
    };
    let [template, placement, overriding] = limen_api::three_object_kinds(leaf).map(of);
    vec![
        (leaf.clone(), Source::Native),
        (of(limen_api::federated_kind(leaf)), Source::OneObject(leaf.clone())),
        (template.clone(), Source::Template(leaf.clone())),
        (placement, Source::Placement(template.clone())),
        (overriding, Source::Override(template)),
    ]
}
