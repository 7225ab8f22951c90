//! Amounts of resources, such as `500m` of a CPU or `1Gi` of memory, in the form in which they are
//! kept: the largest unit that leaves a whole number.

use serde_json::Value;

const NANO: i128 = 1_000_000_000;

/// The unit family in which an amount was written, which it keeps.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Decimal,
    Exponent,
    Binary,
}

/// Rewrites the amount in its canonical form. What is no amount stays as it is.
pub(super) fn normalize(value: &mut Value) {
    rewrite(value, 1);
}

/// Rewrites every amount of a resource list, in thousandths at the finest.
pub(super) fn normalize_list(amounts: &mut Value) {
    for amount in amounts.as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
        rewrite(amount, NANO / 1000);
    }
}

fn rewrite(value: &mut Value, step: i128) {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return,
    };
    if let Some((nanos, form)) = parse(&text) {
        *value = canonical(round_up(nanos, step), form).into();
    }
}

fn round_up(nanos: i128, step: i128) -> i128 {
    let rest = nanos.rem_euclid(step);
    if rest == 0 { nanos } else { nanos - rest + step }
}

/// The amount in billionths, and its form.
fn parse(text: &str) -> Option<(i128, Form)> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let (scale, power, form) = unit(suffix)?;
    let power = power - i32::try_from(fraction.len()).ok()? + 9;
    let scaled = digits.checked_mul(scale)?;
    let nanos = match u32::try_from(power) {
        Ok(power) => scaled.checked_mul(10i128.checked_pow(power)?)?,
        Err(_) => {
            let divisor = 10i128.checked_pow(power.unsigned_abs())?;
            round_up(scaled, divisor) / divisor
        }
    };
    Some((if text.starts_with('-') { -nanos } else { nanos }, form))
}

/// What a suffix multiplies by: a factor and a power of ten.
fn unit(suffix: &str) -> Option<(i128, i32, Form)> {
    const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(n) = DECIMAL.iter().position(|unit| *unit == suffix) {
        return Some((1, i32::try_from(n).ok()? * 3 - 9, Form::Decimal));
    }
    if let Some(n) = BINARY.iter().position(|unit| *unit == suffix) {
        return Some((1i128 << (10 * (n + 1)), 0, Form::Binary));
    }
    let power = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((1, power, Form::Exponent))
}

fn canonical(nanos: i128, form: Form) -> String {
    if nanos == 0 {
        return "0".to_owned();
    }
    if form == Form::Binary && nanos.abs() >= 1024 * NANO {
        let mut whole = round_up(nanos, NANO) / NANO;
        let mut units = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
        let mut unit = units.next().unwrap_or_default();
        while whole % 1024 == 0 {
            let Some(next) = units.next() else { break };
            (whole, unit) = (whole / 1024, next);
        }
        return format!("{whole}{unit}");
    }
    let (mut amount, mut power) = (nanos, -9);
    while amount % 1000 == 0 && power < 18 {
        (amount, power) = (amount / 1000, power + 3);
    }
    let unit = match (form, power) {
        (_, 0) => String::new(),
        (Form::Exponent, power) => format!("e{power}"),
        (_, -9) => "n".to_owned(),
        (_, -6) => "u".to_owned(),
        (_, -3) => "m".to_owned(),
        (_, 3) => "k".to_owned(),
        (_, 6) => "M".to_owned(),
        (_, 9) => "G".to_owned(),
        (_, 12) => "T".to_owned(),
        (_, 15) => "P".to_owned(),
        _ => "E".to_owned(),
    };
    format!("{amount}{unit}")
}

/// Whether an amount is more than nothing.
pub(super) fn is_positive(value: &Value) -> bool {
    let text = super::table::plain(value);
    parse(&text).is_some_and(|(nanos, _)| nanos > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_kept_in_their_canonical_form() {
        let cases = [
            (json!("0.5"), "500m"),
            (json!(1), "1"),
            (json!(0.1), "100m"),
            (json!("1000m"), "1"),
            (json!("1024Mi"), "1Gi"),
            (json!("1.5Gi"), "1536Mi"),
            (json!("0.5Gi"), "512Mi"),
            (json!("512Ki"), "512Ki"),
            (json!("1000Ki"), "1000Ki"),
            (json!("128000000"), "128M"),
            (json!("1e3"), "1e3"),
            (json!("1E"), "1E"),
            (json!("0"), "0"),
            (json!("1500k"), "1500k"),
            (json!("0.0001"), "1m"),
            (json!("-1500m"), "-1500m"),
            (json!("nonsense"), "nonsense"),
        ];
        for (given, kept) in cases {
            let mut list = json!({"cpu": given});
            normalize_list(&mut list);
            assert_eq!(list["cpu"], kept, "{given}");
        }
    }
}
