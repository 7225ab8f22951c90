//! Our OpenAPI documents beside those of a real kube-apiserver: the same definitions and
//! operations, but for the differences that are listed here.

use std::collections::BTreeSet;

use crate::openapi::Document;
use crate::resource::{Columns, LazySchema, ResourceType, Rules, ScalePaths};
use crate::schema::builtin;
use anyhow::{Context, Result, ensure};
use limen_testbed::ControlPlane;
use serde_json::{Value, json};

/// Group, version, kind, plural, and of `namespaced`, `status` and `scale` those that hold.
const RESOURCES: &[(&str, &str, &str, &str, &str)] = &[
    ("", "v1", "Namespace", "namespaces", "status"),
    ("", "v1", "Service", "services", "namespaced status"),
    ("", "v1", "Endpoints", "endpoints", "namespaced"),
    ("", "v1", "ConfigMap", "configmaps", "namespaced"),
    ("", "v1", "Secret", "secrets", "namespaced"),
    ("", "v1", "ServiceAccount", "serviceaccounts", "namespaced"),
    ("", "v1", "Event", "events", "namespaced"),
    ("", "v1", "Pod", "pods", "namespaced status"),
    ("", "v1", "Node", "nodes", "status"),
    ("", "v1", "LimitRange", "limitranges", "namespaced"),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", "namespaced status"),
    ("", "v1", "ResourceQuota", "resourcequotas", "namespaced status"),
    ("apps", "v1", "Deployment", "deployments", "namespaced status scale"),
    ("apps", "v1", "ReplicaSet", "replicasets", "namespaced status scale"),
    ("apps", "v1", "StatefulSet", "statefulsets", "namespaced status scale"),
    ("apps", "v1", "DaemonSet", "daemonsets", "namespaced status"),
    ("batch", "v1", "Job", "jobs", "namespaced status"),
    ("batch", "v1", "CronJob", "cronjobs", "namespaced status"),
    (
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "namespaced status",
    ),
    ("networking.k8s.io", "v1", "Ingress", "ingresses", "namespaced status"),
    ("networking.k8s.io", "v1", "IngressClass", "ingressclasses", ""),
    ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", "namespaced"),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", "namespaced"),
    ("coordination.k8s.io", "v1", "Lease", "leases", "namespaced"),
    ("events.k8s.io", "v1", "Event", "events", "namespaced"),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", "namespaced status"),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", "namespaced"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", ""),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", "namespaced"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", ""),
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "status",
    ),
    ("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", ""),
    ("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", ""),
    ("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", ""),
    ("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", ""),
    ("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", ""),
    (
        "authorization.k8s.io",
        "v1",
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        "namespaced",
    ),
];

/// What we publish otherwise, and why.
const DIFFERENCES: &[(&str, &str)] = &[
    // The real server lists every group and version that knows the type; clients look for none.
    ("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", "x-kubernetes-group-version-kind"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Status", "x-kubernetes-group-version-kind"),
];

/// Parameters that we do not know: an alpha feature.
const UNKNOWN_PARAMETERS: &[&str] = &["shardSelector"];

fn resource(row: &(&str, &str, &str, &str, &str)) -> ResourceType {
    let (group, version, kind, plural, traits) = row;
    let has = |wanted: &str| traits.split(' ').any(|name| name == wanted);
    let scale = ScalePaths { spec: String::new(), status: String::new(), selector: None };
    ResourceType {
        group: (*group).to_owned(),
        version: (*version).to_owned(),
        kind: (*kind).to_owned(),
        list_kind: format!("{kind}List"),
        plural: (*plural).to_owned(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: has("namespaced"),
        has_status: has("status"),
        scale: has("scale").then_some(scale),
        columns: Columns::Paths(Vec::new()),
        rules: Rules::NONE,
        schema: LazySchema::new(|| builtin("")),
        custom: false,
        selectable_paths: Vec::new(),
        published: None,
        among: None,
    }
}

/// A schema without its prose; order is of no account where OpenAPI says so.
fn facts(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let kept = fields
                .iter()
                .filter(|(name, value)| !(*name == "description" && value.is_string()));
            kept.map(|(name, value)| {
                let mut value = facts(value);
                if matches!(name.as_str(), "required" | "enum")
                    && let Some(names) = value.as_array_mut()
                {
                    names.sort_by_key(Value::to_string);
                }
                (name.clone(), value)
            })
            .collect()
        }
        Value::Array(items) => items.iter().map(facts).collect(),
        other => other.clone(),
    }
}

fn compare_definitions(ours: &Value, real: &Value, found: &mut Vec<String>) {
    let schemas = |document: &Value| document["components"]["schemas"].as_object().cloned();
    let real = schemas(real).unwrap_or_default();
    for (name, ours) in schemas(ours).unwrap_or_default() {
        let Some(real) = real.get(&name) else {
            found.push(format!("{name} is not published by the real server"));
            continue;
        };
        let (mut ours, mut real) = (facts(&ours), facts(real));
        for (_, key) in DIFFERENCES.iter().filter(|(definition, _)| *definition == name) {
            for side in [&mut ours, &mut real] {
                side.as_object_mut().map(|fields| fields.remove(*key));
            }
        }
        if ours == real {
            continue;
        }
        let keys = |value: &Value| -> Vec<String> {
            value.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
        };
        let (our_properties, real_properties) = (&ours["properties"], &real["properties"]);
        let mut names = keys(our_properties);
        names.extend(keys(real_properties));
        names.dedup();
        for field in names {
            let (ours, real) = (&our_properties[&field], &real_properties[&field]);
            if ours != real {
                found.push(format!("{name}.{field}\n  ours {ours}\n  real {real}"));
            }
        }
        let mut names = keys(&ours);
        names.extend(keys(&real));
        for key in names.iter().filter(|key| *key != "properties") {
            if ours[key] != real[key] {
                found.push(format!("{name} {key}\n  ours {}\n  real {}", ours[key], real[key]));
            }
        }
    }
}

/// Names of an operation's parameters, without those that we do not know. The real server puts
/// those that all operations of a path share beside these.
fn parameters<'a>(item: &'a Value, method: &str) -> BTreeSet<&'a str> {
    let lists = [&item["parameters"], &item[method]["parameters"]];
    let all = lists.into_iter().filter_map(Value::as_array).flatten();
    let names = all.filter_map(|parameter| parameter["name"].as_str());
    names.filter(|name| !UNKNOWN_PARAMETERS.contains(name)).collect()
}

/// Media types other than protobuf, which we do not speak.
fn media(operation: &Value) -> Vec<&str> {
    let content = &operation["responses"]["200"]["content"];
    let names = content.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    names.filter(|name| !name.contains("protobuf")).collect()
}

fn compare_operations(ours: &Value, real: &Value, found: &mut Vec<String>) {
    for (path, item) in ours["paths"].as_object().into_iter().flatten() {
        for (method, ours) in item.as_object().into_iter().flatten() {
            let real_item = &real["paths"][path];
            let real = &real_item[method];
            if method == "parameters" {
                continue;
            }
            for key in ["operationId", "x-kubernetes-action", "tags"] {
                if ours[key] != real[key] {
                    found.push(format!("{method} {path} {key}: {} {}", ours[key], real[key]));
                }
            }
            let kind = "x-kubernetes-group-version-kind";
            if ours[kind] != real[kind] {
                found.push(format!("{method} {path} {kind}: {} {}", ours[kind], real[kind]));
            }
            let (our_names, real_names) = (parameters(item, method), parameters(real_item, method));
            if our_names != real_names {
                found.push(format!("{method} {path} parameters: {our_names:?} {real_names:?}"));
            }
            if media(ours) != media(real) {
                let (ours, real) = (media(ours), media(real));
                found.push(format!("{method} {path} media: {ours:?} {real:?}"));
            }
        }
    }
}

#[tokio::test]
async fn documents_agree_with_a_real_server() -> Result<()> {
    let control_plane = ControlPlane::start().await?;
    let resources: Vec<ResourceType> = RESOURCES.iter().map(resource).collect();
    let mut versions: Vec<(&str, &str)> = RESOURCES.iter().map(|row| (row.0, row.1)).collect();
    versions.dedup();
    let mut found = Vec::new();
    for (group, version) in versions {
        let document = Document::new(group, version, &resources, &|_| None);
        let path = format!("/openapi/v3/{}", document.path());
        let output = control_plane.kubectl().args(["get", "--raw", &path]).output().await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let real: Value = serde_json::from_slice(&output.stdout).context(path)?;
        let ours = document.to_json();
        compare_definitions(&ours, &real, &mut found);
        compare_operations(&ours, &real, &mut found);
    }
    found.sort();
    found.dedup();
    ensure!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
    Ok(())
}

#[test]
fn the_list_of_differences_has_no_dead_entries() {
    for (definition, _) in DIFFERENCES {
        let schema = builtin(definition);
        assert!(schema.root().is_object(), "{definition} is not a definition");
    }
    assert_eq!(facts(&json!({"description": "x", "a": 1})), json!({"a": 1}));
}
