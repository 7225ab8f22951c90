//! `FederatedIngress`: one way in to ingresses and services that members already have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use limen_core::compile::{BackendSource, Listed, ListedObject, PortName, Root, RootError};
use limen_core::global::{PathRule, PathType, Rule, TlsHosts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One way in to named ingresses or services of named clusters, each with a weight. It creates
/// nothing in them; where they are served is kept up to date from the clusters.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "limen.dev",
    version = "v1alpha1",
    kind = "FederatedIngress",
    plural = "federatedingresses",
    shortname = "fi",
    namespaced,
    status = "FederatedIngressStatus",
    printcolumn(name = "Hosts", type_ = "string", json_path = ".spec.hosts"),
    printcolumn(name = "Addresses", type_ = "string", json_path = ".status.addresses"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct FederatedIngressSpec {
    /// Hosts whose every path leads to the first backend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub hosts: Vec<String>,
    /// Hosts and paths that lead to backends by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub rules: Vec<Rule>,
    /// Hosts with certificates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub tls: Vec<TlsHosts>,
    /// What requests are sent to.
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map"))]
    #[schemars(extend("x-kubernetes-list-map-keys" = ["name"]))]
    pub backends: Vec<ListedBackend>,
}

/// Objects of members that serve the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedBackend {
    /// What rules call it.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The objects.
    #[schemars(length(min = 1, max = 256))]
    pub targets: Vec<ListedTarget>,
}

/// One object of one member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedTarget {
    /// The member.
    #[schemars(length(min = 1, max = 253))]
    pub cluster: String,
    /// An Ingress of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<ObjectReference>,
    /// A Service of it: of type LoadBalancer or NodePort, or any where pods can be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceReference>,
    /// Its share among those of the same backend; without any the nearest is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// The version that it runs, for canaries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub group: Option<String>,
}

/// An object of a member, in the namespace of the FederatedIngress: what is in other namespaces
/// belongs to others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectReference {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// A port of a Service of a member, by number or by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceReference {
    /// The Service.
    #[serde(flatten)]
    pub object: ObjectReference,
    /// The number of the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The name of the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub port_name: Option<String>,
}

/// What the hub says about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FederatedIngressStatus {
    /// `Ready`: whether anything can be sent anywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Where clients reach it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

/// What can be said of it without looking at anything else.
pub(crate) const RULES: [(&str, &str); 3] = [
    (
        "self.backends.all(backend, backend.targets.all(target, has(target.ingress) != has(target.service)))",
        "each target must have exactly one of ingress and service",
    ),
    (
        "self.backends.all(backend, backend.targets.all(target, !has(target.weight)) || (backend.targets.all(target, has(target.weight)) && backend.targets.exists(target, target.weight > 0)))",
        "the targets of a backend must all have a weight, not all zero, or none of them",
    ),
    (
        "self.backends.all(backend, backend.targets.all(target, !has(target.service) || has(target.service.port) != has(target.service.portName)))",
        "a service must have exactly one of port and portName",
    ),
];

impl FederatedIngress {
    /// What it asks for, in the words of edges.
    pub fn root(&self) -> Result<Root, RootError> {
        let object = serde_json::json!({"metadata": self.metadata});
        let mut root = Root::named(&object, "limen.dev/v1alpha1", "FederatedIngress");
        let first = self.spec.backends.first().map(|backend| backend.name.clone());
        let every_path = |host: &String| {
            let backend = first.clone()?;
            let path = PathRule { path: "/".to_owned(), path_type: PathType::Prefix, backend };
            Some(Rule { host: host.clone(), paths: vec![path] })
        };
        root.rules = self.spec.hosts.iter().filter_map(every_path).collect();
        root.rules.extend(self.spec.rules.iter().cloned());
        if root.rules.is_empty() {
            root.default_backend = first;
        }
        root.tls.clone_from(&self.spec.tls);
        for backend in &self.spec.backends {
            let listed = |target: &ListedTarget| target.listed(&root.namespace);
            let listed = backend.targets.iter().filter_map(listed).collect();
            root.backends.insert(backend.name.clone(), BackendSource::Listed(listed));
        }
        root.with_normal_hosts()
    }
}

impl ListedTarget {
    fn listed(&self, namespace: &str) -> Option<Listed> {
        let key = |object: &ObjectReference| (namespace.to_owned(), object.name.clone());
        let object = match (&self.ingress, &self.service) {
            (Some(ingress), _) => ListedObject::Ingress(key(ingress)),
            (None, Some(service)) => {
                let port = match (&service.port_name, service.port) {
                    (Some(name), _) => PortName::Name(name.clone()),
                    (None, Some(port)) => PortName::Number(port),
                    (None, None) => return None,
                };
                ListedObject::Service(key(&service.object), port)
            }
            (None, None) => return None,
        };
        let (cluster, group) = (self.cluster.clone(), self.group.clone());
        Some(Listed { cluster, object, weight: self.weight, group })
    }
}
