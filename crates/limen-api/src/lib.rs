//! The objects of `limen.dev/v1alpha1`, and the dialects that turn what people submit into the
//! model of `limen-core`.

mod global_ingress;

pub use global_ingress::{GlobalIngress, GlobalIngressStatus};
