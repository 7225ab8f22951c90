//! Taking over from `kubectl apply` on the client's side.
//!
//! Such objects carry what was last applied in an annotation. When kubectl goes on with
//! server-side apply, what it applied before is its own, whatever name it was written under; and
//! the annotation is kept up to date, so that kubectl can go back.

use serde_json::Value;

use super::compare::compare;
use super::field_set::FieldSet;
use super::fields_v1::escaped;
use super::owned::fields_of;
use super::types::Type;
use super::validate;

/// The manager name for which this is done.
pub(super) const KUBECTL: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How large all annotations together may be, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The fields that were last applied and are still so. `None` if there is no usable annotation.
pub(super) fn applied_before(
    live: &Value,
    schema: Type<'_>,
    api_version: &str,
) -> Option<FieldSet> {
    let applied: Value = serde_json::from_str(annotation(live)?).ok()?;
    if applied.get("apiVersion")?.as_str()? != api_version
        || validate::problems(schema, &applied).is_some()
        || validate::problems(schema, live).is_some()
    {
        return None;
    }
    let changed = compare(schema, &applied, live).ok()?;
    let set = fields_of(schema, &applied);
    Some(set.difference(&changed.modified).difference(&changed.added).difference(&changed.removed))
}

/// Brings the annotation of an object up to date with what was applied, if it has one.
pub(super) fn refresh(object: &mut Value, applied: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) =
        applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
    {
        annotations.remove(ANNOTATION);
        if annotations.is_empty()
            && let Some(metadata) = applied.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("annotations");
        }
    }
    let Some(annotations) =
        object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
    else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), format!("{}\n", escaped(&applied)).into());
    let sizes =
        annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len));
    if sizes.sum::<usize>() > MAX_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    annotations.get(ANNOTATION)?.as_str().filter(|applied| !applied.is_empty())
}
