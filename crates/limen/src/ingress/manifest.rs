//! The Ingress of a file, as a hub takes it: manifests that kubemci took apply unchanged.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::networking::v1::Ingress;
use serde_json::{Value, json};

use crate::roots::read_manifest;

/// Names a reserved address of Google's.
const STATIC_IP: &str = "kubernetes.io/ingress.global-static-ip-name";

/// Reads an Ingress, and says what it leaves out.
pub(super) fn read(
    file: &PathBuf,
    namespace: Option<&str>,
    static_ip: Option<&str>,
) -> Result<Ingress> {
    let object = read_manifest(file)?;
    complete(object, namespace, static_ip).with_context(|| format!("cannot use {}", file.display()))
}

fn complete(
    mut object: Value,
    namespace: Option<&str>,
    static_ip: Option<&str>,
) -> Result<Ingress> {
    match (object["apiVersion"].as_str(), object["kind"].as_str()) {
        (Some("networking.k8s.io/v1"), Some("Ingress")) => {}
        (Some("extensions/v1beta1" | "networking.k8s.io/v1beta1"), Some("Ingress")) => {
            modernise(&mut object);
        }
        (version, kind) => bail!(
            "it is {} {}, and an Ingress of networking.k8s.io/v1 or of v1beta1 is needed",
            version.unwrap_or("of no apiVersion, kind"),
            kind.unwrap_or("nothing")
        ),
    }
    match (object["metadata"]["namespace"].as_str(), namespace) {
        (Some(own), Some(wanted)) if own != wanted => bail!(
            "the namespace from the provided ingress {own:?} does not match the namespace {wanted:?}. You must pass '--namespace={own}' to perform this operation"
        ),
        (Some(_), _) => {}
        (None, wanted) => object["metadata"]["namespace"] = json!(wanted.unwrap_or("default")),
    }
    if let Some(wanted) = static_ip {
        let own = &mut object["metadata"]["annotations"][STATIC_IP];
        match own.as_str() {
            Some(own) if own != wanted => bail!(
                "the {STATIC_IP:?} from the provided ingress {own:?} does not match --static-ip={wanted}. You must pass '--static-ip={own}' to perform this operation"
            ),
            _ => *own = json!(wanted),
        }
    }
    let ingress: Ingress = serde_json::from_value(object).context("it is no Ingress")?;
    if ingress.metadata.name.as_deref().unwrap_or_default().is_empty() {
        bail!("it has no metadata.name");
    }
    if ingress.spec.is_none() {
        bail!("it has no spec");
    }
    Ok(ingress)
}

/// From the form of `v1beta1` to that of `v1`.
fn modernise(object: &mut Value) {
    object["apiVersion"] = json!("networking.k8s.io/v1");
    let Some(spec) = object["spec"].as_object_mut() else { return };
    if let Some(backend) = spec.remove("backend") {
        spec.insert("defaultBackend".to_owned(), modern_backend(backend));
    }
    let rules = spec.get_mut("rules").and_then(Value::as_array_mut);
    for rule in rules.into_iter().flatten() {
        let paths = rule.pointer_mut("/http/paths").and_then(Value::as_array_mut);
        for path in paths.into_iter().flatten() {
            let Some(path) = path.as_object_mut() else { continue };
            if let Some(backend) = path.remove("backend") {
                path.insert("backend".to_owned(), modern_backend(backend));
            }
            path.entry("pathType").or_insert(json!("ImplementationSpecific"));
            path.entry("path").or_insert(json!("/"));
        }
    }
}

fn modern_backend(mut backend: Value) -> Value {
    if backend["serviceName"].is_null() {
        return backend;
    }
    let port = backend["servicePort"].take();
    let by_number = port.as_str().and_then(|text| text.parse::<u16>().ok());
    let port = match (&port, by_number) {
        (Value::String(_), Some(number)) => json!({"number": number}),
        (Value::String(name), None) => json!({"name": name}),
        _ => json!({"number": port}),
    };
    json!({"service": {"name": backend["serviceName"].take(), "port": port}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn old() -> Value {
        json!({
            "apiVersion": "extensions/v1beta1", "kind": "Ingress",
            "metadata": {"name": "zone-printer", "annotations": {STATIC_IP: "printer"}},
            "spec": {
                "backend": {"serviceName": "zone-printer", "servicePort": 80},
                "rules": [{"http": {"paths": [
                    {"path": "/a", "backend": {"serviceName": "a", "servicePort": "http"}},
                    {"backend": {"serviceName": "b", "servicePort": "8080"}}]}}]}})
    }

    #[test]
    fn manifests_of_kubemci_are_brought_up_to_date() {
        let ingress = complete(old(), None, None).unwrap();
        let service = |name: &str, port: Value| json!({"service": {"name": name, "port": port}});
        let path = |path: &str, backend: Value| json!({"path": path, "pathType": "ImplementationSpecific", "backend": backend});
        assert_eq!(
            serde_json::to_value(ingress.spec).unwrap(),
            json!({
                "defaultBackend": service("zone-printer", json!({"number": 80})),
                "rules": [{"http": {"paths": [
                    path("/a", service("a", json!({"name": "http"}))),
                    path("/", service("b", json!({"number": 8080})))]}}]})
        );
        assert_eq!(ingress.metadata.namespace.as_deref(), Some("default"));
    }

    #[test]
    fn flags_fill_in_what_is_missing_and_never_contradict() {
        let ingress = complete(old(), Some("shop"), Some("printer")).unwrap();
        assert_eq!(ingress.metadata.namespace.as_deref(), Some("shop"));
        let mut plain = old();
        plain["metadata"] = json!({"name": "web", "namespace": "shop"});
        let ingress = complete(plain.clone(), None, Some("ip")).unwrap();
        assert_eq!(ingress.metadata.annotations.unwrap()[STATIC_IP], "ip");
        for (object, namespace, static_ip, words) in [
            (plain, Some("other"), None, "You must pass '--namespace=shop'"),
            (old(), None, Some("other"), "You must pass '--static-ip=printer'"),
            (json!({"apiVersion": "v1", "kind": "Service"}), None, None, "v1 Service"),
            (json!({"kind": "Ingress"}), None, None, "of no apiVersion"),
        ] {
            let error = complete(object, namespace, static_ip).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
