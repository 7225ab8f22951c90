//! Conditions in the statuses that the hub writes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// A condition, with the time of its last change: that of `before`, unless its status is another.
pub(crate) fn condition(
    before: &[Condition],
    type_: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: jiff::Timestamp,
) -> Condition {
    let before = before.iter().find(|old| old.type_ == type_);
    let last_transition_time = match before {
        Some(before) if before.status == status => before.last_transition_time.clone(),
        // Seconds are all that the API keeps.
        _ => Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now)),
    };
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time,
        observed_generation: None,
    }
}
