//! Bounds and multiples of numbers.

use serde_json::Value;

use super::schema_part::SchemaPart;

/// What is wrong with a number.
pub(super) enum Wrong {
    /// The value, as it is shown, and what is said of it.
    Value(Value, String),
    /// What is said of a schema that asks the impossible.
    Schema(String),
}

/// Reports what is wrong with a number.
pub(super) fn check(
    part: SchemaPart<'_>,
    format: Option<&str>,
    value: &Value,
    path: &str,
    report: &mut dyn FnMut(Wrong),
) {
    let kind = match part.types().as_slice() {
        [only] if ["integer", "number"].contains(only) => *only,
        _ => "",
    };
    let Some(number) = value.as_f64() else { return };
    let whole = value.as_i64();
    let out_of_range = |number: f64, what: &str| {
        let fits = match (kind, format) {
            ("integer", Some("int32")) => {
                number.fract() == 0.0
                    && number >= f64::from(i32::MIN)
                    && number <= f64::from(i32::MAX)
            }
            ("integer", _) => number.fract() == 0.0 && number.abs() < 9.223_372_036_854_776e18,
            ("number", Some("float")) => number.abs() <= f64::from(f32::MAX),
            _ => true,
        };
        let of =
            format.map_or("(default format)".to_owned(), |format| format!("with format {format}"));
        (!fits).then(|| format!("{what} value must be of type {kind} {of} in {path}"))
    };
    if whole.is_none() || format == Some("int32") {
        out_of_range(number, "Checked").into_iter().for_each(|wrong| report(Wrong::Schema(wrong)));
    }
    // Whole numbers are compared and shown as such where the bound is one too.
    let shown = |bound: f64| match whole {
        Some(_) if bound.abs() < 9.0e18 => Value::from(bound.trunc() as i64).to_string(),
        _ => float(bound),
    };
    let in_body =
        |sentence: String| Wrong::Value(value.clone(), format!("{path} in body {sentence}"));
    if let Some(factor) = part.number("multipleOf") {
        out_of_range(factor, "MultipleOf")
            .into_iter()
            .for_each(|wrong| report(Wrong::Schema(wrong)));
        let whole_factor = whole.is_some() && (kind != "integer" || factor.fract() == 0.0);
        let factor = if whole_factor { factor.trunc() } else { factor };
        if factor <= 0.0 {
            let shown = shown(factor);
            let sentence =
                format!("factor MultipleOf declared for {path} must be positive: {shown}");
            report(Wrong::Value(number_value(factor, whole_factor), sentence));
        } else {
            let multiple = match whole.filter(|_| whole_factor) {
                Some(whole) => whole % (factor as i64).max(1) == 0,
                None => {
                    let times = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
                    is_whole(times)
                }
            };
            if !multiple {
                report(in_body(format!("should be a multiple of {}", shown(factor))));
            }
        }
    }
    if let Some(least) = part.number("minimum") {
        out_of_range(least, "Minimum boundary")
            .into_iter()
            .for_each(|wrong| report(Wrong::Schema(wrong)));
        let exclusive = part.raw().get("exclusiveMinimum") == Some(&Value::Bool(true));
        let least = if whole.is_some() && kind != "number" { least.trunc() } else { least };
        if number < least || exclusive && number <= least {
            let or = if exclusive { "" } else { "or equal to " };
            report(in_body(format!("should be greater than {or}{}", shown(least))));
        }
    }
    if let Some(most) = part.number("maximum") {
        out_of_range(most, "Maximum boundary")
            .into_iter()
            .for_each(|wrong| report(Wrong::Schema(wrong)));
        let exclusive = part.raw().get("exclusiveMaximum") == Some(&Value::Bool(true));
        let most = if whole.is_some() && kind != "number" { most.trunc() } else { most };
        if number > most || exclusive && number >= most {
            let or = if exclusive { "" } else { "or equal to " };
            report(in_body(format!("should be less than {or}{}", shown(most))));
        }
    }
}

fn number_value(number: f64, whole: bool) -> Value {
    if whole { Value::from(number as i64) } else { Value::from(number) }
}

/// Whether a number is whole, as far as floating point can tell.
fn is_whole(number: f64) -> bool {
    if !number.is_finite() || number.abs() > 9_007_199_254_740_991.0 {
        return false;
    }
    let nearest = number.trunc();
    let difference = (number - nearest).abs();
    let size = number.abs() + nearest.abs();
    difference == 0.0
        || (size < f64::MIN_POSITIVE && difference < 1e-9 * f64::MIN_POSITIVE)
        || difference / size < 1e-9
}

/// A number the way Go writes it.
fn float(number: f64) -> String {
    if number != 0.0 && (number.abs() >= 1e21 || number.abs() < 1e-4) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or_default();
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    number.to_string()
}
