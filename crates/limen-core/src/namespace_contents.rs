//! Whether the Namespace of a leaf can be deleted: everything in it goes with it.
//!
//! The judgement is over a listing of every kind. Only what this hub put there and is deleting, and
//! what Kubernetes itself puts into every namespace, may be left in it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::leaf::HUB_LABEL;

/// Everything in a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamespaceContents {
    /// The kind of each object, with its metadata.
    pub objects: Vec<(String, Value)>,
    /// Kinds that could not be listed, with the reason.
    pub unlistable: Vec<String>,
}

/// The judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceVerdict {
    /// Nothing but what goes anyway: it can be deleted.
    Empty,
    /// Objects that are expected to go soon.
    NotYet(Vec<String>),
    /// Objects that belong to others, or kinds that cannot be listed.
    Foreign(Vec<String>),
}

/// Verdict of one object on its namespace, in order of severity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Ignored,
    Pending,
    Foreign,
}

/// How deep owners are followed: Kubernetes has chains of three.
const OWNERS: usize = 8;

impl NamespaceContents {
    /// Judges the contents for a hub.
    pub fn verdict(&self, hub: &str) -> NamespaceVerdict {
        let by_uid: BTreeMap<&str, usize> = (self.objects.iter().enumerate())
            .filter_map(|(n, (_, metadata))| Some((metadata["uid"].as_str()?, n)))
            .collect();
        let mut foreign = self.unlistable.clone();
        let mut pending = Vec::new();
        for (n, (kind, metadata)) in self.objects.iter().enumerate() {
            let name = metadata["name"].as_str().unwrap_or_default();
            match self.part(n, hub, &by_uid, OWNERS) {
                Part::Ignored => {}
                Part::Pending => pending.push(format!("{kind} {name}")),
                Part::Foreign => foreign.push(format!("{kind} {name}")),
            }
        }
        match (foreign.is_empty(), pending.is_empty()) {
            (false, _) => NamespaceVerdict::Foreign(foreign),
            (true, false) => NamespaceVerdict::NotYet(pending),
            (true, true) => NamespaceVerdict::Empty,
        }
    }

    fn part(&self, n: usize, hub: &str, by_uid: &BTreeMap<&str, usize>, depth: usize) -> Part {
        let (kind, metadata) = &self.objects[n];
        let owners = match own_part(kind, metadata, hub) {
            Ok(part) => return part,
            Err(owners) => owners,
        };
        if depth == 0 {
            return Part::Foreign;
        }
        let judged = owners.iter().map(|owner| {
            let listed = owner["uid"].as_str().and_then(|uid| by_uid.get(uid));
            // The garbage collector is about to take an object that has lost its owner.
            listed.map_or(Part::Pending, |&owner| self.part(owner, hub, by_uid, depth - 1))
        });
        judged.max().unwrap_or(Part::Foreign)
    }
}

/// Whether an object belongs to others whatever else is in its namespace, so that nothing else need
/// be listed.
pub fn is_foreign(kind: &str, metadata: &Value, hub: &str) -> bool {
    matches!(own_part(kind, metadata, hub), Ok(Part::Foreign))
}

/// Whether a resource has objects that are deleted with their namespace, by the verbs of discovery.
/// Metrics and reviews can be listed or created and are stored nowhere.
pub fn is_stored(verbs: &[&str]) -> bool {
    verbs.contains(&"list") && verbs.contains(&"delete")
}

/// Whether an API group has computed resources only: that it cannot be read hides nothing.
pub fn is_virtual_group(group: &str) -> bool {
    matches!(group, "metrics.k8s.io" | "custom.metrics.k8s.io" | "external.metrics.k8s.io")
}

/// Verdict of an object on its own; its owners if they decide.
fn own_part<'a>(kind: &str, metadata: &'a Value, hub: &str) -> Result<Part, &'a Vec<Value>> {
    if is_furniture(kind, metadata) {
        return Ok(Part::Ignored);
    }
    if metadata["labels"][HUB_LABEL] == hub {
        let deleting = metadata["deletionTimestamp"].is_string();
        return Ok(if deleting { Part::Ignored } else { Part::Pending });
    }
    match metadata["ownerReferences"].as_array().filter(|owners| !owners.is_empty()) {
        Some(owners) => Err(owners),
        None => Ok(Part::Foreign),
    }
}

/// Objects that Kubernetes creates in every namespace.
fn is_furniture(kind: &str, metadata: &Value) -> bool {
    let name = metadata["name"].as_str().unwrap_or_default();
    match kind {
        "Event" => true,
        "ConfigMap" => name == "kube-root-ca.crt",
        "ServiceAccount" => name == "default",
        "Secret" => {
            metadata["annotations"]["kubernetes.io/service-account.name"] == "default"
                && name.starts_with("default-token-")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
