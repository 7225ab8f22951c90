//! The application that a new federation has: one Deployment, one Service, one Ingress.

use serde_json::{Value, json};

/// What the application is called.
pub(crate) const NAME: &str = "hello";

/// Pods in each cluster.
pub(crate) const PODS: usize = 2;

/// Its objects.
pub(crate) fn objects() -> [Value; 3] {
    let labels = json!({"app": NAME});
    let metadata = json!({"name": NAME, "namespace": "default"});
    [
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {
                "replicas": PODS,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{
                    "name": "zone-printer", "image": "zone-printer:v1",
                    "ports": [{"name": "http", "containerPort": 8080}],
                }]}},
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {"selector": labels,
                "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
        }),
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata,
            "spec": {"rules": [{"http": {"paths": [{"path": "/", "pathType": "Prefix",
                "backend": {"service": {"name": NAME, "port": {"number": 80}}}}]}}]},
        }),
    ]
}
