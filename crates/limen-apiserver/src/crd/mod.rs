//! CustomResourceDefinitions: what makes a good one, and what its schema does to objects.
//!
//! ```text
//! a definition ──▶ default ──▶ validate ──▶ accept (names, status)
//!                                               │
//!                                               ▼
//!                                        resource_types ──▶ the rest of the server
//!                                               │
//! an object ──▶ prune ──▶ default ──▶ validate ◀┘ schema
//! ```
//!
//! Everything here is a pure function: definitions and objects come in, errors and values come
//! out. Storage, discovery and HTTP are elsewhere.
//!
//! What differs from the real server is in `docs/divergences.md`.

mod default_values;
mod definition;
mod definitions;
mod dns;
mod go_regex;
mod paths;
mod resource_types;
mod rules;
mod schema_json;
mod schema_rules;
mod status;
mod structural;
mod values;

#[cfg(test)]
mod tests;

pub(crate) use definition::{
    default as default_definition, prepare_update, validate as validate_definition,
};
pub(crate) use definition::{validate_update as validate_definition_update, warnings};
pub(crate) use definitions::{Definitions, is_leaving};
#[cfg(test)]
pub(crate) use resource_types::resource_types;
pub(crate) use resource_types::stored_type;
pub(crate) use status::{CLEANUP, Taken, accept, terminate};
pub(crate) use values::{default, prune, validate, validate_scale, validate_status};
