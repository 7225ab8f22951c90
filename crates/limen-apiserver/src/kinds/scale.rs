//! Scale: what kubectl prints of the subresource that counts replicas.

use super::age::age;
use super::table::{self, AGE, NAME, count, integer};
use crate::resource::Columns;

pub(crate) const COLUMNS: Columns = Columns::BuiltIn {
    definitions: &[
        NAME,
        integer("Desired", "How many replicas are wanted."),
        integer("Available", "How many replicas there are."),
        AGE,
    ],
    cells: |scale, now| {
        vec![
            table::name(scale),
            count(scale, "spec.replicas"),
            count(scale, "status.replicas"),
            age(scale, now),
        ]
    },
};
