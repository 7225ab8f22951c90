//! How ownership moves: what structured-merge-diff calls the updater.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Scope;
use super::compare::{Comparison, compare};
use super::conflict::Conflict;
use super::field_set::FieldSet;
use super::merge::merge;
use super::owned::fields_of;
use super::ownership::{Owned, Owner, Ownership};
use super::path::equal;
use super::reconcile::reconcile;
use super::remove::remove;
use super::types::Type;

/// Why an apply failed.
#[derive(Debug)]
pub(super) enum ApplyError {
    /// Others own what would change.
    Conflicts(Vec<Conflict>),
    /// The objects cannot be merged.
    Unmergeable(String),
}

impl From<String> for ApplyError {
    fn from(message: String) -> Self {
        Self::Unmergeable(message)
    }
}

/// Adapts what is owned to the schemas of today. Owners in versions that are gone are dropped.
fn reconciled(scope: &Scope<'_>, ownership: &mut Ownership) {
    ownership.owned.retain(|_, owned| match scope.type_at(&owned.api_version) {
        Some(schema) => {
            owned.set = reconcile(schema, &owned.set);
            true
        }
        None => false,
    });
}

/// Takes from everybody but `current` what changed. Without `force`, only where nobody owns it.
fn take_changes(
    scope: &Scope<'_>,
    old: &Value,
    new: &Value,
    ownership: &mut Ownership,
    current: Option<&Owner>,
    force: bool,
) -> Result<Comparison, ApplyError> {
    let mut comparisons: BTreeMap<String, Comparison> = BTreeMap::new();
    let own = compare(Type::of(scope.schema), old, new)?.without(scope.ignored);
    comparisons.insert(scope.api_version.to_owned(), own.clone());

    let mut lost: BTreeMap<Owner, FieldSet> = BTreeMap::new();
    let mut conflicts = Vec::new();
    for (owner, owned) in &ownership.owned {
        if Some(owner) == current {
            continue;
        }
        if !comparisons.contains_key(&owned.api_version) {
            let Some(schema) = scope.type_at(&owned.api_version) else { continue };
            let comparison = compare(schema, old, new)?.without(scope.ignored);
            comparisons.insert(owned.api_version.clone(), comparison);
        }
        let comparison = &comparisons[&owned.api_version];
        let taken = owned.set.intersection(&comparison.set());
        conflicts
            .extend(taken.paths().into_iter().map(|path| Conflict { owner: owner.clone(), path }));
        lost.insert(owner.clone(), taken.union(&comparison.removed));
    }
    if !force && !conflicts.is_empty() {
        return Err(ApplyError::Conflicts(conflicts));
    }
    for (owner, owned) in &mut ownership.owned {
        if let Some(lost) = lost.get(owner) {
            owned.set = owned.set.difference(lost);
        }
    }
    ownership.owned.retain(|_, owned| !owned.set.is_empty());
    Ok(own)
}

/// Moves ownership for an update; returns what the update itself owns: what it changed.
pub(super) fn update(
    scope: &Scope<'_>,
    old: &Value,
    new: &Value,
    ownership: &mut Ownership,
) -> Result<FieldSet, String> {
    reconciled(scope, ownership);
    match take_changes(scope, old, new, ownership, None, true) {
        Ok(changed) => Ok(changed.set().recursive_difference(scope.ignored)),
        Err(ApplyError::Unmergeable(message)) => Err(message),
        // Nothing conflicts with force.
        Err(ApplyError::Conflicts(_)) => Ok(FieldSet::default()),
    }
}

/// Applies a configuration; returns the new object, or `None` if nothing changed in it.
pub(super) fn apply(
    scope: &Scope<'_>,
    live: &Value,
    applied: &Value,
    ownership: &mut Ownership,
    owner: &Owner,
    force: bool,
) -> Result<Option<Value>, ApplyError> {
    reconciled(scope, ownership);
    let schema = Type::of(scope.schema);
    let merged =
        merge(schema, live, applied).map_err(|error| format!("failed to merge config: {error}"))?;
    let set = fields_of(schema, applied).recursive_difference(scope.ignored);
    let owned = Owned { set, api_version: scope.api_version.to_owned() };
    let last = ownership.owned.insert(owner.clone(), owned);
    let object = match last {
        Some(last) if !last.set.is_empty() => prune(scope, merged, ownership, &last),
        _ => merged,
    };
    take_changes(scope, live, &object, ownership, Some(owner), force)?;
    Ok((!equal(live, &object)).then_some(object))
}

/// Removes what the applier owned before and neither applies nor shares with anybody.
fn prune(scope: &Scope<'_>, merged: Value, ownership: &Ownership, last: &Owned) -> Value {
    let Some(schema) = scope.type_at(&last.api_version) else { return merged };
    let last_set = last.set.with_named_fields(Some(schema));
    let mut pruned = remove(schema, &merged, &last_set);

    let mut owned_by_version: BTreeMap<&str, FieldSet> = BTreeMap::new();
    for owned in ownership.owned.values() {
        let all = owned_by_version.entry(&owned.api_version).or_default();
        *all = all.union(&owned.set);
    }
    // First in the version of the last apply, then in the others.
    let first = owned_by_version.remove_entry(last.api_version.as_str());
    for (version, owned) in first.into_iter().chain(owned_by_version) {
        let Some(schema) = scope.type_at(version) else { continue };
        let kept = named_fields_of(schema, &pruned).union(&owned.with_named_fields(Some(schema)));
        pruned = remove(schema, &merged, &named_fields_of(schema, &merged).difference(&kept));
    }

    // What went with a removed item, but was not the applier's, stays.
    let gone = named_fields_of(schema, &merged).difference(&named_fields_of(schema, &pruned));
    remove(schema, &merged, &gone.intersection(&last_set))
}

fn named_fields_of(schema: Type<'_>, object: &Value) -> FieldSet {
    fields_of(schema, object).with_named_fields(Some(schema))
}
