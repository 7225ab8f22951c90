//! Traffic over real gateways and whole playground members: clusters that fail, overflow, are
//! drained and are out of bounds, and versions that are switched, with every request counted.

mod clients;
mod drains;
mod failures;
mod overflow;
mod releases;
mod residency;
mod world;
