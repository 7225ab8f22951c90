//! Values that are text on the wire but mean something: base64 and quantities.

use base64::Engine;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

/// Base64 as the server writes it. Line breaks are skipped; the error names the place of the first
/// bad byte as Go counts it.
pub(crate) fn base64(text: &str) -> Result<String, String> {
    if let Some(place) = first_bad_byte(text.as_bytes()) {
        return Err(format!("illegal base64 data at input byte {place}"));
    }
    let joined: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let lenient = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    let decoded = GeneralPurpose::new(&base64::alphabet::STANDARD, lenient).decode(joined);
    decoded.map(|bytes| STANDARD.encode(bytes)).map_err(|error| error.to_string())
}

fn first_bad_byte(text: &[u8]) -> Option<usize> {
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let mut filled = 0;
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            byte if is_break(&byte) => {}
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => filled = (filled + 1) % 4,
            b'=' if filled >= 2 => {
                let skip =
                    |from: usize| from + text[from..].iter().take_while(|b| is_break(b)).count();
                let mut next = skip(at + 1);
                if filled == 2 {
                    match text.get(next) {
                        Some(b'=') => next = skip(next + 1),
                        Some(_) => return Some(next - 1),
                        None => return Some(text.len()),
                    }
                }
                return (next < text.len()).then_some(next);
            }
            _ => return Some(at),
        }
        at += 1;
    }
    (filled != 0).then(|| text.len() - filled)
}

/// Whether the text is a quantity such as `500m` or `1Gi`; the error is Go's.
pub(crate) fn check_quantity(text: &str) -> Result<(), &'static str> {
    const FORMAT: &str = "quantities must match the regular expression \
        '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    if text.is_empty() {
        return Err(FORMAT);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let after_whole = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
    let whole = &unsigned[..unsigned.len() - after_whole.len()];
    let (fraction, suffix) = match after_whole.strip_prefix('.') {
        Some(rest) => {
            let suffix = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            (&rest[..rest.len() - suffix.len()], suffix)
        }
        None => ("", after_whole),
    };
    let exponent = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if !digits.bytes().all(|c| c.is_ascii_digit()) {
        return Err(FORMAT);
    }
    let known =
        ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let scientific =
        suffix.strip_prefix(['e', 'E']).is_some_and(|power| power.parse::<i64>().is_ok());
    if !known.contains(&suffix) && !scientific {
        return Err("unable to parse quantity's suffix");
    }
    if whole.is_empty() && fraction.is_empty() && unsigned.len() != suffix.len() {
        return Err("unable to parse numeric part of quantity");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_errors_name_the_place() {
        let cases: [(&str, Result<&str, usize>); 11] = [
            ("", Ok("")),
            ("aGVsbG8=", Ok("aGVsbG8=")),
            ("aGVs\nbG8=\n", Ok("aGVsbG8=")),
            ("aGVsbG9=", Ok("aGVsbG8=")),
            ("x", Err(0)),
            ("aGVsbG8", Err(4)),
            ("aGVs!", Err(4)),
            ("aG=", Err(3)),
            ("aG=x", Err(2)),
            ("aGVsbG8=x", Err(8)),
            ("=", Err(0)),
        ];
        for (text, expected) in cases {
            let expected = expected.map(str::to_owned);
            let expected = expected.map_err(|at| format!("illegal base64 data at input byte {at}"));
            assert_eq!(base64(text), expected, "{text:?}");
        }
    }

    #[test]
    fn quantities_are_checked_as_in_kubernetes() {
        for text in ["0", "1", "-1.5", "500m", "1Gi", "1.", ".5", "1e3", "1E-3", "12E", "+2k"] {
            assert_eq!(check_quantity(text), Ok(()), "{text}");
        }
        let format = "quantities must match the regular expression \
            '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        for text in ["", "abc", "1 Gi", "1.2.3", "0x1"] {
            assert_eq!(check_quantity(text), Err(format), "{text}");
        }
        for text in ["1mm", "1KK", "1e"] {
            let error = "unable to parse quantity's suffix";
            assert_eq!(check_quantity(text), Err(error), "{text}");
        }
    }
}
