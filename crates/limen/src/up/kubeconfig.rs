//! One kubeconfig for the hub and every cluster.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use limen_api::unreadable_yaml;
use serde_json::{Value, json};

/// What the hub is called; the second is what older guides call it.
pub(crate) const HUB: [&str; 2] = ["federation", "federation-cluster"];

/// Puts kubeconfigs together, each under the names of its contexts. The first is the current one.
pub(crate) fn together(parts: &[(Vec<&str>, &Path)]) -> Result<String> {
    let (mut clusters, mut users, mut contexts) = (Vec::new(), Vec::new(), Vec::new());
    for (names, path) in parts {
        let context = || format!("cannot use the kubeconfig {}", path.display());
        let text = std::fs::read_to_string(path).with_context(context)?;
        let read: Value = serde_saphyr::from_str(&text)
            .map_err(|error| anyhow!(unreadable_yaml(&error)))
            .with_context(context)?;
        let name = names.first().copied().unwrap_or_default();
        clusters.push(json!({"name": name, "cluster": read["clusters"][0]["cluster"]}));
        users.push(json!({"name": name, "user": read["users"][0]["user"]}));
        contexts.extend(
            names.iter().map(
                |context| json!({"name": context, "context": {"cluster": name, "user": name}}),
            ),
        );
    }
    let current = contexts.first().map(|context| context["name"].clone());
    let whole = json!({
        "apiVersion": "v1", "kind": "Config", "preferences": {},
        "clusters": clusters, "users": users, "contexts": contexts, "current-context": current,
    });
    serde_saphyr::to_string(&whole).context("cannot write a kubeconfig")
}

/// Writes a file that only its owner can read, in one go.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    let context = || format!("cannot write {}", path.display());
    let new = path.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&new)
        .with_context(context)?;
    file.write_all(text.as_bytes()).with_context(context)?;
    std::fs::rename(&new, path).with_context(context)
}
