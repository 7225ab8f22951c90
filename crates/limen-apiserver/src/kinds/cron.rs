//! Cron schedules, as far as telling good ones from bad ones goes. The words for the bad ones are
//! those of the library that Kubernetes reads schedules with.

/// A field of a schedule: its bounds and the names that stand for numbers.
struct Bounds {
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Bounds; 5] = [
    Bounds { low: 0, high: 59, names: &[] },
    Bounds { low: 0, high: 23, names: &[] },
    Bounds { low: 1, high: 31, names: &[] },
    Bounds { low: 1, high: 12, names: &MONTHS },
    Bounds { low: 0, high: 6, names: &DAYS },
];

/// Why a schedule is none.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let mut schedule = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        schedule = schedule.split_once(' ').map_or("", |(_, rest)| rest.trim());
    }
    if schedule.starts_with('@') {
        return check_descriptor(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let found = fields.join(" ");
        return Err(format!("expected exactly 5 fields, found {}: [{found}]", fields.len()));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            check_range(range, bounds)?;
        }
    }
    Ok(())
}

fn check_descriptor(schedule: &str) -> Result<(), String> {
    let known = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
    if known.contains(&schedule) {
        return Ok(());
    }
    match schedule.strip_prefix("@every ") {
        Some(duration) if is_duration(duration) => Ok(()),
        Some(duration) => {
            Err(format!("failed to parse duration {schedule}: time: invalid duration {duration:?}"))
        }
        None => Err(format!("unrecognized descriptor: {schedule}")),
    }
}

fn is_duration(text: &str) -> bool {
    let mut rest = text.trim_start_matches(['+', '-']);
    if rest == "0" {
        return true;
    }
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let next = unit.trim_start_matches(|c: char| c.is_alphabetic());
        let name = &unit[..unit.len() - next.len()];
        if unit.len() == rest.len() || !["ns", "us", "µs", "ms", "s", "m", "h"].contains(&name) {
            return false;
        }
        rest = next;
    }
    !text.is_empty()
}

fn check_range(range: &str, bounds: &Bounds) -> Result<(), String> {
    let parts: Vec<&str> = range.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let single = ends.len() == 1;
    let (low, mut high) = match ends[..] {
        ["*" | "?"] => (bounds.low, bounds.high),
        [low] => {
            let low = number(low, bounds)?;
            (low, low)
        }
        [low, high] => (number(low, bounds)?, number(high, bounds)?),
        _ => return Err(format!("too many hyphens: {range}")),
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            if single {
                high = bounds.high;
            }
            whole(step)?
        }
        _ => return Err(format!("too many slashes: {range}")),
    };
    if low < bounds.low {
        let least = bounds.low;
        return Err(format!("beginning of range ({low}) below minimum ({least}): {range}"));
    }
    if high > bounds.high {
        let most = bounds.high;
        return Err(format!("end of range ({high}) above maximum ({most}): {range}"));
    }
    if low > high {
        return Err(format!("beginning of range ({low}) beyond end of range ({high}): {range}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    Ok(())
}

fn number(text: &str, bounds: &Bounds) -> Result<u32, String> {
    let lower = text.to_lowercase();
    match (bounds.low..).zip(bounds.names).find(|(_, name)| **name == lower) {
        Some((number, _)) => Ok(number),
        None => whole(text),
    }
}

fn whole(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(_) => Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_schedules_are_told_from_bad_ones() {
        let good = ["* * * * *", "*/5 0-6 1,15 jan-mar MON", "@daily", "@every 1h30m", "0 0 ? * 6"];
        for schedule in good {
            assert_eq!(check(schedule), Ok(()), "{schedule}");
        }
        let bad = [
            ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
            ("61 * * * *", "end of range (61) above maximum (59): 61"),
            (
                "x * * * *",
                "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            ("@never", "unrecognized descriptor: @never"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
        ];
        for (schedule, reason) in bad {
            assert_eq!(check(schedule), Err(reason.to_owned()));
        }
    }
}
