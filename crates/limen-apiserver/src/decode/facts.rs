//! Our decoding beside that of a real kube-apiserver: each value of an object is replaced by ones
//! that it may not be, or that vanish, and both servers must say the same of it.

use std::process::{Output, Stdio};

use crate::decode::{Expected, FieldValidation, Media, decode, normalize};
use anyhow::{Context, Result, ensure};
use limen_testbed::ControlPlane;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

struct Kind {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    path: &'static str,
    object: Value,
}

fn kinds() -> Vec<Kind> {
    let service = json!({"metadata": {"name": "a", "labels": {"a": "b"}}, "spec": {
        "selector": {"a": "b"},
        "ports": [{"name": "p", "port": 80, "targetPort": "http", "appProtocol": "x"}],
        "publishNotReadyAddresses": true,
    }});
    let ingress = json!({"metadata": {"name": "a"}, "spec": {
        "ingressClassName": "x",
        "rules": [{"host": "a.b", "http": {"paths": [
            {"path": "/", "pathType": "Prefix", "backend": {"service":
                {"name": "a", "port": {"number": 80}}}},
        ]}}],
    }});
    let deployment = json!({"metadata": {"name": "a"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "strategy": {"rollingUpdate": {"maxSurge": "25%"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}],
            "volumes": [{"name": "v", "emptyDir": {}}],
        }},
    }});
    let lease = json!({"metadata": {"name": "a"}, "spec": {
        "renewTime": "2024-01-01T00:00:00.000000Z",
    }});
    let secret = json!({"metadata": {"name": "a"}, "data": {"a": "YQ=="}});
    let of = |group, version, kind, path, object| Kind { group, version, kind, path, object };
    vec![
        of("", "v1", "Service", "/api/v1/namespaces/default/services", service),
        of("", "v1", "Secret", "/api/v1/namespaces/default/secrets", secret),
        of(
            "networking.k8s.io",
            "v1",
            "Ingress",
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
            ingress,
        ),
        of("apps", "v1", "Deployment", "/apis/apps/v1/namespaces/default/deployments", deployment),
        of(
            "coordination.k8s.io",
            "v1",
            "Lease",
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            lease,
        ),
    ]
}

/// The places of all values in an object.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(place, value)| (place.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    for (name, value) in inner {
        let place = format!("{at}/{name}");
        pointers(value, &place, found);
        found.push(place);
    }
}

async fn post(control_plane: &ControlPlane, path: &str, body: &str) -> Result<Output> {
    let path = format!("{path}?dryRun=All&fieldValidation=Strict");
    let mut kubectl = control_plane.kubectl();
    kubectl.args(["create", "--raw", &path, "-f", "-"]);
    kubectl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = kubectl.spawn()?;
    child.stdin.take().context("stdin")?.write_all(body.as_bytes()).await?;
    Ok(child.wait_with_output().await?)
}

async fn compare(control_plane: &ControlPlane, kind: &Kind, body: &str) -> Result<Option<String>> {
    let Kind { group, version, kind: name, path, .. } = kind;
    let expected = Expected { group, version, kind: name, custom: None };
    let ours = decode(body.as_bytes(), Media::Json, expected, FieldValidation::Strict);
    let output = post(control_plane, path, body).await?;
    let told = String::from_utf8_lossy(&output.stderr);
    let refusal = told.trim().strip_prefix("Error from server (BadRequest): ");
    Ok(match (ours, refusal) {
        (Err(error), refusal) if refusal == Some(error.message.as_str()) => None,
        (Ok(_), None) if output.status.success() => {
            let stored: Value = serde_json::from_slice(&output.stdout)?;
            let again = normalize(stored.clone(), expected).map_err(anyhow::Error::msg)?;
            (again.object != stored).then(|| format!("{body}\n  {stored}\n  {}", again.object))
        }
        // What is wrong otherwise is not the decoder's business.
        (Ok(_), None) => None,
        (ours, refusal) => Some(format!("{body}\n  ours {ours:?}\n  real {refusal:?}")),
    })
}

#[tokio::test]
async fn bodies_are_decoded_as_by_a_real_server() -> Result<()> {
    let control_plane = ControlPlane::start().await?;
    let mut differences = Vec::new();
    for kind in kinds() {
        let mut places = Vec::new();
        pointers(&kind.object, "", &mut places);
        let mut bodies = vec![kind.object.to_string()];
        for place in places {
            let present = kind.object.pointer(&place).cloned().unwrap_or_default();
            let wrong = if present.is_string() { json!(5) } else { json!("x") };
            for other in [wrong, Value::Null] {
                let mut object = kind.object.clone();
                *object.pointer_mut(&place).context("a place")? = other;
                bodies.push(object.to_string());
            }
            if present.is_object() {
                let mut object = kind.object.clone();
                object.pointer_mut(&place).context("a place")?["unknown"] = json!({});
                bodies.push(object.to_string());
            }
        }
        for body in bodies {
            differences.extend(compare(&control_plane, &kind, &body).await?);
        }
    }
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}
