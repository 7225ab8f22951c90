//! Small scenarios.

use super::*;

fn scenario(text: serde_json::Value) -> Result<Scenario, String> {
    let scenario: Scenario = serde_json::from_value(text).map_err(|error| error.to_string())?;
    scenario.checked().map_err(|error| error.to_string())
}

fn two() -> serde_json::Value {
    serde_json::json!({
        "name": "two", "hours": 1.0,
        "clusters": [
            {"name": "near", "requestsPerSecond": 100.0},
            {"name": "far", "requestsPerSecond": 300.0}],
        "clients": [
            {"region": "eu", "requestsPerSecond": 200.0, "lowestPercent": 100.0}],
        "latency": {"eu": {"near": 5.0, "far": 80.0}}})
}

#[test]
fn what_is_beyond_the_nearest_cluster_goes_to_the_next_and_nothing_fails() {
    let report = simulate(&scenario(two()).unwrap());
    let [limen, turns, nearest] = &report.outcomes[..] else { panic!("three ways") };
    let step = &limen.steps[30];
    assert!((step.load[0] - 100.0).abs() < 5.0, "{step:?}");
    assert!((step.load[1] - 100.0).abs() < 5.0, "{step:?}");
    assert!(limen.total.failed_percent() < 1.5, "{:?}", limen.total);
    assert!(limen.total.busiest <= 1.05);
    assert!((step.overflow - 100.0).abs() < 5.0);
    assert_eq!(turns.steps[30].load, [100.0, 100.0]);
    assert_eq!(nearest.steps[30].load, [200.0, 0.0]);
    assert!((nearest.total.failed_percent() - 50.0).abs() < 1.0);
    assert!((step.added - 37.5).abs() < 2.0, "half of them travel 75 ms further");
}

#[test]
fn a_cluster_that_fails_costs_dns_its_time_to_live_and_limen_nothing() {
    let mut text = two();
    text["clusters"][0]["requestsPerSecond"] = 300.0.into();
    text["events"] = serde_json::json!([{"hour": 0.5, "cluster": "near", "down": true}]);
    let report = simulate(&scenario(text).unwrap());
    let failed: Vec<f64> = report.outcomes.iter().map(|outcome| outcome.total.failed).collect();
    assert_eq!(failed[0], 0.0);
    // Detection of 30 s, and a minute in which answers run out: half of it, all of it.
    assert!((failed[1] - 100.0 * 60.0).abs() < 1500.0, "{failed:?}");
    assert!((failed[2] - 200.0 * 60.0).abs() < 3000.0, "{failed:?}");
}

#[test]
fn the_same_scenario_gives_the_same_report() {
    let scenario = scenario(two()).unwrap();
    assert_eq!(simulate(&scenario), simulate(&scenario));
}

#[test]
fn mistakes_are_named() {
    for (path, value, part) in [
        ("/clusters", serde_json::json!([]), "at least one entry under clusters"),
        ("/hours", serde_json::json!(0.0), "hours is 0: write a number above 0"),
        ("/hours", serde_json::json!(1e6), "steps are too many"),
        ("/clusters/1/name", serde_json::json!("near"), "two clusters called near"),
        ("/clusters/0/requestsPerSecond", serde_json::json!(-1.0), "requestsPerSecond of near"),
        ("/latency/eu", serde_json::json!({"x": 1.0}), "names the cluster x"),
    ] {
        let mut text = two();
        *text.pointer_mut(path).unwrap() = value;
        let error = scenario(text).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
}
