//! Managers of an object other than Limen.

use std::fmt;

use serde_json::Value;

/// A controller or declarative manager that has an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OtherManager {
    /// The owner that controls it, as kind and name.
    Controller(String),
    /// A Helm release.
    Helm,
    /// An Argo CD application.
    ArgoCd,
    /// A Flux Kustomization or HelmRelease.
    Flux,
}

impl fmt::Display for OtherManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller(owner) => write!(f, "its controller {owner}"),
            Self::Helm => f.write_str("Helm"),
            Self::ArgoCd => f.write_str("Argo CD"),
            Self::Flux => f.write_str("Flux"),
        }
    }
}

impl OtherManager {
    /// The manager that the metadata of an object names.
    pub fn of(metadata: &Value) -> Option<Self> {
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let controller = owners.into_iter().find(|owner| owner["controller"] == true);
        if let Some(owner) = controller {
            let text = |field: &str| owner[field].as_str().unwrap_or_default();
            return Some(Self::Controller(format!("{} {}", text("kind"), text("name"))));
        }
        let (labels, annotations) = (&metadata["labels"], &metadata["annotations"]);
        if labels["app.kubernetes.io/managed-by"] == "Helm"
            || annotations.get("meta.helm.sh/release-name").is_some()
        {
            return Some(Self::Helm);
        }
        if has(labels, "argocd.argoproj.io/") || has(annotations, "argocd.argoproj.io/") {
            return Some(Self::ArgoCd);
        }
        let flux = ["kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/"];
        flux.iter().any(|prefix| has(labels, prefix)).then_some(Self::Flux)
    }
}

/// Whether a map has a key with a prefix.
fn has(map: &Value, prefix: &str) -> bool {
    map.as_object().is_some_and(|map| map.keys().any(|key| key.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn managers_are_known_by_their_marks() {
        let owner = |controller: Value| {
            json!({"ownerReferences": [
                {"kind": "ReplicaSet", "name": "web", "controller": controller}]})
        };
        let controller = OtherManager::Controller("ReplicaSet web".to_owned());
        for (metadata, manager) in [
            (json!({}), None),
            (json!({"labels": {"app": "web"}, "annotations": {"note": "x"}}), None),
            (owner(json!(true)), Some(controller)),
            (owner(json!(false)), None),
            (owner(Value::Null), None),
            (json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}}), Some(OtherManager::Helm)),
            (json!({"labels": {"app.kubernetes.io/managed-by": "me"}}), None),
            (
                json!({"annotations": {"meta.helm.sh/release-name": "web"}}),
                Some(OtherManager::Helm),
            ),
            (
                json!({"annotations": {"argocd.argoproj.io/tracking-id": "a"}}),
                Some(OtherManager::ArgoCd),
            ),
            (json!({"labels": {"argocd.argoproj.io/instance": "a"}}), Some(OtherManager::ArgoCd)),
            (
                json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "a"}}),
                Some(OtherManager::Flux),
            ),
            (json!({"labels": {"helm.toolkit.fluxcd.io/name": "a"}}), Some(OtherManager::Flux)),
        ] {
            assert_eq!(OtherManager::of(&metadata), manager, "{metadata}");
        }
    }
}
