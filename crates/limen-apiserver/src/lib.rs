//! A Kubernetes-compatible API over `limen-store`, which knows nothing of federation.

pub mod error;
pub mod field_error;
pub mod resource;
pub mod schema;
