//! HTTP/1 by the letter: every byte of a client's stream is looked at before anything acts on it.
//!
//! Two programs that disagree about where a request ends can be made to see different requests in
//! the same bytes. So whatever could be read in two ways is refused: bare line feeds, folded lines,
//! spaces before colons, more than one length or host, a length beside a transfer coding, any
//! transfer coding but `chunked`, chunk extensions. [`Strict`] follows the framing of the stream
//! and says at which byte it went wrong; it copies a line only when the line comes in pieces.

use memchr::memchr;

/// What is wrong with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// How many of the bytes just fed are good.
    pub(crate) good: usize,
    pub(crate) reason: &'static str,
}

/// Where in the stream the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before a request.
    Between,
    Headers,
    Body(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailers,
}

/// What a head has said so far.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    http10: bool,
    host: bool,
    length: Option<u64>,
    chunked: bool,
}

/// Follows one client's stream.
#[derive(Debug)]
pub(crate) struct Strict {
    place: Place,
    head: Head,
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
    /// Empty lines before a request: one is tolerated.
    blank: u8,
    /// Bytes of the head so far.
    seen: usize,
    most: usize,
    /// The head is longer than it may be. Whoever parses it says so, with the right status.
    too_long: bool,
}

type Judged = Result<(), &'static str>;

impl Strict {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            place: Place::Between,
            head: Head::default(),
            partial: Vec::new(),
            blank: 0,
            seen: 0,
            most,
            too_long: false,
        }
    }

    /// Whether the stream is in the middle of a head.
    pub(crate) fn in_head(&self) -> bool {
        self.place == Place::Headers || (self.place == Place::Between && !self.partial.is_empty())
    }

    /// Looks at the next bytes of the stream.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        let mut at = 0;
        while at < bytes.len() && !self.too_long {
            let rest = &bytes[at..];
            let (used, judged) = match self.place {
                Place::Body(left) => {
                    let used = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    let left = left - used as u64;
                    self.place = if left == 0 { Place::Between } else { Place::Body(left) };
                    (used, Ok(()))
                }
                Place::ChunkData(left) => {
                    let used = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    let left = left - used as u64;
                    self.place = if left == 0 { Place::ChunkEnd } else { Place::ChunkData(left) };
                    (used, Ok(()))
                }
                _ => self.line(rest),
            };
            if let Err(reason) = judged {
                return Err(Violation { good: at, reason });
            }
            at += used;
        }
        Ok(())
    }

    /// Takes one line, or the beginning of one.
    fn line(&mut self, rest: &[u8]) -> (usize, Judged) {
        let Some(end) = memchr(b'\n', rest) else {
            self.count(rest.len());
            self.partial.extend_from_slice(rest);
            // Lines of a body are short by nature; an endless one is nothing to wait for.
            let endless =
                matches!(self.place, Place::ChunkSize | Place::ChunkEnd) && self.partial.len() > 18;
            let judged = if endless { Err("an endless chunk size") } else { Ok(()) };
            return (rest.len(), judged);
        };
        self.count(end + 1);
        let judged = if self.partial.is_empty() {
            self.whole_line(&rest[..end])
        } else {
            let mut line = std::mem::take(&mut self.partial);
            line.extend_from_slice(&rest[..end]);
            let judged = self.whole_line(&line);
            line.clear();
            self.partial = line;
            judged
        };
        (end + 1, judged)
    }

    fn count(&mut self, bytes: usize) {
        if matches!(self.place, Place::Between | Place::Headers | Place::Trailers) {
            self.seen += bytes;
            self.too_long = self.seen > self.most;
        }
    }

    fn whole_line(&mut self, line: &[u8]) -> Judged {
        let Some((b'\r', line)) = line.split_last() else { return Err("a bare line feed") };
        match self.place {
            Place::Between => self.request_line(line),
            Place::Headers if line.is_empty() => self.end_of_head(),
            Place::Headers => self.header(line),
            Place::ChunkSize => self.chunk_size(line),
            Place::ChunkEnd => {
                self.place = Place::ChunkSize;
                if line.is_empty() { Ok(()) } else { Err("a chunk longer than its size") }
            }
            Place::Trailers if line.is_empty() => {
                self.next_request();
                Ok(())
            }
            Place::Trailers => {
                let (name, _) = field(line)?;
                match kind(name)? {
                    Kind::Other => Ok(()),
                    _ => Err("a trailer that would change the framing"),
                }
            }
            Place::Body(_) | Place::ChunkData(_) => Ok(()),
        }
    }

    fn next_request(&mut self) {
        self.place = Place::Between;
        (self.seen, self.blank) = (0, 0);
    }

    fn request_line(&mut self, line: &[u8]) -> Judged {
        if line.is_empty() {
            self.blank += 1;
            return if self.blank > 1 { Err("empty lines before a request") } else { Ok(()) };
        }
        let mut parts = line.split(|byte| *byte == b' ');
        let (method, target, version) = (parts.next(), parts.next(), parts.next());
        let (Some(method), Some(target), Some(version), None) =
            (method, target, version, parts.next())
        else {
            return Err("a request line that is not three words");
        };
        if method.is_empty() || !method.iter().all(|byte| is_token(*byte)) {
            return Err("a method that is not a token");
        }
        if target.is_empty() || !target.iter().all(u8::is_ascii_graphic) || target.contains(&b'#') {
            return Err("a request target with characters that it cannot have");
        }
        self.head = Head::default();
        match version {
            b"HTTP/1.1" => {}
            b"HTTP/1.0" => self.head.http10 = true,
            _ => return Err("a version that is not HTTP/1.1 or HTTP/1.0"),
        }
        self.place = Place::Headers;
        Ok(())
    }

    fn header(&mut self, line: &[u8]) -> Judged {
        let (name, value) = field(line)?;
        match kind(name)? {
            Kind::Other => {}
            Kind::Host if self.head.host => return Err("more than one host"),
            Kind::Host => {
                self.head.host = true;
                if !may_be_host(value) {
                    return Err("a host with characters that it cannot have");
                }
            }
            Kind::Length if self.head.length.is_some() => return Err("more than one length"),
            Kind::Length => self.head.length = Some(decimal(value).ok_or("a length that is none")?),
            Kind::Coding if self.head.chunked => return Err("more than one transfer coding"),
            Kind::Coding if value == b"chunked" => self.head.chunked = true,
            Kind::Coding => return Err("a transfer coding other than chunked"),
        }
        Ok(())
    }

    fn end_of_head(&mut self) -> Judged {
        let Head { http10, host, length, chunked } = self.head;
        if !host && !http10 {
            return Err("no host");
        }
        if chunked && http10 {
            return Err("a transfer coding in HTTP/1.0");
        }
        match (length, chunked) {
            (Some(_), true) => return Err("both a length and a transfer coding"),
            (Some(length), false) if length > 0 => {
                self.next_request();
                self.place = Place::Body(length);
            }
            (_, false) => self.next_request(),
            (None, true) => {
                self.next_request();
                self.place = Place::ChunkSize;
            }
        }
        Ok(())
    }

    fn chunk_size(&mut self, line: &[u8]) -> Judged {
        if line.is_empty() || line.len() > 15 {
            return Err("a chunk size that is none");
        }
        let mut size = 0_u64;
        for byte in line {
            let digit = (*byte as char).to_digit(16).ok_or("a chunk size that is none")?;
            size = size * 16 + u64::from(digit);
        }
        self.place = if size == 0 { Place::Trailers } else { Place::ChunkData(size) };
        Ok(())
    }
}

/// What a header means for the framing.
enum Kind {
    Host,
    Length,
    Coding,
    Other,
}

fn kind(name: &[u8]) -> Result<Kind, &'static str> {
    let known = match name.len() {
        4 if name.eq_ignore_ascii_case(b"host") => return Ok(Kind::Host),
        14 => &b"content-length"[..],
        17 => &b"transfer-encoding"[..],
        _ => return Ok(Kind::Other),
    };
    if name.eq_ignore_ascii_case(known) {
        return Ok(if name.len() == 14 { Kind::Length } else { Kind::Coding });
    }
    // Applications that take underscores for dashes would see another framing than ours.
    let same = |(one, other): (&u8, &u8)| {
        one.eq_ignore_ascii_case(other) || (*one == b'_' && *other == b'-')
    };
    if name.iter().zip(known).all(same) {
        return Err("a framing header spelt with an underscore");
    }
    Ok(Kind::Other)
}

/// The name and the value of a header line.
fn field(line: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    if matches!(line.first(), Some(b' ' | b'\t')) {
        return Err("a folded line");
    }
    let colon = memchr(b':', line).ok_or("a header without a colon")?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
        return Err("a header name that is not a token");
    }
    if value.iter().any(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f) {
        return Err("a control character in a header");
    }
    Ok((name, value))
}

/// Whether a value has only characters that hosts and ports have.
pub(super) fn may_be_host(value: &[u8]) -> bool {
    !value.iter().any(|byte| !byte.is_ascii_graphic() || b",/\\@?#\"<>".contains(byte))
}

fn decimal(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(value.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &[u8] = b"\r\nPOST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
        3\r\nabc\r\nA\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n\
        PUT /b HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n\n\n\n\nGET / HTTP/1.0\r\n\r\n";

    #[test]
    fn streams_are_followed_over_many_requests() {
        let mut strict = Strict::new(1000);
        assert_eq!(strict.feed(GOOD), Ok(()));
        assert!(!strict.in_head());
        strict.feed(b"GE").unwrap();
        assert!(strict.in_head());
    }

    #[test]
    fn the_place_of_a_violation_is_the_beginning_of_its_line() {
        let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n";
        let violation = Strict::new(1000).feed(bytes).unwrap_err();
        assert_eq!(violation.good, 25);
    }

    #[test]
    fn heads_that_are_too_long_are_left_to_the_parser() {
        let mut strict = Strict::new(64);
        let long = [b"GET / HTTP/1.1\r\nX: ".to_vec(), vec![b'a'; 100]].concat();
        assert_eq!(strict.feed(&long), Ok(()));
        assert_eq!(strict.feed(b"\n\n\n"), Ok(()));
    }

    proptest! {
        #[test]
        fn pieces_are_judged_like_the_whole(
            bytes in prop_oneof![
                Just(GOOD.to_vec()),
                (0..GOOD.len(), any::<u8>()).prop_map(|(at, byte)| {
                    let mut bytes = GOOD.to_vec();
                    bytes[at] = byte;
                    bytes
                }),
                prop::collection::vec(prop::sample::select(b"GET /:\r\n\thost1 HTTP.0;x".to_vec()), 0..80),
            ],
            cuts in prop::collection::vec(1_usize..30, 0..20),
        ) {
            let whole = Strict::new(1000).feed(&bytes).err().map(|violation| violation.reason);
            let (mut strict, mut rest, mut pieces) = (Strict::new(1000), &bytes[..], None);
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (piece, later) = rest.split_at(cut.min(rest.len()));
                if let Err(violation) = strict.feed(piece) {
                    pieces = Some(violation.reason);
                    break;
                }
                rest = later;
            }
            // A chunk size that never ends is given up on before its line is complete.
            if pieces != Some("an endless chunk size") {
                prop_assert_eq!(whole, pieces);
            }
        }
    }
}
