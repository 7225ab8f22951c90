//! The formats that strings may be asked to have.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use super::schema_part::SchemaPart;
use crate::crd::dns;
use crate::crd::schema_json::text;

const TEXT_FORMATS: &[&str] = &[
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Whether a format of a type is one that values are checked for.
pub(in crate::crd) fn is_known(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => TEXT_FORMATS.contains(&normal(format).as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// The format that a part of a schema asks for; none if it is not one that is checked.
pub(super) fn of(part: SchemaPart<'_>) -> Option<&str> {
    let format = text(part.raw(), "format");
    let kind = match part.types().as_slice() {
        [only] => *only,
        _ => "",
    };
    (!format.is_empty() && is_known(kind, format)).then_some(format)
}

/// Whether a format is one of numbers.
pub(super) fn is_numeric(format: Option<&str>) -> bool {
    matches!(format, Some("int32" | "int64" | "float" | "double"))
}

fn normal(format: &str) -> String {
    format.replace('-', "")
}

/// Whether a text has a known format.
pub(super) fn matches(format: &str, value: &str) -> bool {
    match normal(format).as_str() {
        "bsonobjectid" => value.len() == 24 && value.bytes().all(|b| b.is_ascii_hexdigit()),
        "byte" => BASE64.is_match(value),
        "cidr" => is_cidr(value),
        "creditcard" => is_credit_card(value),
        "date" => is_date(value),
        "datetime" => is_date_time(value),
        "duration" => is_duration(value),
        "email" => is_email(value),
        "hexcolor" => HEX_COLOR.is_match(value),
        "hostname" => {
            HOSTNAME.is_match(value)
                && value.len() <= 255
                && value.split('.').all(|part| part.len() <= 63)
        }
        "ipv4" => value.contains('.') && sloppy_ip(value).is_some(),
        "ipv6" => value.contains(':') && value.parse::<Ipv6Addr>().is_ok(),
        "isbn" => is_isbn10(value) || is_isbn13(value),
        "isbn10" => is_isbn10(value),
        "isbn13" => is_isbn13(value),
        "k8slongname" => value.len() <= 253 && value.split('.').all(dns::is_label),
        "k8sshortname" => value.len() <= 63 && dns::is_label(value),
        "mac" => is_mac(value),
        "rgbcolor" => RGB_COLOR.is_match(value),
        "ssn" => value.len() == 11 && SSN.is_match(value),
        "uri" => is_request_uri(value),
        "uuid" => UUID.is_match(value),
        "uuid3" => UUID.is_match(value) && uuid_digit(value, 12) == Some('3'),
        "uuid4" | "uuid5" => {
            UUID.is_match(value)
                && uuid_digit(value, 12) == format.chars().last()
                && uuid_digit(value, 16)
                    .is_some_and(|c| matches!(c, '8' | '9' | 'a' | 'b' | 'A' | 'B'))
        }
        _ => true,
    }
}

fn pattern(pattern: &str) -> Regex {
    // The patterns below are constants that the tests go through.
    Regex::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"))
}

static BASE64: LazyLock<Regex> = LazyLock::new(|| {
    pattern("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$")
});
static HEX_COLOR: LazyLock<Regex> =
    LazyLock::new(|| pattern("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    let part = r"[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*";
    pattern(&format!(r"^rgb\({part},{part},{part}\)$"))
});
static SSN: LazyLock<Regex> = LazyLock::new(|| pattern("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static UUID: LazyLock<Regex> = LazyLock::new(|| {
    pattern("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
});
static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    let plain = r"[a-zA-Z0-9\p{S}\p{L}]";
    let dashed = r"[a-zA-Z0-9\-\p{S}\p{L}]";
    pattern(&format!(
        r"^({plain}((-?{plain}{{0,62}})?)|({plain}(({dashed}{{0,61}}{plain})?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}})$"
    ))
});
static DURATION_PART: LazyLock<Regex> =
    LazyLock::new(|| pattern("([0-9]+)[\\t\\n\\f\\r ]*([A-Za-zµ]+)"));
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    pattern("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$")
});
static CREDIT_CARD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
    )
});

fn uuid_digit(value: &str, n: usize) -> Option<char> {
    value.chars().filter(|c| *c != '-').nth(n)
}

/// An address that may have leading zeros.
fn sloppy_ip(value: &str) -> Option<IpAddr> {
    if value.contains(':') {
        return value.parse().ok();
    }
    let parts: Vec<&str> = value.split('.').collect();
    let part = |part: &str| {
        (!part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
            .then(|| part.parse::<u8>().ok())?
    };
    match parts.as_slice() {
        [a, b, c, d] => Some(IpAddr::from([part(a)?, part(b)?, part(c)?, part(d)?])),
        _ => None,
    }
}

fn is_cidr(value: &str) -> bool {
    let Some((address, length)) = value.split_once('/') else { return false };
    let most = match sloppy_ip(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    !length.is_empty()
        && length.bytes().all(|b| b.is_ascii_digit())
        && length.parse::<u32>().is_ok_and(|length| length <= most)
}

fn is_date(value: &str) -> bool {
    let shaped = value.len() == 10
        && value.bytes().enumerate().all(|(n, b)| match n {
            4 | 7 => b == b'-',
            _ => b.is_ascii_digit(),
        });
    shaped && value.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(value: &str) -> bool {
    if value.len() < 4 {
        return false;
    }
    let lower = value.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date)
        && TIME
            .captures(time)
            .is_some_and(|parts| &parts[1] <= "23" && &parts[2] <= "59" && &parts[3] <= "59")
}

fn is_duration(value: &str) -> bool {
    if is_go_duration(value) {
        return true;
    }
    let mut known = false;
    for part in DURATION_PART.captures_iter(value) {
        if part[1].parse::<i64>().is_err() {
            return false;
        }
        let unit = part[2].to_lowercase();
        let exact = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
        let prefix = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
        known |= exact.contains(&unit.as_str()) || prefix.iter().any(|name| unit.starts_with(name));
    }
    known
}

fn is_go_duration(value: &str) -> bool {
    let mut rest = value.strip_prefix(['-', '+']).unwrap_or(value);
    if rest == "0" {
        return true;
    }
    let mut any = false;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number = &rest[..end];
        if number.matches('.').count() > 1 || !number.bytes().any(|b| b.is_ascii_digit()) {
            return false;
        }
        rest = &rest[end..];
        let units = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        if !units.contains(&&rest[..unit_end]) {
            return false;
        }
        rest = &rest[unit_end..];
        any = true;
    }
    any
}

/// An address, alone or as in `Jane <jane@example.com>`.
fn is_email(value: &str) -> bool {
    let value = value.trim();
    let address = match value.strip_suffix('>') {
        Some(rest) => match rest.rsplit_once('<') {
            Some((_, address)) => address,
            None => return false,
        },
        None => value,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom = |text: &str| {
        !text.is_empty()
            && text.chars().all(|c| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c))
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.starts_with('[') && domain.ends_with(']');
    (quoted || local.split('.').all(atom)) && (literal || domain.split('.').all(atom))
}

fn is_credit_card(value: &str) -> bool {
    let digits: String = value.chars().filter(char::is_ascii_digit).collect();
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(n, b)| {
            let digit = u32::from(b - b'0') * if n % 2 == 1 { 2 } else { 1 };
            digit / 10 + digit % 10
        })
        .sum();
    CREDIT_CARD.is_match(&digits) && sum.is_multiple_of(10)
}

fn isbn_characters(value: &str) -> Vec<u8> {
    value.bytes().filter(|b| !b.is_ascii_whitespace() && *b != b'-').collect()
}

fn is_isbn10(value: &str) -> bool {
    let characters = isbn_characters(value);
    let digit = |n: usize, b: u8| match b {
        b'0'..=b'9' => Some(u32::from(b - b'0')),
        b'X' if n == 9 => Some(10),
        _ => None,
    };
    let sum: Option<u32> =
        characters.iter().enumerate().map(|(n, b)| Some(digit(n, *b)? * (n as u32 + 1))).sum();
    characters.len() == 10 && sum.is_some_and(|sum| sum.is_multiple_of(11))
}

fn is_isbn13(value: &str) -> bool {
    let characters = isbn_characters(value);
    if characters.len() != 13 || !characters.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let weight = |n: usize| if n.is_multiple_of(2) { 1 } else { 3 };
    let sum: u32 =
        characters.iter().enumerate().map(|(n, b)| weight(n) * u32::from(b - b'0')).sum();
    sum.is_multiple_of(10)
}

fn is_mac(value: &str) -> bool {
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|b| b.is_ascii_hexdigit())
    };
    [':', '-'].iter().any(|separator| {
        let parts: Vec<&str> = value.split(*separator).collect();
        [6, 8, 20].contains(&parts.len()) && parts.iter().all(|part| hex(part, 2))
    }) || {
        let parts: Vec<&str> = value.split('.').collect();
        [3, 4, 10].contains(&parts.len()) && parts.iter().all(|part| hex(part, 4))
    }
}

/// An absolute URI or an absolute path.
fn is_request_uri(value: &str) -> bool {
    if value.is_empty() || value.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return false;
    }
    if value == "*" {
        return true;
    }
    let percent = |text: &str| {
        text.bytes().enumerate().all(|(n, b)| {
            b != b'%'
                || text
                    .as_bytes()
                    .get(n + 1..n + 3)
                    .is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
        })
    };
    let path_of = |rest: &str| rest.split('?').next().unwrap_or_default().to_owned();
    if value.starts_with('/') {
        return percent(&path_of(value));
    }
    let Some((scheme, rest)) = value.split_once(':') else { return false };
    let scheme_is_good = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if !scheme_is_good {
        return false;
    }
    let Some(authority) = rest.strip_prefix("//") else { return true };
    let end = authority.find(['/', '?']).unwrap_or(authority.len());
    let host = authority[..end].rsplit('@').next().unwrap_or_default();
    let host_is_good =
        !host.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '|', '}']) && percent(host);
    let port = if host.starts_with('[') {
        host.rsplit(']').next()
    } else {
        host.find(':').map(|n| &host[n..])
    };
    let port_is_good = port.is_none_or(|port| {
        port.is_empty()
            || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
    });
    host_is_good && port_is_good && percent(&path_of(&authority[end..]))
}
