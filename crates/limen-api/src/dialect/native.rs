//! Native objects, with annotations of federation v1 or under a `PlacementPolicy`.

use std::sync::Arc;

use limen_core::federated::{Federated, Kind, OnConflict, OnDelete, Placement};
use limen_core::leaf::HUB_LABEL;
use limen_core::rollout::Wave;
use limen_core::selector::{Labels, Selector};
use serde_json::Value;

use super::Preferences;
use super::selector::{self, label_selector, placement};
use super::{DialectError, identity, overrides, preferences, uid};
use crate::placement_policy::{
    OnConflictSpec, OnDeleteSpec, PlacementPolicy, PlacementPolicySpec, RootSelector,
};
use crate::{GATEWAYS, NAMESPACE};

/// Says of one object whether it is to be federated.
const FEDERATE: &str = "limen.dev/federate";

/// Whose API the hub is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// Limen's own: everything of a federated kind is a root.
    Embedded,
    /// Somebody's Kubernetes: only what was given to Limen is a root.
    Existing,
}

/// Whether an object is a root. `namespace_labels` are those of its namespace.
pub fn is_root(
    object: &Value,
    kind: &Kind,
    home: Home,
    governed: bool,
    namespace_labels: &Labels,
) -> bool {
    if belongs_to_the_cluster(object, kind) {
        return false;
    }
    let said = |key: &str| {
        let metadata = &object["metadata"];
        metadata["annotations"][key].as_str().or(metadata["labels"][key].as_str())
    };
    match (said(FEDERATE), home) {
        (Some("false"), _) => false,
        (_, Home::Embedded) => true,
        (_, Home::Existing) => {
            governed || namespace_labels.get(FEDERATE).is_some_and(|value| value == "true")
        }
    }
}

/// Objects that a cluster makes for itself, or that Limen does.
fn belongs_to_the_cluster(object: &Value, kind: &Kind) -> bool {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let namespace = match kind.namespaced {
        true => metadata["namespace"].as_str().unwrap_or_default(),
        false if kind.kind == "Namespace" => name,
        false => "",
    };
    let controlled = metadata["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|owner| owner["controller"] == true);
    let made_by_cluster = match (kind.group(), kind.kind.as_str()) {
        ("", "Namespace") => name == "default",
        ("", "Service") => namespace == "default" && name == "kubernetes",
        ("", "ConfigMap") => name == "kube-root-ca.crt",
        ("", "Secret") => object["type"].as_str().is_some_and(|secret_type| {
            ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"]
                .contains(&secret_type)
        }),
        _ => false,
    };
    let ours = [NAMESPACE, GATEWAYS].contains(&namespace);
    // A hub that is a member of another, or of itself, has leaves that are nobody's roots.
    let leaf = metadata["labels"][HUB_LABEL].is_string();
    leaf || controlled || made_by_cluster || ours || namespace.starts_with("kube-")
}

/// Whether a policy of the same namespace is about an object.
pub fn governs(
    policy: &PlacementPolicy,
    object: &Value,
    kind: &Kind,
) -> Result<bool, DialectError> {
    if policy.spec.roots.is_empty() {
        return Ok(true);
    }
    for (index, root) in policy.spec.roots.iter().enumerate() {
        if selects(root, object, kind, &format!("spec.roots[{index}]"))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What is wrong with a policy, whichever roots there are.
pub fn check(policy: &PlacementPolicy) -> Result<(), DialectError> {
    let spec = &policy.spec;
    for (index, root) in spec.roots.iter().enumerate() {
        if let Some(selector) = &root.label_selector {
            label_selector(selector, &format!("spec.roots[{index}].labelSelector"))?;
        }
    }
    placement(&spec.placement, "spec.placement")?;
    overrides(&spec.overrides, "spec.overrides")?;
    let waves = spec.rollout.iter().flat_map(|rollout| &rollout.waves);
    for (index, wave) in waves.enumerate() {
        placement(wave, &format!("spec.rollout.waves[{index}]"))?;
    }
    Ok(())
}

fn selects(
    root: &RootSelector,
    object: &Value,
    kind: &Kind,
    field: &str,
) -> Result<bool, DialectError> {
    let fits =
        |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
    let labels: Labels =
        serde_json::from_value(object["metadata"]["labels"].clone()).unwrap_or_default();
    let labelled = match &root.label_selector {
        Some(selector) => {
            label_selector(selector, &format!("{field}.labelSelector"))?.matches(&labels)
        }
        None => true,
    };
    Ok(labelled
        && fits(&root.api_version, &kind.api_version)
        && fits(&root.kind, &kind.kind)
        && fits(&root.name, object["metadata"]["name"].as_str().unwrap_or_default()))
}

/// The model of a native object. What is written on the object itself beats the policy.
pub fn federate(
    object: &Value,
    kind: &Arc<Kind>,
    policy: Option<&PlacementPolicy>,
) -> Result<Federated, DialectError> {
    let annotations = &object["metadata"]["annotations"];
    if let Some(annotation) = preferences::annotation(&kind.kind)
        && let Some(text) = annotations[annotation].as_str()
    {
        Preferences::parse(text, annotation)?;
    }
    let spec = policy.map(|policy| &policy.spec);
    let placement = match (annotations[selector::ANNOTATION].as_str(), spec) {
        (Some(text), _) => Placement::Selector(selector::parse(text)?),
        (None, Some(spec)) => placement(&spec.placement, "spec.placement")?,
        (None, None) => Placement::Selector(Selector::default()),
    };
    let waves = spec.and_then(|spec| spec.rollout.as_ref()).into_iter().flat_map(|rollout| {
        rollout.waves.iter().enumerate().map(|(index, wave)| {
            let clusters = selector::placement(wave, &format!("spec.rollout.waves[{index}]"))?;
            Ok(Wave { clusters })
        })
    });
    let id = identity(object, kind);
    Ok(Federated {
        root: id.clone(),
        root_uid: uid(object),
        leaf: id,
        template: object.into(),
        placement,
        overrides: overrides(spec.map_or(&[], |spec| &spec.overrides), "spec.overrides")?,
        on_conflict: match on_conflict(kind, spec.and_then(|spec| spec.on_conflict)) {
            OnConflict::Adopt if spec.is_some_and(|spec| names(spec, object, kind)) => {
                OnConflict::AdoptNamed
            }
            other => other,
        },
        on_delete: match spec.and_then(|spec| spec.on_delete) {
            Some(OnDeleteSpec::Orphan) => OnDelete::Orphan,
            Some(OnDeleteSpec::Cascade) | None => OnDelete::Cascade,
        },
        waves: waves.collect::<Result<_, _>>()?,
    })
}

/// Whether a policy that says Adopt names this very object, by kind and name.
fn names(spec: &PlacementPolicySpec, object: &Value, kind: &Kind) -> bool {
    spec.on_conflict == Some(OnConflictSpec::Adopt)
        && spec.roots.iter().any(|root| {
            root.kind.as_ref() == Some(&kind.kind)
                && root.name.as_deref().is_some_and(|name| object["metadata"]["name"] == name)
        })
}

/// What is done about objects that a member already has, if nobody says.
pub(super) fn on_conflict(kind: &Kind, said: Option<OnConflictSpec>) -> OnConflict {
    match (said, kind.group(), kind.kind.as_str()) {
        (Some(OnConflictSpec::Adopt), ..) => OnConflict::Adopt,
        (Some(OnConflictSpec::Abort), ..) => OnConflict::Abort,
        (None, "networking.k8s.io", "Ingress") => OnConflict::Adopt,
        (None, "", "Namespace") => OnConflict::Share,
        (None, ..) => OnConflict::Abort,
    }
}
