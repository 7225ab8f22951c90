//! Every front end becomes one model.
//!
//! ```text
//! native object ── annotations of federation v1 ──┐
//! native object ── PlacementPolicy ───────────────┼──► limen_core::Federated
//! Federated<Kind> in one object ──────────────────┤
//! template + placement + override in three ───────┘
//! ```
//!
//! What cannot be understood is an error and never a guess: the hub then leaves every leaf as it
//! is and says why.

mod native;
mod overrides;
mod preferences;
mod selector;
mod version2;

use std::sync::Arc;

use limen_core::federated::{Kind, ObjectId};
use serde_json::Value;

pub use native::{Home, check as check_policy, federate as native, governs, is_root};
pub use overrides::parse as overrides;
pub use preferences::Preferences;
pub use selector::{parse as cluster_selector, placement};
pub use version2::{one_object, three_objects};

/// What is wrong with what a person wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DialectError {
    /// An annotation cannot be understood.
    #[error("annotation {annotation}: {reason}")]
    Annotation {
        /// Which one.
        annotation: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A field cannot be understood.
    #[error("{field}: {reason}")]
    Field {
        /// Which one.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
}

fn field_error(field: impl Into<String>, reason: impl Into<String>) -> DialectError {
    DialectError::Field { field: field.into(), reason: reason.into() }
}

/// Which object this is.
pub fn identity(object: &Value, kind: &Arc<Kind>) -> ObjectId {
    let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
    ObjectId {
        kind: kind.clone(),
        namespace: text("namespace").filter(|_| kind.namespaced),
        name: text("name").unwrap_or_default(),
    }
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
