//! The kinds whose objects are roots by themselves.

use std::sync::Arc;

use limen_core::federated::Kind;

/// API version, kind, plural, namespaced. Namespaces first: what is in them comes after them.
pub const NATIVE: [(&str, &str, &str, bool); 11] = [
    ("v1", "Namespace", "namespaces", false),
    ("v1", "ConfigMap", "configmaps", true),
    ("v1", "Secret", "secrets", true),
    ("v1", "Service", "services", true),
    ("networking.k8s.io/v1", "Ingress", "ingresses", true),
    ("apps/v1", "Deployment", "deployments", true),
    ("apps/v1", "ReplicaSet", "replicasets", true),
    ("apps/v1", "StatefulSet", "statefulsets", true),
    ("apps/v1", "DaemonSet", "daemonsets", true),
    ("batch/v1", "Job", "jobs", true),
    ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", true),
];

/// A kind from its row.
pub fn kind((api_version, kind, plural, namespaced): (&str, &str, &str, bool)) -> Arc<Kind> {
    Arc::new(Kind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        namespaced,
    })
}
