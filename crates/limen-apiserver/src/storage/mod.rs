//! Objects in the store.
//!
//! An object is kept as JSON without its type and its resourceVersion: the type is known from the
//! key and depends on the version that is asked for, the resourceVersion is the store's revision.
//! Its metadata comes first, so that type and resourceVersion can be written in front without
//! reading the rest, which makes a get or a list mostly copying.

mod key;
mod stored;

pub(crate) use key::{Place, all_prefix, place_of};
pub(crate) use stored::{StoredObject, encode};

use limen_store::Error as StoreError;

use crate::error::ApiError;

/// What a caller is told of a store that cannot answer.
pub(crate) fn store_error(error: &StoreError) -> ApiError {
    match error {
        StoreError::Compacted { .. } => {
            ApiError::expired("The resourceVersion for the provided list is too old.")
        }
        StoreError::TooLarge { .. } => {
            ApiError::too_large("Request entity too large: limit is 1572864")
        }
        StoreError::DiskFull { .. } | StoreError::Unavailable(_) => {
            ApiError::unavailable(error.to_string())
        }
        error => ApiError::internal(error),
    }
}
