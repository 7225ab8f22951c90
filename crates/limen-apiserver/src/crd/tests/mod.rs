//! Definitions and objects as a real kube-apiserver 1.36 answered them, and laws that hold for any.

mod definition_changes;
mod definitions;
mod laws;
mod objects;
mod rules;
mod scales;
