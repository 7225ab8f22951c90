//! `--validate`: whether clusters have the Services that an Ingress leads to. Node ports need not
//! be the same everywhere, and every backend is looked at, not only the default one.

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{Ingress, IngressBackend, ServiceBackendPort};
use kube::{Api, Client, ResourceExt};
use limen_api::error_text;

use super::clusters::Chosen;
use crate::connection::config;

/// Refuses an Ingress whose Services are missing somewhere.
pub(super) async fn validate(
    hub: &Client,
    kubeconfig: Option<&PathBuf>,
    ingress: &Ingress,
    clusters: &[Chosen],
) -> Result<()> {
    let namespace = ingress.namespace().unwrap_or_default();
    let wanted = backends(ingress);
    if wanted.is_empty() {
        bail!("the ingress leads to no Service: give it a defaultBackend or rules");
    }
    let mut problems = Vec::new();
    for (service, port) in &wanted {
        // What the hub has, it brings to the clusters.
        let on_hub: Api<Service> = Api::namespaced(hub.clone(), &namespace);
        if on_hub.get_opt(service).await.is_ok_and(|found| found.is_some()) {
            continue;
        }
        for Chosen { cluster, context } in clusters {
            let Some(context) = context else { continue };
            let client = Client::try_from(config(kubeconfig, Some(context)).await?)
                .map_err(|error| anyhow!(error_text(&error)))?;
            let there: Api<Service> = Api::namespaced(client, &namespace);
            let problem = match there.get_opt(service).await {
                Err(error) => Some(format!("it cannot be asked: {error}")),
                Ok(None) => Some("there is none".to_owned()),
                Ok(Some(found)) => lack(&found, port),
            };
            problems
                .extend(problem.map(|why| format!("{namespace}/{service} in {cluster}: {why}")));
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => bail!(
            "Services are missing ({}); make them there or on the hub, or go on with --validate=false",
            problems.join("; ")
        ),
    }
}

/// Every Service and port that an Ingress leads to, once.
fn backends(ingress: &Ingress) -> Vec<(String, ServiceBackendPort)> {
    let Some(spec) = &ingress.spec else { return Vec::new() };
    let rules = spec.rules.iter().flatten().filter_map(|rule| rule.http.as_ref());
    let paths = rules.flat_map(|http| &http.paths).map(|path| &path.backend);
    let mut found: Vec<(String, ServiceBackendPort)> = Vec::new();
    for backend in spec.default_backend.iter().chain(paths) {
        let IngressBackend { service: Some(service), .. } = backend else { continue };
        let one = (service.name.clone(), service.port.clone().unwrap_or_default());
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// What a Service lacks.
fn lack(service: &Service, port: &ServiceBackendPort) -> Option<String> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref());
    let fits = |one: &k8s_openapi::api::core::v1::ServicePort| match (&port.name, port.number) {
        (Some(name), _) => one.name.as_ref() == Some(name),
        (None, Some(number)) => one.port == number,
        (None, None) => true,
    };
    if ports.into_iter().flatten().any(fits) {
        return None;
    }
    let number = port.number.map(|number| number.to_string());
    Some(format!("it has no port {}", port.name.clone().or(number).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_backend_is_looked_at_once() {
        let backend = |name: &str, port| json!({"service": {"name": name, "port": port}});
        let path = |backend| json!({"pathType": "Prefix", "path": "/", "backend": backend});
        let ingress: Ingress = serde_json::from_value(json!({"spec": {
            "defaultBackend": backend("web", json!({"number": 80})),
            "rules": [{"http": {"paths": [
                path(backend("web", json!({"number": 80}))),
                path(backend("api", json!({"name": "http"})))]}}]}}))
        .unwrap();
        let names: Vec<String> = backends(&ingress).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["web", "api"]);
    }

    #[test]
    fn a_service_must_have_the_port() {
        let service: Service =
            serde_json::from_value(json!({"spec": {"ports": [{"name": "http", "port": 80}]}}))
                .unwrap();
        let port = |value| serde_json::from_value::<ServiceBackendPort>(value).unwrap();
        assert_eq!(lack(&service, &port(json!({"number": 80}))), None);
        assert_eq!(lack(&service, &port(json!({"name": "http"}))), None);
        let why = lack(&service, &port(json!({"number": 81})));
        assert_eq!(why.as_deref(), Some("it has no port 81"));
    }
}
