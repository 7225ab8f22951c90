//! What comes of the scenarios that are shipped.

use std::path::Path;

use limen_core::simulate::{Report, Scenario, simulate};

fn report(name: &str) -> Report {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/simulate").join(name);
    let text = std::fs::read_to_string(file).unwrap();
    let scenario: Scenario = serde_saphyr::from_str(&text).unwrap();
    simulate(&scenario.checked().unwrap())
}

/// The share of requests that failed, in percent: Limen, DNS in turn, DNS to the nearest.
fn failed(report: &Report) -> [f64; 3] {
    [0, 1, 2].map(|index| report.outcomes[index].total.failed_percent())
}

#[test]
fn on_a_normal_day_hardly_anything_fails_and_only_the_evening_travels() {
    let report = report("normal-day.yaml");
    let [limen, _, nearest] = failed(&report);
    assert!(limen < 0.2, "{limen} % failed");
    assert!(nearest > 1.0, "the nearest cluster alone is not enough: {nearest} %");
    let [ours, turns, _] = [0, 1, 2].map(|index| &report.outcomes[index].total);
    assert!(ours.added < turns.added / 10.0, "{} and {} ms", ours.added, turns.added);
    assert!(ours.busiest < 1.02, "no cluster gets more than it can take: {}", ours.busiest);
    let share = ours.overflow / ours.requests;
    assert!(share > 0.005 && share < 0.1, "{share} of all requests overflow");
    let morning = &report.outcomes[0].steps[7 * 60];
    assert_eq!((morning.overflow, morning.added), (0.0, 0.0));
}

#[test]
fn the_loss_of_the_largest_region_at_peak_costs_hardly_a_request() {
    let report = report("region-loss.yaml");
    let [limen, turns, nearest] = failed(&report);
    assert!(limen < 0.1, "{limen} % failed");
    assert!(turns > limen && nearest > 2.0, "{turns} % and {nearest} %");
    let lost = &report.outcomes[0].steps[19 * 60 + 30];
    assert_eq!(lost.load[0], 0.0, "nobody is sent there");
    assert!(lost.load[1] > 550.0, "the next nearest is filled first: {:?}", lost.load);
    let back = &report.outcomes[0].steps[21 * 60];
    assert!(back.load[0] > 1000.0, "and it all comes back: {:?}", back.load);
}

#[test]
fn a_canary_that_goes_bad_is_taken_back() {
    let report = report("bad-canary.yaml");
    let most = report.canary.iter().max().unwrap();
    assert_eq!((*most, *report.canary.last().unwrap()), (25, 0));
    let [limen, turns, _] = failed(&report);
    assert!(limen < 0.1, "{limen} % failed");
    assert!(turns > 4.0, "{turns} %");
    let trial = &report.outcomes[0].steps[80];
    let share = trial.load[2] / trial.load.iter().sum::<f64>();
    assert!((share - 0.25).abs() < 0.005, "a quarter, whatever the geography: {share}");
}
