//! Thresholds.

use limen_core::global::HealthCheck;

use super::Verdict::{Healthy, Unhealthy, Unknown};
use super::{Streak, Verdict};

fn verdicts(results: &[bool]) -> Vec<Verdict> {
    let check =
        HealthCheck { unhealthy_threshold: 2, healthy_threshold: 3, ..HealthCheck::default() };
    let (mut streak, mut verdict) = (Streak::default(), Unknown);
    let next = |good: &bool| {
        verdict = streak.add(*good, verdict, &check).unwrap_or(verdict);
        verdict
    };
    results.iter().map(next).collect()
}

#[test]
fn verdicts_change_after_enough_results_in_a_row() {
    assert_eq!(verdicts(&[true, false, true]), [Healthy, Healthy, Healthy]);
    assert_eq!(verdicts(&[true, false, false]), [Healthy, Healthy, Unhealthy]);
    assert_eq!(verdicts(&[false, false, true, true]), [Unknown, Unhealthy, Unhealthy, Unhealthy]);
    assert_eq!(verdicts(&[false, false, true, true, true])[4], Healthy);
}
