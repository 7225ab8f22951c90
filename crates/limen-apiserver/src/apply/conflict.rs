//! Fields that somebody else owns and that would change.

use std::fmt::Write;

use http::StatusCode;
use serde_json::{Value, json};

use super::field_set::FieldSet;
use super::ownership::{Operation, Owner};
use super::path::{PathElement, shown};
use crate::error::ApiError;

/// A field that an owner would lose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) owner: Owner,
    pub(super) path: Vec<PathElement>,
}

/// The conflicts that are not about these fields.
pub(super) fn besides(conflicts: Vec<Conflict>, allowed: &FieldSet) -> Vec<Conflict> {
    conflicts.into_iter().filter(|conflict| !allowed.has(&conflict.path)).collect()
}

/// The error that lists the conflicts. They must be sorted by owner.
pub(super) fn error(conflicts: &[Conflict]) -> ApiError {
    let message = match conflicts {
        [only] => format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            named(&only.owner),
            shown(&only.path)
        ),
        many => {
            let mut message = format!("Apply failed with {} conflicts: ", many.len());
            for of_owner in many.chunk_by(|left, right| left.owner == right.owner) {
                if !std::ptr::eq(&raw const of_owner[0], &raw const many[0]) {
                    message.push('\n');
                }
                let _ = write!(message, "conflicts with {}:", named(&of_owner[0].owner));
                for conflict in of_owner {
                    let _ = write!(message, "\n- {}", shown(&conflict.path));
                }
            }
            message
        }
    };
    let causes: Vec<Value> = conflicts
        .iter()
        .map(|conflict| {
            json!({
                "reason": "FieldManagerConflict",
                "message": format!("conflict with {}", named(&conflict.owner)),
                "field": shown(&conflict.path),
            })
        })
        .collect();
    let mut error = ApiError::new(StatusCode::CONFLICT, "Conflict", message);
    error.details = Some(json!({"causes": causes}));
    error
}

fn named(owner: &Owner) -> String {
    let mut name = format!("{:?}", owner.manager);
    if !owner.subresource.is_empty() {
        let _ = write!(name, " with subresource {:?}", owner.subresource);
    }
    if owner.operation == Operation::Update {
        let _ = write!(name, " using {}", owner.api_version);
    }
    name
}
