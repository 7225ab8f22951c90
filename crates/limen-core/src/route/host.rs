//! The normal form of a host: lower case, without port and without the root's dot.

/// The longest name that DNS has, plus room for a trailing dot.
const LONGEST: usize = 254;

/// Room for a host that has to be changed to be in normal form.
pub struct HostBuffer([u8; LONGEST]);

impl Default for HostBuffer {
    fn default() -> Self {
        Self([0; LONGEST])
    }
}

/// The normal form of a `Host` header or a rule's host; nothing if it cannot be a host.
///
/// Most hosts are in normal form as they come and are returned as they are.
pub fn normal_host<'a>(host: &'a str, buffer: &'a mut HostBuffer) -> Option<&'a str> {
    let name = without_port(host)?;
    let name = match name.strip_suffix('.') {
        Some(rest) if !name.starts_with('[') => rest,
        _ => name,
    };
    if name.is_empty() || name.len() > LONGEST {
        return None;
    }
    let mut upper = false;
    let literal = name.starts_with('[');
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {}
            b'A'..=b'Z' => upper = true,
            b'[' | b']' | b':' | b'%' if literal => {}
            _ => return None,
        }
    }
    if !upper {
        return Some(name);
    }
    let room = &mut buffer.0[..name.len()];
    room.copy_from_slice(name.as_bytes());
    room.make_ascii_lowercase();
    std::str::from_utf8(room).ok()
}

fn without_port(host: &str) -> Option<&str> {
    let (name, port) = if host.starts_with('[') {
        let end = host.find(']')? + 1;
        match host[end..].strip_prefix(':') {
            Some(port) => (&host[..end], port),
            None if host.len() == end => (host, ""),
            None => return None,
        }
    } else {
        match host.split_once(':') {
            Some((name, port)) => (name, port),
            None => (host, ""),
        }
    };
    (port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
}
