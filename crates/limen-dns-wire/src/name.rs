//! Names: labels with their lengths in front, in lower case, as they are on the wire.

/// The longest name, with the empty label at its end.
pub const LONGEST: usize = 255;

/// A name in lower case, without an allocation.
#[derive(Clone, Debug)]
pub struct Name {
    bytes: [u8; LONGEST],
    length: u8,
}

/// What is wrong with a name in a packet.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed;

impl Name {
    /// Reads a name that is not compressed, as it is in a question. Returns it with the position
    /// after it.
    pub fn read(packet: &[u8], start: usize) -> Result<(Self, usize), Malformed> {
        let mut name = Self { bytes: [0; LONGEST], length: 0 };
        let mut at = start;
        loop {
            let length = usize::from(*packet.get(at).ok_or(Malformed)?);
            // The two high bits are pointers and what was never standardised: nothing comes before
            // a question that a pointer could point to.
            if length > 63 {
                return Err(Malformed);
            }
            let next = at + 1 + length;
            if next - start > LONGEST {
                return Err(Malformed);
            }
            let label = packet.get(at..next).ok_or(Malformed)?;
            let to = &mut name.bytes[at - start..next - start];
            to.copy_from_slice(label);
            // A length is at most 63, which no letter is.
            to.make_ascii_lowercase();
            at = next;
            if length == 0 {
                name.length = (at - start) as u8;
                return Ok((name, at));
            }
        }
    }

    /// Its bytes on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Where each label starts, from the whole name to the root.
    pub fn label_starts(&self) -> impl Iterator<Item = usize> {
        let bytes = self.as_bytes();
        let mut next = Some(0);
        std::iter::from_fn(move || {
            let at = next?;
            let length = usize::from(bytes[at]);
            next = (length != 0).then_some(at + 1 + length);
            Some(at)
        })
    }
}

/// A name from text, `*` as the first label and a dot at the end allowed.
pub fn from_text(text: &str) -> Result<Box<[u8]>, String> {
    let wrong = |why: &str| format!("{text:?} is not a DNS name: {why}");
    let trimmed = text.strip_suffix('.').unwrap_or(text);
    let mut bytes = Vec::with_capacity(text.len() + 2);
    if trimmed.is_empty() {
        return Err(wrong("it is empty"));
    }
    for (index, label) in trimmed.split('.').enumerate() {
        if label.is_empty() {
            return Err(wrong("two dots have nothing between them"));
        }
        if label.len() > 63 {
            return Err(wrong("a label is longer than 63 bytes"));
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if !(label.bytes().all(allowed) || index == 0 && label == "*") {
            return Err(wrong("letters, digits, dashes and underscores only, or * in front"));
        }
        bytes.push(label.len() as u8);
        bytes.extend(label.bytes().map(|byte| byte.to_ascii_lowercase()));
    }
    bytes.push(0);
    if bytes.len() > LONGEST {
        return Err(wrong("it is longer than 253 bytes"));
    }
    Ok(bytes.into())
}

/// A name as text, without a dot at its end.
pub fn to_text(name: &[u8]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while let Some(length) = name.get(at).map(|length| usize::from(*length)).filter(|l| *l != 0) {
        if !text.is_empty() {
            text.push('.');
        }
        let label = name.get(at + 1..at + 1 + length).unwrap_or_default();
        text.push_str(&String::from_utf8_lossy(label));
        at += 1 + length;
    }
    text
}

/// Reads a name that may be compressed. Returns it in lower case, with the position after it.
pub fn read_compressed(packet: &[u8], start: usize) -> Option<(Vec<u8>, usize)> {
    let mut name = Vec::new();
    let (mut at, mut end) = (start, None);
    loop {
        match *packet.get(at)? {
            length @ 0..=63 => {
                let next = at + 1 + usize::from(length);
                name.extend(packet.get(at..next)?.iter().map(u8::to_ascii_lowercase));
                if name.len() > LONGEST {
                    return None;
                }
                at = next;
                if length == 0 {
                    return Some((name, end.unwrap_or(at)));
                }
            }
            high @ 0xC0.. => {
                let to = usize::from(high & 0x3F) << 8 | usize::from(*packet.get(at + 1)?);
                end.get_or_insert(at + 2);
                // Always towards the beginning, so that it cannot lead in circles.
                if to >= at {
                    return None;
                }
                at = to;
            }
            _ => return None,
        }
    }
}

/// The position after a name. A pointer ends it and is not followed, so it cannot lead in circles.
pub fn skip(packet: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *packet.get(at)? {
            0 => return Some(at + 1),
            length @ 1..=63 => at += 1 + usize::from(length),
            0xC0.. => return packet.get(at + 1).map(|_| at + 2),
            _ => return None,
        }
    }
}

/// Whether a name is another or below it. Both are in lower case.
pub fn is_within(name: &[u8], zone: &[u8]) -> bool {
    let mut at = 0;
    while name.len() - at >= zone.len() {
        if name[at..] == *zone {
            return true;
        }
        at += 1 + usize::from(name[at]);
    }
    false
}

/// The name without its first label.
pub fn parent(name: &[u8]) -> Option<&[u8]> {
    match name.first()? {
        0 => None,
        length => name.get(1 + usize::from(*length)..),
    }
}
