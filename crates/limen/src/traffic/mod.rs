//! What people do with traffic: `limen drain`, `limen undrain` and `limen explain traffic`.

mod drain;
mod explain;

pub(crate) use self::drain::{Drain, Undrain};
pub(crate) use self::explain::Traffic;
