//! Thresholds, and who shares a prober.

use limen_core::global::{HealthCheck, HealthCheckKind};
use limen_core::health::Thresholds;

use super::Verdict::{Healthy, Unhealthy, Unknown};
use super::prober::Streak;
use super::{Question, Verdict};
use crate::upstream::Destination;

fn verdicts(results: &[bool]) -> Vec<Verdict> {
    let thresholds = Thresholds { failures: 2, successes: 3 };
    let (mut streak, mut verdict) = (Streak::default(), Unknown);
    let next = |good: &bool| {
        verdict = streak.add(*good, verdict, thresholds).unwrap_or(verdict);
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

#[test]
fn questions_are_the_same_if_the_same_is_really_asked() {
    let asked = |kind, host: &str, path: &str, tls: Option<&str>| {
        let destination = Destination::Ip("192.0.2.1:80".parse().unwrap());
        let check = HealthCheck { kind, path: path.to_owned(), ..HealthCheck::default() };
        Question::asked(destination, &check, host, tls)
    };
    use HealthCheckKind::{Grpc, Http, Https, Tcp};
    for (kind, host, path, tls) in [
        (Tcp, false, false, false),
        (Http, true, true, true),
        (Https, true, true, true),
        (Grpc, true, false, true),
    ] {
        let one = asked(kind, "a.test", "/", None);
        assert_eq!(one == asked(kind, "b.test", "/", None), !host, "{kind:?}: hosts");
        assert_eq!(one == asked(kind, "a.test", "/live", None), !path, "{kind:?}: paths");
        assert_eq!(one == asked(kind, "a.test", "/", Some("ca")), !tls, "{kind:?}: TLS");
    }
    let slower = HealthCheck { interval_milliseconds: 2000, ..HealthCheck::default() };
    let destination = Destination::Ip("192.0.2.1:80".parse().unwrap());
    let slower = Question::asked(destination, &slower, "", None);
    assert_ne!(slower, asked(Tcp, "", "/", None), "the pace is part of the question");
}
