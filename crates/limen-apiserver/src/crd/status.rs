//! The status of a definition: whether its names are free, and whether it is established.
//!
//! The real server has two controllers for this, which race with clients; here both answers are
//! given at once.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::schema_json::{list, text, texts};

/// The names that are not free in a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Plural, singular and short names.
    pub resources: BTreeSet<String>,
    /// Kinds and list kinds.
    pub kinds: BTreeSet<String>,
    /// The whole group is the server's own.
    pub group: bool,
}

impl Taken {
    /// The names that other definitions of the same group were given.
    pub(crate) fn by_others<'a>(
        definition: &Value,
        others: impl IntoIterator<Item = &'a Value>,
    ) -> Self {
        fn group(definition: &Value) -> Option<&Value> {
            definition.pointer("/spec/group")
        }
        fn name(definition: &Value) -> Option<&Value> {
            definition.pointer("/metadata/name")
        }
        let mut taken = Self::default();
        for other in others {
            if group(other) != group(definition) || name(other) == name(definition) {
                continue;
            }
            let Some(names) = other.pointer("/status/acceptedNames") else { continue };
            let short = texts(names, "shortNames");
            let resources =
                [text(names, "plural"), text(names, "singular")].into_iter().chain(short);
            taken.resources.extend(resources.filter(|name| !name.is_empty()).map(str::to_owned));
            let kinds = [text(names, "kind"), text(names, "listKind")].into_iter();
            taken.kinds.extend(kinds.filter(|name| !name.is_empty()).map(str::to_owned));
        }
        taken
    }
}

/// The status of a definition whose spec was defaulted and validated. `now` is the time as it is
/// written in objects. Names that were given once stay given; a definition that was established
/// stays so.
pub(crate) fn accept(definition: &Value, taken: &Taken, now: &str) -> Value {
    if taken.group {
        return refuse(definition, now);
    }
    let empty = json!({});
    let requested = definition.pointer("/spec/names").unwrap_or(&empty);
    let status = definition.get("status").unwrap_or(&empty);
    let given = status.get("acceptedNames").unwrap_or(&empty);
    let mut names = given.as_object().cloned().unwrap_or_default();
    let mut conflict: Option<(&str, String)> = None;
    let used = |name: &str| format!("{name:?} is already in use");

    let single = [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
    ];
    let kinds =
        [("kind", "KindConflict", &taken.kinds), ("listKind", "ListKindConflict", &taken.kinds)];
    for (field, reason, taken) in single {
        settle(requested, given, field, taken, &mut names).unwrap_or_else(|name| {
            conflict = Some((reason, used(&name)));
        });
    }
    let mut clashes: Vec<String> = texts(requested, "shortNames")
        .filter(|name| !texts(given, "shortNames").any(|given| given == *name))
        .filter(|name| taken.resources.contains(*name))
        .map(used)
        .collect();
    clashes.dedup();
    match clashes.as_slice() {
        [] => set_list(&mut names, "shortNames", requested),
        [only] => conflict = Some(("ShortNamesConflict", only.clone())),
        many => conflict = Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
    }
    for (field, reason, taken) in kinds {
        settle(requested, given, field, taken, &mut names).unwrap_or_else(|name| {
            conflict = Some((reason, used(&name)));
        });
    }
    set_list(&mut names, "categories", requested);
    for field in ["plural", "kind"] {
        names.entry(field).or_insert_with(|| "".into());
    }

    let accepted = conflict.is_none();
    let (reason, message) = conflict.unwrap_or(("NoConflicts", "no conflicts found".to_owned()));
    let mut conditions = list(status, "conditions").to_vec();
    set_condition(&mut conditions, "NamesAccepted", accepted, reason, &message, now);
    let established = conditions.iter().any(|condition| {
        text(condition, "type") == "Established" && text(condition, "status") == "True"
    });
    if accepted && !established {
        let message = "the initial names have been accepted";
        set_condition(&mut conditions, "Established", true, "InitialNamesAccepted", message, now);
    } else if !established {
        let message = "not all names are accepted";
        set_condition(&mut conditions, "Established", false, "NotAccepted", message, now);
    }
    let stored = stored_versions(definition);
    json!({"conditions": conditions, "acceptedNames": names, "storedVersions": stored})
}

/// The status of a definition in a group whose types are built in: it gets no names, not even those
/// that somebody has written there, and is not established.
fn refuse(definition: &Value, now: &str) -> Value {
    let group = definition.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
    let message = format!("the group {group:?} is built in; use another one");
    let mut conditions = list(&definition["status"], "conditions").to_vec();
    set_condition(&mut conditions, "NamesAccepted", false, "GroupConflict", &message, now);
    let message = "not all names are accepted";
    set_condition(&mut conditions, "Established", false, "NotAccepted", message, now);
    let names = json!({"plural": "", "kind": ""});
    let stored = stored_versions(definition);
    json!({"conditions": conditions, "acceptedNames": names, "storedVersions": stored})
}

fn stored_versions(definition: &Value) -> Vec<Value> {
    match list(&definition["status"], "storedVersions") {
        [] => super::definition::storage_version(definition).map(Value::from).into_iter().collect(),
        stored => stored.to_vec(),
    }
}

/// The finalizer that keeps a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Marks a definition that is about to be deleted: its objects go first.
pub(crate) fn terminate(definition: &mut Value, finalizers: &mut Vec<Value>, now: &str) {
    if !finalizers.iter().any(|name| name == CLEANUP) {
        finalizers.push(CLEANUP.into());
    }
    let message =
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    let mut conditions = list(&definition["status"], "conditions").to_vec();
    set_condition(&mut conditions, "Terminating", true, "InstanceDeletionPending", message, now);
    definition["status"]["conditions"] = conditions.into();
}

/// Gives the requested name if it is the definition's own or free; else returns it.
fn settle(
    requested: &Value,
    given: &Value,
    field: &str,
    taken: &BTreeSet<String>,
    names: &mut Map<String, Value>,
) -> Result<(), String> {
    let name = text(requested, field);
    if name != text(given, field) && taken.contains(name) {
        return Err(name.to_owned());
    }
    if name.is_empty() {
        names.remove(field);
    } else {
        names.insert(field.to_owned(), name.into());
    }
    Ok(())
}

fn set_list(names: &mut Map<String, Value>, field: &str, requested: &Value) {
    match list(requested, field) {
        [] => names.remove(field),
        values => names.insert(field.to_owned(), values.into()),
    };
}

fn set_condition(
    conditions: &mut Vec<Value>,
    kind: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: &str,
) {
    let status = if holds { "True" } else { "False" };
    let known = conditions.iter_mut().find(|condition| text(condition, "type") == kind);
    let since = known
        .as_ref()
        .filter(|known| text(known, "status") == status)
        .and_then(|known| known.get("lastTransitionTime"))
        .cloned()
        .unwrap_or_else(|| now.into());
    let condition = json!({
        "type": kind, "status": status, "lastTransitionTime": since, "reason": reason,
        "message": message,
    });
    match known {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}
