//! ServiceAccount: an identity for programs.

use serde_json::Value;

use super::age::age;
use super::table::{self, AGE, NAME};
use crate::resource::Column;

pub(super) const COLUMNS: &[Column] = &[NAME, AGE];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    vec![table::name(object), age(object, now)]
}
