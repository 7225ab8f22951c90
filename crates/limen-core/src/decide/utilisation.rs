//! What backends say about how busy they are.

/// The header that backends report their load in.
pub const LOAD_HEADER: &str = "endpoint-load-metrics";

/// How busy a backend says it is, from 0 to 1 and above, in the text or JSON form of an ORCA load
/// report. What the application says of itself comes before what its processor does.
pub fn utilisation(report: &str) -> Option<f64> {
    let report = report.trim();
    let found = if let Some(json) = report.strip_prefix("JSON ") {
        let value: serde_json::Value = serde_json::from_str(json).ok()?;
        let field = |name: &str| value.get(name).and_then(serde_json::Value::as_f64);
        field("application_utilization").or_else(|| field("cpu_utilization"))
    } else {
        let pairs = report.strip_prefix("TEXT ").unwrap_or(report);
        let field = |name: &str| {
            let mut pairs = pairs.split(',').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| key.trim() == name)?.1.trim().parse::<f64>().ok()
        };
        field("application_utilization").or_else(|| field("cpu_utilization"))
    };
    found.filter(|value| value.is_finite() && (0.0..=100.0).contains(value))
}

/// What a target can take, by what people have declared and by what it says of itself.
///
/// What is declared is a ceiling: whoever declared it may know of a limit that the target does not
/// see, such as a database behind it. Below that the target knows better: one that is busier than
/// was expected gets less. Where nothing is declared, what it says is all that is known.
pub fn known_capacity(declared: Option<f64>, reported: Option<f64>) -> Option<f64> {
    match (declared, reported) {
        (Some(declared), Some(reported)) => Some(declared.min(reported)),
        (one, other) => one.or(other),
    }
}

/// The capacity of a target that is this busy with this many requests in a second.
///
/// Below a tenth of its strength nothing can be said: then it has room, and the answer is nothing.
pub fn capacity_at(requests_per_second: f64, utilisation: f64) -> Option<f64> {
    (utilisation >= 0.1 && requests_per_second > 0.0).then(|| requests_per_second / utilisation)
}
