//! IP addresses and address ranges in fields.
//!
//! Older Kubernetes read addresses leniently (leading zeros, IPv4 in IPv6), and what it read that
//! way must be told apart from what is no address at all.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use serde_json::json;

use crate::field_error::{FieldError, FieldPath};

/// An address as lenient readers take it.
pub(super) fn lenient(value: &str) -> Option<IpAddr> {
    if value.contains(':') {
        return value.parse::<Ipv6Addr>().ok().map(|ip| match ip.to_ipv4_mapped() {
            Some(mapped) => IpAddr::V4(mapped),
            None => IpAddr::V6(ip),
        });
    }
    let octets: Option<Vec<u8>> = value.split('.').map(octet).collect();
    let octets: [u8; 4] = octets?.try_into().ok()?;
    Some(IpAddr::V4(Ipv4Addr::from(octets)))
}

fn octet(text: &str) -> Option<u8> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.trim_start_matches('0')).and_then(|text| match text {
        "" => Some(0),
        text => text.parse().ok(),
    })
}

/// Whether a text is an IPv6 address.
pub(super) fn is_ipv6(value: &str) -> bool {
    matches!(lenient(value), Some(IpAddr::V6(_)))
}

/// Adds what is wrong with an address.
pub(super) fn check_ip(errors: &mut Vec<FieldError>, field: &FieldPath, value: &str) {
    let mut wrong = |reason: &str| errors.push(FieldError::invalid(field, &json!(value), reason));
    if lenient(value).is_none() {
        return wrong("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
    match value.parse::<IpAddr>() {
        Err(_) => wrong("must not have leading 0s"),
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => {
            wrong("must not be an IPv4-mapped IPv6 address");
        }
        Ok(_) => {}
    }
}

/// Adds what is wrong with an address that must be in its shortest form too.
pub(super) fn check_canonical_ip(errors: &mut Vec<FieldError>, field: &FieldPath, value: &str) {
    let before = errors.len();
    check_ip(errors, field, value);
    if let Some(ip) = lenient(value)
        && errors.len() == before
        && ip.to_string() != value
    {
        let reason = format!("must be in canonical form ({:?})", ip.to_string());
        errors.push(FieldError::invalid(field, &json!(value), &reason));
    }
}

/// Adds what is wrong with an address range.
pub(super) fn check_cidr(errors: &mut Vec<FieldError>, field: &FieldPath, value: &str) {
    let mut wrong = |reason: &str| errors.push(FieldError::invalid(field, &json!(value), reason));
    if lenient_cidr(value).is_none() {
        return wrong("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    }
    match strict_cidr(value) {
        None => wrong("must not have leading 0s in IP or prefix length"),
        Some(IpNet::V6(net)) if net.addr().to_ipv4_mapped().is_some() => {
            wrong("must not have an IPv4-mapped IPv6 address");
        }
        Some(net) if net.addr() != net.network() => {
            wrong("must not have bits set beyond the prefix length");
        }
        Some(_) => {}
    }
}

fn strict_cidr(value: &str) -> Option<IpNet> {
    let (_, prefix) = value.split_once('/')?;
    let padded = prefix.len() > 1 && prefix.starts_with('0');
    value.parse().ok().filter(|_| !padded)
}

/// An address range as lenient readers take it.
pub(super) fn lenient_cidr(value: &str) -> Option<IpNet> {
    let (ip, prefix) = value.split_once('/')?;
    let digits = !prefix.is_empty() && prefix.bytes().all(|b| b.is_ascii_digit());
    let prefix = digits.then(|| prefix.parse().ok()).flatten()?;
    match ip.parse::<Ipv6Addr>() {
        Ok(ip) => IpNet::new(ip.into(), prefix).ok(),
        Err(_) => IpNet::new(lenient(ip)?, prefix).ok(),
    }
}

/// Adds what speaks against an address as that of an endpoint.
pub(super) fn check_endpoint_ip(errors: &mut Vec<FieldError>, field: &FieldPath, value: &str) {
    let mut wrong = |reason: &str| errors.push(FieldError::invalid(field, &json!(value), reason));
    let Some(ip) = lenient(value) else {
        return wrong("must be a valid IP address");
    };
    if ip.is_unspecified() {
        wrong(&format!("may not be unspecified ({value})"));
    }
    if ip.is_loopback() {
        wrong("may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (link_local, link_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => {
            (ip.segments()[0] & 0xffc0 == 0xfe80, ip.segments()[0] & 0xff0f == 0xff02)
        }
    };
    if link_local {
        wrong("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if link_local_multicast {
        wrong("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

/// What to warn of in an address that is well formed but oddly written.
pub(super) fn ip_warnings(field: &FieldPath, value: &str) -> Option<String> {
    let ip = lenient(value)?;
    let mapped = |ip: Ipv6Addr| ip.to_ipv4_mapped().is_some();
    match value.parse::<IpAddr>() {
        Err(_) => Some(format!(
            "{field}: non-standard IP address {value:?} is invalid: use {:?}",
            ip.to_string()
        )),
        Ok(IpAddr::V6(six)) if mapped(six) => Some(format!(
            "{field}: non-standard IP address {value:?} is invalid: use {:?}",
            ip.to_string()
        )),
        Ok(IpAddr::V6(six)) if six.to_string() != value => Some(format!(
            "{field}: IPv6 address {value:?} should be in RFC 5952 canonical format ({:?})",
            six.to_string()
        )),
        Ok(_) => None,
    }
}

/// What to warn of in an address range that is well formed but oddly written.
pub(super) fn cidr_warnings(field: &FieldPath, value: &str) -> Vec<String> {
    let Some(net) = lenient_cidr(value) else { return Vec::new() };
    let mut warnings = Vec::new();
    if net.addr() != net.network() {
        let single = format!("{}/{}", net.addr(), net.max_prefix_len());
        warnings.push(format!(
            "{field}: CIDR value {value:?} is ambiguous in this context (should be {:?} or {single:?}?)",
            net.trunc().to_string()
        ));
    }
    match strict_cidr(value) {
        None => warnings.push(format!(
            "{field}: non-standard CIDR value {value:?} is invalid: use {:?}",
            net.trunc().to_string()
        )),
        Some(IpNet::V6(six)) if warnings.is_empty() && six.to_string() != value => {
            warnings.push(format!(
                "{field}: IPv6 CIDR value {value:?} should be in RFC 5952 canonical format ({:?})",
                six.to_string()
            ));
        }
        Some(_) => {}
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_what_is_none() {
        let cases: [(&str, &[&str]); 6] = [
            ("10.0.0.1", &[]),
            ("2001:DB8::1", &[]),
            ("10.0.0.01", &["must not have leading 0s"]),
            ("::ffff:1.2.3.4", &["must not be an IPv4-mapped IPv6 address"]),
            ("10.0.0.256", &["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]),
            ("", &["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]),
        ];
        for (value, reasons) in cases {
            let mut errors = Vec::new();
            check_ip(&mut errors, &FieldPath::new("ip"), value);
            let shown = |reason: &&str| format!("ip: Invalid value: {value:?}: {reason}");
            let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(errors, reasons.iter().map(shown).collect::<Vec<_>>());
        }
    }

    #[test]
    fn ranges_have_no_bits_beyond_their_prefix() {
        let cases = [
            ("10.0.0.0/8", None),
            ("2001:db8::/32", None),
            ("10.0.0.1/8", Some("must not have bits set beyond the prefix length")),
            ("10.0.0.0/08", Some("must not have leading 0s in IP or prefix length")),
            (
                "10.0.0.0/33",
                Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
            ),
        ];
        for (value, reason) in cases {
            let mut errors = Vec::new();
            check_cidr(&mut errors, &FieldPath::new("cidr"), value);
            let expected = reason.map(|reason| format!("cidr: Invalid value: {value:?}: {reason}"));
            assert_eq!(errors.first().map(ToString::to_string), expected);
        }
    }
}
