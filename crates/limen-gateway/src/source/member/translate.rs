//! An Ingress with its Services and EndpointSlices to a compiled root. Pure.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, IngressBackend, IngressClass};
use limen_core::global::{
    Address, Backend, ClientRules, Global, PathRule, PathType, Protocol, RootReference, Rule,
    Target, TlsHosts,
};
use limen_core::locality::Locality;

use limen_api::source::Key;

/// The annotation that named the class before there was a field for it.
const OLD_CLASS: &str = "kubernetes.io/ingress.class";
/// Marks the class of what names none.
const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";
/// Asks for redirects from HTTP to HTTPS; the specification has no field for it.
const REDIRECT: &str = "limen.dev/redirect-to-https";
/// The label that ties an EndpointSlice to its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Whether this gateway is the controller of an Ingress.
pub(super) fn is_ours<'a>(
    ingress: &Ingress,
    class: &str,
    mut classes: impl Iterator<Item = &'a IngressClass>,
) -> bool {
    let named = ingress.spec.as_ref().and_then(|spec| spec.ingress_class_name.as_deref());
    let annotation = || Some(ingress.metadata.annotations.as_ref()?.get(OLD_CLASS)?.as_str());
    if let Some(named) = named.or_else(annotation) {
        return named == class;
    }
    classes.any(|other| {
        let marked = other.metadata.annotations.as_ref().and_then(|all| all.get(DEFAULT_CLASS));
        other.metadata.name.as_deref() == Some(class) && marked.is_some_and(|mark| mark == "true")
    })
}

/// EndpointSlices by the Service they belong to.
pub(super) fn by_service<'a>(
    slices: impl Iterator<Item = &'a EndpointSlice>,
) -> HashMap<Key, Vec<&'a EndpointSlice>> {
    let mut found: HashMap<Key, Vec<_>> = HashMap::new();
    for slice in slices {
        let labels = slice.metadata.labels.as_ref();
        if let Some(service) = labels.and_then(|labels| labels.get(SERVICE_NAME)) {
            let namespace = slice.metadata.namespace.clone().unwrap_or_default();
            found.entry((namespace, service.clone())).or_default().push(slice);
        }
    }
    found
}

/// The cluster that an Ingress is in.
pub(super) struct Place<'a> {
    pub(super) cluster: &'a str,
    pub(super) locality: &'a Locality,
    pub(super) services: &'a BTreeMap<Key, Service>,
    pub(super) slices: HashMap<Key, Vec<&'a EndpointSlice>>,
}

impl Place<'_> {
    /// The compiled form of an Ingress.
    pub(super) fn global(&self, ingress: &Ingress) -> Global {
        let namespace = ingress.metadata.namespace.clone().unwrap_or_default();
        let spec = ingress.spec.clone().unwrap_or_default();
        let mut backends: Vec<Backend> = Vec::new();
        let mut add = |backend: &IngressBackend| {
            let name = backend_name(backend);
            if !backends.iter().any(|known| known.name == name) {
                let targets = self.target(&namespace, backend).into_iter().collect();
                backends.push(Backend { name: name.clone(), targets });
            }
            name
        };
        let rules = spec.rules.iter().flatten().map(|rule| Rule {
            host: rule.host.clone().unwrap_or_default(),
            paths: rule
                .http
                .iter()
                .flat_map(|http| &http.paths)
                .map(|path| PathRule {
                    path: path.path.clone().unwrap_or_else(|| "/".to_owned()),
                    path_type: match path.path_type.as_str() {
                        "Exact" => PathType::Exact,
                        "Prefix" => PathType::Prefix,
                        _ => PathType::ImplementationSpecific,
                    },
                    backend: add(&path.backend),
                })
                .collect(),
        });
        let rules = rules.collect();
        let default_backend = spec.default_backend.as_ref().map(&mut add);
        let annotations = ingress.metadata.annotations.as_ref();
        let redirect = annotations.and_then(|all| all.get(REDIRECT)).is_some_and(|v| v == "true");
        Global {
            root: Some(RootReference {
                api_version: "networking.k8s.io/v1".to_owned(),
                kind: "Ingress".to_owned(),
                name: ingress.metadata.name.clone().unwrap_or_default(),
            }),
            rules,
            default_backend,
            tls: spec
                .tls
                .iter()
                .flatten()
                .map(|tls| TlsHosts {
                    hosts: tls.hosts.clone().unwrap_or_default(),
                    secret_name: tls.secret_name.clone().filter(|name| !name.is_empty()),
                })
                .collect(),
            backends,
            client: ClientRules { redirect_to_https: Some(redirect), ..ClientRules::default() },
            ..Global::default()
        }
    }

    /// The way in for one backend; nothing if there is no such Service or port.
    fn target(&self, namespace: &str, backend: &IngressBackend) -> Option<Target> {
        let wanted = backend.service.as_ref()?;
        let key = (namespace.to_owned(), wanted.name.clone());
        let service = self.services.get(&key)?.spec.as_ref()?;
        let port = wanted.port.as_ref()?;
        let port = service.ports.iter().flatten().find(|candidate| match &port.name {
            Some(name) if !name.is_empty() => candidate.name.as_ref() == Some(name),
            _ => Some(candidate.port) == port.number,
        })?;
        let addresses = match &service.external_name {
            Some(name) if service.type_.as_deref() == Some("ExternalName") => {
                vec![Address { host: name.clone(), port: u16::try_from(port.port).ok()? }]
            }
            _ => self.addresses(&key, port),
        };
        Some(Target {
            cluster: self.cluster.to_owned(),
            locality: self.locality.clone(),
            ready_endpoints: u32::try_from(addresses.len()).ok(),
            addresses,
            protocol: match port.app_protocol.as_deref() {
                Some("kubernetes.io/h2c") => Protocol::H2c,
                Some("https") => Protocol::Https,
                _ => Protocol::Http,
            },
            ..Target::default()
        })
    }

    fn addresses(&self, service: &Key, port: &ServicePort) -> Vec<Address> {
        let mut found = Vec::new();
        for slice in self.slices.get(service).into_iter().flatten() {
            // Ports of a slice go by the names that the Service gives them.
            let named = |name: &Option<String>| name.clone().unwrap_or_default();
            let ports = slice.ports.iter().flatten();
            let number = ports.filter(|open| named(&open.name) == named(&port.name));
            let number = number.filter_map(|open| u16::try_from(open.port?).ok()).next();
            let Some(number) = number.filter(|_| slice.address_type != "FQDN") else { continue };
            for endpoint in slice.endpoints.iter().flatten() {
                let conditions = endpoint.conditions.as_ref();
                let ready = conditions.and_then(|conditions| conditions.ready).unwrap_or(true);
                if ready && let Some(host) = endpoint.addresses.first() {
                    found.push(Address { host: host.clone(), port: number });
                }
            }
        }
        found.sort();
        found.dedup();
        found
    }
}

/// What rules call a backend: Service and port.
fn backend_name(backend: &IngressBackend) -> String {
    if let Some(resource) = &backend.resource {
        // Nothing serves these; the name shows up in the problem that says so.
        return format!("{}/{}", resource.kind, resource.name);
    }
    let Some(service) = &backend.service else { return String::new() };
    let port = service.port.as_ref();
    let name = port.and_then(|port| port.name.clone()).filter(|name| !name.is_empty());
    let number = || port.and_then(|port| port.number).unwrap_or_default().to_string();
    format!("{}:{}", service.name, name.unwrap_or_else(number))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_ingress_leads_straight_to_ready_pods() {
        let ingress: Ingress = parse(json!({
            "metadata": { "name": "web", "namespace": "shop" },
            "spec": {
                "defaultBackend": { "service": { "name": "web", "port": { "name": "http" } } },
                "tls": [{ "hosts": ["a.test"], "secretName": "cert" }],
                "rules": [{ "host": "a.test", "http": { "paths": [
                    { "path": "/", "pathType": "Prefix",
                      "backend": { "service": { "name": "web", "port": { "number": 80 } } } },
                    { "path": "/gone", "pathType": "Exact",
                      "backend": { "service": { "name": "gone", "port": { "number": 80 } } } },
                ] } }],
            },
        }));
        let service: Service = parse(json!({ "spec": { "ports": [
            { "name": "http", "port": 80, "targetPort": 8080, "appProtocol": "kubernetes.io/h2c" },
            { "name": "other", "port": 81 },
        ] } }));
        let slice: EndpointSlice = parse(json!({
            "metadata": { "name": "web-1", "namespace": "shop",
                          "labels": { "kubernetes.io/service-name": "web" } },
            "addressType": "IPv4",
            "ports": [{ "name": "other", "port": 9 }, { "name": "http", "port": 8080 }],
            "endpoints": [
                { "addresses": ["10.0.0.2"], "conditions": { "ready": true } },
                { "addresses": ["10.0.0.1"], "conditions": {} },
                { "addresses": ["10.0.0.3"], "conditions": { "ready": false } },
            ],
        }));
        let services = BTreeMap::from([(("shop".to_owned(), "web".to_owned()), service)]);
        let place = Place {
            cluster: "c1",
            locality: &Locality::default(),
            services: &services,
            slices: by_service([&slice].into_iter()),
        };
        let global = place.global(&ingress);
        let names: Vec<_> = global.backends.iter().map(|backend| backend.name.as_str()).collect();
        assert_eq!(names, ["web:80", "gone:80", "web:http"]);
        assert_eq!(global.default_backend.as_deref(), Some("web:http"));
        let target = &global.backends[0].targets[0];
        let addresses: Vec<_> =
            target.addresses.iter().map(|to| format!("{}:{}", to.host, to.port)).collect();
        assert_eq!(addresses, ["10.0.0.1:8080", "10.0.0.2:8080"]);
        assert_eq!((target.protocol, target.ready_endpoints), (Protocol::H2c, Some(2)));
        assert_eq!(global.backends[2].targets[0].addresses, target.addresses);
        assert!(global.backends[1].targets.is_empty(), "there is no such Service");
        assert_eq!(global.tls[0].secret_name.as_deref(), Some("cert"));
    }

    #[test]
    fn an_ingress_belongs_to_the_class_it_names_or_to_the_default() {
        let class = |name: &str, default: &str| -> IngressClass {
            let annotations = json!({ DEFAULT_CLASS: default });
            parse(json!({ "metadata": { "name": name, "annotations": annotations } }))
        };
        let named: Ingress = parse(json!({ "spec": { "ingressClassName": "limen" } }));
        let old: Ingress = parse(json!({ "metadata": { "annotations": { OLD_CLASS: "limen" } } }));
        let other: Ingress = parse(json!({ "spec": { "ingressClassName": "nginx" } }));
        let none: Ingress = parse(json!({ "spec": {} }));
        let (default, not_default) = (class("limen", "true"), class("limen", "false"));
        for (ingress, class, ours) in [
            (&named, &not_default, true),
            (&old, &not_default, true),
            (&other, &default, false),
            (&none, &default, true),
            (&none, &not_default, false),
        ] {
            assert_eq!(is_ours(ingress, "limen", [class].into_iter()), ours, "{ingress:?}");
        }
    }
}
