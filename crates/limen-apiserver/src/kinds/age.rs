//! How long ago something was, as tables show it.

use jiff::Timestamp;
use serde_json::Value;

use super::fields::text;

/// The time between a timestamp in an object and now, or `<unknown>` if there is none.
pub(super) fn since(object: &Value, path: &str, now: i64) -> String {
    match seconds(text(object, path)) {
        Some(then) => human_duration(now - then),
        None => "<unknown>".to_owned(),
    }
}

/// The age of an object.
pub(super) fn age(object: &Value, now: i64) -> Value {
    since(object, "metadata.creationTimestamp", now).into()
}

/// A timestamp in Unix seconds.
pub(super) fn seconds(timestamp: &str) -> Option<i64> {
    timestamp.parse::<Timestamp>().ok().map(Timestamp::as_second)
}

/// A duration with two or three significant figures: `75s`, `5m10s`, `3d4h`. Clocks may differ a
/// little, so something that is to happen within the second has happened.
pub(crate) fn human_duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two_units(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two_units(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two_units(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two_units(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

fn two_units(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_kubectl_prints_them() {
        let (minute, hour, day) = (60, 3600, 86_400);
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (5 * minute + 10, "5m10s"),
            (9 * minute + 59, "9m59s"),
            (10 * minute + 30, "10m"),
            (3 * hour - 1, "179m"),
            (3 * hour, "3h"),
            (7 * hour + 59 * minute, "7h59m"),
            (8 * hour + 5 * minute, "8h"),
            (48 * hour - 1, "47h"),
            (3 * day + 4 * hour, "3d4h"),
            (8 * day - 1, "7d23h"),
            (8 * day, "8d"),
            (2 * 365 * day - 1, "729d"),
            (2 * 365 * day + 3 * day, "2y3d"),
            (8 * 365 * day, "8y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human_duration(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn an_object_without_a_timestamp_has_no_known_age() {
        assert_eq!(age(&serde_json::json!({}), 5), "<unknown>");
        let object = serde_json::json!({"metadata": {"creationTimestamp": "1970-01-01T00:01:00Z"}});
        assert_eq!(age(&object, 70), "10s");
    }
}
