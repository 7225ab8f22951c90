//! Requests out, events in: everything that the hub asks of others beside its watches and syncers.

pub(crate) mod host_verification;
pub(crate) mod records;
pub(crate) mod renewal;
