//! Canaries, step by step.

use super::super::{Figures, Phase, Policy, Trial};
use crate::edge::{Demand, EdgeReport, Sent};

fn trial() -> Trial {
    Trial {
        group: "v2".to_owned(),
        steps: vec![5, 50],
        step_seconds: 10,
        min_success_percent: Some(99.0),
        max_p99_milliseconds: Some(200),
        min_requests: 100,
        ..Trial::default()
    }
}

fn figures(answers: u64, success: f64, p99: f64) -> Figures {
    Figures { answers, success_percent: Some(success), p99_milliseconds: Some(p99) }
}

#[test]
fn a_canary_that_does_well_gets_everything() {
    let trial = trial();
    let start = trial.begin(0);
    assert_eq!((start.phase, start.percent), (Phase::Watching, 5));
    assert_eq!(trial.next(&start, figures(1000, 100.0, 10.0), 9), start, "not yet");
    let waiting = trial.next(&start, figures(50, 100.0, 10.0), 10);
    assert_eq!(waiting.percent, 5);
    assert_eq!(waiting.message, "waits for traffic: 50 of 100 answers");
    let second = trial.next(&waiting, figures(100, 99.5, 150.0), 11);
    assert_eq!((second.step, second.percent, second.since), (1, 50, 11));
    let last = trial.next(&second, figures(200, 99.5, 150.0), 21);
    assert_eq!((last.phase, last.percent), (Phase::Promoted, 100));
    assert_eq!(trial.next(&last, figures(5000, 0.0, 900.0), 99), last, "it is over");
}

#[test]
fn a_canary_that_does_badly_is_rolled_back_at_once() {
    let trial = trial();
    let start = trial.begin(0);
    assert_eq!(trial.next(&start, figures(50, 10.0, 10.0), 1), start, "too little to judge by");
    for (found, message) in [
        (figures(200, 90.0, 10.0), "at 5%: 90.0% of answers are no errors, 99% must be"),
        (figures(200, 100.0, 300.0), "at 5%: one answer in a hundred takes 300 ms, 200 ms may be"),
    ] {
        let back = trial.next(&start, found, 1);
        assert_eq!((back.phase, back.percent), (Phase::RolledBack, 0));
        assert_eq!(back.message, message);
    }
}

#[test]
fn the_others_share_what_the_canary_does_not_get() {
    let policy: Policy = serde_json::from_value(serde_json::json!({
        "groups": [{"name": "v1", "service": "a"}, {"name": "v2", "service": "b"},
            {"name": "v3", "service": "c"}],
        "canary": {"group": "v2", "steps": [10], "stepSeconds": 1}}))
    .unwrap();
    let groups = policy.rules(Some(10)).split.unwrap().groups;
    let total: u32 = groups.values().sum();
    assert_eq!(groups["v2"] * 10, total, "a tenth: {groups:?}");
    assert_eq!(groups["v1"], groups["v3"]);
    let all = policy.rules(Some(100)).split.unwrap().groups;
    assert_eq!((all["v1"], all["v3"]), (0, 0));
}

#[test]
fn figures_are_of_all_edges() {
    let report = |rate: f64, success: f64, p99: f64| EdgeReport {
        demand: vec![Demand {
            global_ingress: "shop/web".to_owned(),
            backend: "web:80".to_owned(),
            requests_per_second: rate,
            clusters: vec![Sent {
                cluster: "c2".to_owned(),
                group: Some("v2".to_owned()),
                requests_per_second: rate,
                success_percent: Some(success),
                p99_milliseconds: Some(p99),
                ..Sent::default()
            }],
        }],
        ..EdgeReport::default()
    };
    let reports = [report(30.0, 100.0, 20.0), report(10.0, 80.0, 50.0)];
    let found = |group| Figures::of(7, reports.iter(), |global| global == "shop/web", group);
    assert_eq!(found("v2"), figures(7, 95.0, 50.0));
    assert_eq!(found("v1"), Figures { answers: 7, ..Figures::default() });
}
