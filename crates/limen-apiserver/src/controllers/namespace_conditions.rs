//! What a namespace that is being deleted says of how far that has come.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What is left in a namespace after everything in it was told to go.
#[derive(Default)]
pub(super) struct Remains {
    /// How many objects there are, by `resource.group`.
    pub(super) objects: BTreeMap<String, usize>,
    /// How many objects each finalizer keeps.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// What went wrong, for each type that could not be emptied.
    pub(super) failures: Vec<String>,
}

/// A condition: its type, whether it holds, the reason and the message.
type Condition = (&'static str, bool, &'static str, String);

impl Remains {
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.failures.is_empty()
    }

    /// Says in the status of a namespace what remains of its contents.
    pub(super) fn report(&self, namespace: &mut Value, now: &str) {
        let known = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let mut conditions = known.clone();
        for (kind, holds, reason, message) in self.conditions() {
            let status = if holds { "True" } else { "False" };
            let old = known.iter().find(|found| found["type"] == kind);
            let since = old.filter(|old| old["status"] == status);
            let since = since.map_or_else(|| now.into(), |old| old["lastTransitionTime"].clone());
            let new = json!({
                "type": kind,
                "status": status,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            });
            match conditions.iter_mut().find(|found| found["type"] == kind) {
                Some(found) => *found = new,
                None => conditions.push(new),
            }
        }
        namespace["status"]["conditions"] = conditions.into();
    }

    fn conditions(&self) -> [Condition; 5] {
        [
            // The server knows its own types, so these two never fail.
            (
                "NamespaceDeletionDiscoveryFailure",
                false,
                "ResourcesDiscovered",
                "All resources successfully discovered".to_owned(),
            ),
            (
                "NamespaceDeletionGroupVersionParsingFailure",
                false,
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed".to_owned(),
            ),
            self.failure(),
            self.content(),
            self.waiting(),
        ]
    }

    fn failure(&self) -> Condition {
        let kind = "NamespaceDeletionContentFailure";
        match self.failures.as_slice() {
            [] => {
                let done = "All content successfully deleted, may be waiting on finalization";
                (kind, false, "ContentDeleted", done.to_owned())
            }
            failures => {
                let message = format!(
                    "Failed to delete all resource types, {} remaining: {}",
                    failures.len(),
                    failures.join(", ")
                );
                (kind, true, "ContentDeletionFailed", message)
            }
        }
    }

    fn content(&self) -> Condition {
        let kind = "NamespaceContentRemaining";
        if self.objects.is_empty() {
            return (kind, false, "ContentRemoved", "All content successfully removed".to_owned());
        }
        let each = self.objects.iter();
        let each = each.map(|(kind, count)| format!("{kind} has {count} resource instances"));
        let message = format!("Some resources are remaining: {}", listed(each));
        (kind, true, "SomeResourcesRemain", message)
    }

    fn waiting(&self) -> Condition {
        let kind = "NamespaceFinalizersRemaining";
        if self.finalizers.is_empty() {
            let done = "All content-preserving finalizers finished";
            return (kind, false, "ContentHasNoFinalizers", done.to_owned());
        }
        let each = self.finalizers.iter();
        let each = each.map(|(name, count)| format!("{name} in {count} resource instances"));
        let message =
            format!("Some content in the namespace has finalizers remaining: {}", listed(each));
        (kind, true, "SomeFinalizersRemain", message)
    }
}

fn listed(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(namespace: &Value) -> Vec<String> {
        let conditions = namespace["status"]["conditions"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let fields = ["type", "status", "lastTransitionTime", "message"];
        conditions.map(|found| fields.map(|field| text(&found[field])).join(" ")).collect()
    }

    #[test]
    fn a_condition_keeps_its_time_until_it_turns() {
        let mut namespace = json!({});
        let held = Remains {
            objects: [("configmaps.".to_owned(), 1), ("deployments.apps".to_owned(), 2)].into(),
            finalizers: [("example.com/hold".to_owned(), 1)].into(),
            failures: Vec::new(),
        };
        held.report(&mut namespace, "t1");
        let expected = [
            "NamespaceDeletionDiscoveryFailure False t1 All resources successfully discovered",
            "NamespaceDeletionGroupVersionParsingFailure False t1 All legacy kube types successfully parsed",
            "NamespaceDeletionContentFailure False t1 All content successfully deleted, may be waiting on finalization",
            "NamespaceContentRemaining True t1 Some resources are remaining: configmaps. has 1 resource instances, deployments.apps has 2 resource instances",
            "NamespaceFinalizersRemaining True t1 Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
        ];
        assert_eq!(shown(&namespace), expected);

        let failed = Remains { failures: vec!["no".to_owned()], ..Remains::default() };
        failed.report(&mut namespace, "t2");
        let expected = [
            expected[0],
            expected[1],
            "NamespaceDeletionContentFailure True t2 Failed to delete all resource types, 1 remaining: no",
            "NamespaceContentRemaining False t2 All content successfully removed",
            "NamespaceFinalizersRemaining False t2 All content-preserving finalizers finished",
        ];
        assert_eq!(shown(&namespace), expected);
    }
}
