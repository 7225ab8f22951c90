//! The built-in kinds: their names, their rules and their tables.
//!
//! Everything here is a pure function over an object. [`builtin_types`] lists the kinds; each has a
//! module with its defaults, its validation and its columns. [`metadata`] has what holds for every
//! object. The words of errors are those of Kubernetes, since people search for them.
//!
//! Rules are written as if objects were Kubernetes' Go structures: what is absent, null or empty is
//! the same. `testdata` has objects with what a real server said of them, and a script that asks it
//! again.

mod addresses;
mod age;
mod autoscaler;
mod builtin;
mod config_map;
mod cron;
mod cron_job;
mod daemon_set;
mod deployment;
mod disruption_budget;
mod endpoints;
pub(crate) mod event;
mod fields;
mod ingress;
mod ingress_class;
mod job;
mod labels;
mod lease;
mod limit_range;
pub(crate) mod metadata;
mod names;
pub(crate) mod namespace;
mod network_policy;
mod node;
mod pod;
mod quantity;
mod rbac;
#[cfg(test)]
mod recorded;
mod resource_quota;
pub(crate) mod scale;
mod secret;
pub(crate) mod service;
mod service_account;
mod stateful_set;
mod table;
mod volume_claim;
mod workload;

pub(crate) use age::human_duration;
pub(crate) use builtin::builtin_types;
pub(crate) use endpoints::{ENDPOINTS_DEPRECATED, allow_loopback};
pub(crate) use names::{label_key, label_value};
