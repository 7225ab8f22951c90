//! The head of an answer, and where its body ends.

use std::ops::Range;

use limen_core::decide::{LOAD_HEADER, utilisation};

/// Header lines of an answer.
const MOST_HEADERS: usize = 64;

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is none.
    None,
    Length(u64),
    Chunked,
    /// With the connection.
    Close,
}

/// The head of an answer. Everything is a place in the bytes it was read from.
#[derive(Debug)]
pub(crate) struct AnswerHead {
    pub(crate) end: usize,
    pub(crate) status: u16,
    pub(crate) reason: Range<usize>,
    /// Runs of header lines that are passed on as they are.
    pub(crate) lines: Vec<Range<usize>>,
    pub(crate) framing: Framing,
    /// Whether the connection can be used again.
    pub(crate) keep: bool,
    pub(crate) hsts: bool,
    /// How busy the target says it is.
    pub(crate) load: Option<f64>,
}

/// Reads the head of an answer; nothing if it has not ended yet.
pub(crate) fn parse(bytes: &[u8], to_head: bool) -> Result<Option<AnswerHead>, &'static str> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut fields);
    let end = match response.parse(bytes) {
        Ok(httparse::Status::Complete(end)) => end,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err("the answer is not HTTP"),
    };
    let start = bytes.as_ptr() as usize;
    let place = |slice: &[u8]| {
        let from = slice.as_ptr() as usize - start;
        from..from + slice.len()
    };
    let status = response.code.unwrap_or(0);
    if !(100..1000).contains(&status) {
        return Err("the answer has no status");
    }
    let mut head = AnswerHead {
        end,
        status,
        reason: place(response.reason.unwrap_or_default().as_bytes()),
        lines: Vec::with_capacity(4),
        framing: Framing::Close,
        keep: response.version == Some(1),
        hsts: false,
        load: None,
    };
    let (mut length, mut chunked) = (None, false);
    let named = named_for_one_hop(response.headers);
    for field in response.headers.iter() {
        let (name, value) = (field.name.as_bytes(), field.value);
        match name.len() {
            7 if name.eq_ignore_ascii_case(b"upgrade") => continue,
            10 if name.eq_ignore_ascii_case(b"keep-alive") => continue,
            10 if name.eq_ignore_ascii_case(b"connection") => {
                let mut tokens = value.split(|byte| *byte == b',');
                head.keep &= !tokens.any(|token| token.trim_ascii().eq_ignore_ascii_case(b"close"));
                continue;
            }
            21 if name.eq_ignore_ascii_case(LOAD_HEADER.as_bytes()) => {
                head.load = std::str::from_utf8(value).ok().and_then(utilisation);
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let digits = !value.is_empty() && value.len() < 19;
                let digits = digits && value.iter().all(u8::is_ascii_digit);
                let number = value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit & 15));
                if !digits || length.replace(number).is_some_and(|other| other != number) {
                    return Err("the answer has no clear length");
                }
            }
            16 if name.eq_ignore_ascii_case(b"proxy-connection") => continue,
            _ if named.iter().any(|other| name.eq_ignore_ascii_case(other)) => continue,
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                if chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err("the answer has a transfer coding that is not understood");
                }
                chunked = true;
            }
            25 if name.eq_ignore_ascii_case(b"strict-transport-security") => head.hsts = true,
            _ => {}
        }
        let (from, value_end) = (place(name).start, place(value).end);
        // What space there is at the end of the line is passed on with it.
        let to = value_end + memchr::memchr(b'\n', &bytes[value_end..]).unwrap_or(0) + 1;
        if bytes[to - 2] != b'\r' {
            return Err("the answer has a bare line feed");
        }
        match head.lines.last_mut() {
            Some(last) if last.end == from => last.end = to,
            _ => head.lines.push(from..to),
        }
    }
    head.framing = match (length, chunked) {
        (Some(_), true) => return Err("the answer has both a length and a transfer coding"),
        _ if to_head || status < 200 || status == 204 || status == 304 => Framing::None,
        (Some(0), _) => Framing::None,
        (Some(length), _) => Framing::Length(length),
        (None, true) => Framing::Chunked,
        (None, false) => Framing::Close,
    };
    head.keep &= head.framing != Framing::Close;
    Ok(Some(head))
}

/// The headers that `Connection` says are for one hop only. Hardly ever any.
fn named_for_one_hop<'a>(headers: &[httparse::Header<'a>]) -> Vec<&'a [u8]> {
    let mut named = Vec::new();
    for header in headers {
        if header.name.len() != 10 || !header.name.eq_ignore_ascii_case("connection") {
            continue;
        }
        for token in header.value.split(|byte| *byte == b',') {
            let token = token.trim_ascii();
            let framing: [&[u8]; 4] =
                [b"close", b"keep-alive", b"content-length", b"transfer-encoding"];
            if !token.is_empty() && !framing.iter().any(|known| token.eq_ignore_ascii_case(known)) {
                named.push(token);
            }
        }
    }
    named
}

/// Follows chunks to their end.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    place: ChunkPlace,
    size: u64,
    digits: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkPlace {
    #[default]
    Size,
    Extension,
    SizeFeed,
    Data,
    DataReturn,
    DataFeed,
    /// At the beginning of a line of trailers.
    Trailer,
    TrailerLine,
    LastFeed,
    End,
}

/// What bytes of a chunked body are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkPart {
    Data,
    /// Lines after the last chunk, with their ends.
    Trailer,
}

impl Chunks {
    /// How many of these bytes belong to the body. It is at its end when that is so said.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        self.take_apart(bytes, |_, _| {})
    }

    /// The same, and tells which of the bytes are more than framing.
    pub(super) fn take_apart(
        &mut self,
        bytes: &[u8],
        mut found: impl FnMut(ChunkPart, Range<usize>),
    ) -> Result<usize, &'static str> {
        use ChunkPlace::{
            Data, DataFeed, DataReturn, End, Extension, LastFeed, Size, SizeFeed, Trailer,
            TrailerLine,
        };
        let wrong = Err("the answer's chunks are malformed");
        let mut at = 0;
        while at < bytes.len() && self.place != End {
            let byte = bytes[at];
            if self.place == Data {
                let used = usize::try_from(self.size).unwrap_or(usize::MAX).min(bytes.len() - at);
                self.size -= used as u64;
                found(ChunkPart::Data, at..at + used);
                at += used;
                if self.size == 0 {
                    self.place = DataReturn;
                }
                continue;
            }
            let before = self.place;
            self.place = match (before, byte) {
                (Size, b'\r') if self.digits > 0 => SizeFeed,
                (Size, b';' | b' ' | b'\t') if self.digits > 0 => Extension,
                (Size, digit) if digit.is_ascii_hexdigit() && self.digits < 15 => {
                    let digit = (digit as char).to_digit(16).unwrap_or(0);
                    self.size = self.size * 16 + u64::from(digit);
                    self.digits += 1;
                    Size
                }
                (Extension, b'\r') => SizeFeed,
                (Extension, b'\n') => return wrong,
                (Extension, _) => Extension,
                (SizeFeed, b'\n') if self.size == 0 => Trailer,
                (SizeFeed, b'\n') => Data,
                (DataReturn, b'\r') => DataFeed,
                (DataFeed, b'\n') => {
                    self.digits = 0;
                    Size
                }
                (Trailer, b'\r') => LastFeed,
                (Trailer | TrailerLine, b'\n') => Trailer,
                (Trailer | TrailerLine, _) => TrailerLine,
                (LastFeed, b'\n') => End,
                _ => return wrong,
            };
            if matches!(self.place, Trailer | TrailerLine | LastFeed | End) && before != SizeFeed {
                found(ChunkPart::Trailer, at..at + 1);
            }
            at += 1;
        }
        Ok(at)
    }

    pub(crate) fn ended(&self) -> bool {
        self.place == ChunkPlace::End
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framings_are_those_of_the_specification() {
        let framing = |head: &str, to_head| {
            let text = format!("HTTP/1.1 {head}\r\n\r\n");
            parse(text.as_bytes(), to_head).map(|head| head.unwrap().framing)
        };
        for (head, expected) in [
            ("200 OK\r\nContent-Length: 5", Framing::Length(5)),
            ("200 OK\r\nContent-Length: 0", Framing::None),
            ("200 OK\r\nTransfer-Encoding: chunked", Framing::Chunked),
            ("200 OK", Framing::Close),
            ("204 No Content", Framing::None),
            ("304 Not Modified\r\nContent-Length: 5", Framing::None),
        ] {
            assert_eq!(framing(head, false), Ok(expected), "{head}");
        }
        assert_eq!(framing("200 OK\r\nContent-Length: 5", true), Ok(Framing::None));
        for head in [
            "200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
            "200 OK\r\nContent-Length: 5\r\nContent-Length: 6",
            "200 OK\r\nContent-Length: x",
            "200 OK\r\nTransfer-Encoding: gzip",
            "abc",
        ] {
            assert!(framing(head, false).is_err(), "{head}");
        }
    }

    #[test]
    fn chunks_end_where_they_end() {
        let body = b"5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\nX: y\r\n\r\n";
        for cut in 0..body.len() {
            let mut chunks = Chunks::default();
            assert_eq!(chunks.feed(&body[..cut]), Ok(cut));
            assert!(!chunks.ended());
            assert_eq!(chunks.feed(&[&body[cut..], b"HTTP"].concat()), Ok(body.len() - cut));
            assert!(chunks.ended());
        }
        for wrong in [&b"\r\n"[..], b"5\nhello", b"5\r\nhelloX", b"x\r\n", b"1000000000000000\r\n"]
        {
            assert!(Chunks::default().feed(wrong).is_err(), "{wrong:?}");
        }
    }
}
