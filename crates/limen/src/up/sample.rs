//! The application that a new federation has: one Deployment, one Service, one Ingress, and a
//! policy that has gateways look often whether clusters answer.

use serde_json::{Value, json};

/// What the application is called.
pub(crate) const NAME: &str = "hello";

/// The name that the DNS server has for it.
pub(crate) const HOST: &str = "hello.limen.test";

/// Pods in each cluster.
pub(crate) const PODS: usize = 2;

/// Its objects.
pub(crate) fn objects() -> [Value; 4] {
    let labels = json!({"app": NAME});
    let metadata = json!({"name": NAME, "namespace": "default"});
    let http = json!({"paths": [{"path": "/", "pathType": "Prefix",
        "backend": {"service": {"name": NAME, "port": {"number": 80}}}}]});
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
            "spec": {"rules": [{"host": HOST, "http": http}, {"http": http}]},
        }),
        // Without a target it is for every root of the namespace that has no other.
        json!({
            "apiVersion": "limen.dev/v1alpha1", "kind": "TrafficPolicy",
            "metadata": {"name": "limen-up", "namespace": "default"},
            "spec": {
                "healthCheck": {"kind": "Tcp", "intervalMilliseconds": 500},
                "outliers": {"ejectSeconds": 1},
            },
        }),
    ]
}
