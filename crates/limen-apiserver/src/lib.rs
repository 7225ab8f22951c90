//! A Kubernetes-compatible API over `limen-store`, which knows nothing of federation.

mod answer;
mod api;
mod apply;
mod audit;
mod auth;
mod controllers;
mod crd;
mod decode;
mod discovery;
pub mod error;
pub mod field_error;
mod flow;
mod in_process;
mod kinds;
mod metrics;
mod openapi;
mod patch;
mod rbac;
mod registry;
mod request;
pub mod resource;
mod run;
pub mod schema;
mod server;
mod storage;

pub use api::{Api, Caller};
pub use in_process::{InProcess, MASTERS, Stopped};
pub use run::{Certified, Server, ServerOptions, StartError};
