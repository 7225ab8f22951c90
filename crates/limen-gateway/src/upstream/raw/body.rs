//! The body of an answer: where it ends, and what is in it.

use std::future::Future;
use std::io::{Error, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Frame, SizeHint};
use tokio::io::AsyncReadExt;

use super::answer::{ChunkPart, Chunks, Framing};
use super::{RawConnection, give_back};
use crate::upstream::Endpoint;

/// How much is read at once.
const PIECE: usize = 32 * 1024;

/// Trailers, at most.
const LONGEST_TRAILERS: usize = 16 * 1024;
const MOST_TRAILERS: usize = 64;

/// Finds the end of a body.
pub(crate) enum BodyEnd {
    Left(u64),
    Chunks(Chunks),
    Connection,
}

impl BodyEnd {
    pub(crate) fn new(framing: Framing) -> Self {
        match framing {
            Framing::None => Self::Left(0),
            Framing::Length(length) => Self::Left(length),
            Framing::Chunked => Self::Chunks(Chunks::default()),
            Framing::Close => Self::Connection,
        }
    }

    /// How many of these bytes belong to the body.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        match self {
            Self::Left(left) => {
                let used = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= used as u64;
                Ok(used)
            }
            Self::Chunks(chunks) => chunks.feed(bytes),
            Self::Connection => Ok(bytes.len()),
        }
    }

    pub(crate) fn ended(&self) -> bool {
        match self {
            Self::Left(left) => *left == 0,
            Self::Chunks(chunks) => chunks.ended(),
            Self::Connection => false,
        }
    }

    pub(crate) fn ends_with_connection(&self) -> bool {
        matches!(self, Self::Connection)
    }
}

/// What a target sends after the head of its answer, without its framing.
pub(crate) struct RawBody {
    connection: Option<RawConnection>,
    endpoint: Arc<Endpoint>,
    /// Whether the connection can be used again.
    keep: bool,
    end: BodyEnd,
    /// What has come and is not passed on yet.
    next: Bytes,
    trailers: Vec<u8>,
    buffer: BytesMut,
}

impl RawBody {
    /// `first` is what has come with the head.
    pub(crate) fn new(
        connection: RawConnection,
        endpoint: Arc<Endpoint>,
        keep: bool,
        framing: Framing,
        first: Bytes,
    ) -> std::io::Result<Self> {
        let mut body = Self {
            connection: Some(connection),
            endpoint,
            keep,
            end: BodyEnd::new(framing),
            next: Bytes::new(),
            trailers: Vec::new(),
            buffer: BytesMut::new(),
        };
        body.next = body.decode(first)?;
        Ok(body)
    }

    /// All of it, if it has come and is nothing but bytes.
    pub(crate) fn whole(&mut self) -> Option<Bytes> {
        let whole = self.end.ended() && self.trailers.len() <= 2;
        whole.then(|| std::mem::take(&mut self.next))
    }

    /// Whether there is nothing more to come, trailers included.
    pub(crate) fn is_end(&self) -> bool {
        self.end.ended() && self.next.is_empty() && self.trailers.len() <= 2
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match &self.end {
            BodyEnd::Left(left) => SizeHint::with_exact(*left + self.next.len() as u64),
            BodyEnd::Chunks(_) | BodyEnd::Connection => SizeHint::default(),
        }
    }

    pub(crate) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        loop {
            if !self.next.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.next)))));
            }
            if self.end.ended() {
                let trailers = std::mem::take(&mut self.trailers);
                let trailers = (trailers.len() > 2).then(|| read_trailers(&trailers));
                return Poll::Ready(trailers.map(|trailers| trailers.map(Frame::trailers)));
            }
            match ready!(self.poll_read(context)) {
                Ok(true) => {}
                Ok(false) => return Poll::Ready(None),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }

    /// Reads more of it. Whether there is more.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<std::io::Result<bool>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(Ok(false)) };
        self.buffer.reserve(PIECE);
        let read = pin!(connection.stream.read_buf(&mut self.buffer)).poll(context);
        if ready!(read)? > 0 {
            let piece = self.buffer.split().freeze();
            self.next = self.decode(piece)?;
            return Poll::Ready(Ok(true));
        }
        self.connection = None;
        if self.end.ends_with_connection() {
            self.end = BodyEnd::Left(0);
            return Poll::Ready(Ok(false));
        }
        Poll::Ready(Err(ErrorKind::UnexpectedEof.into()))
    }

    /// What is in these bytes besides framing. With the last of them the connection is free.
    fn decode(&mut self, piece: Bytes) -> std::io::Result<Bytes> {
        let came = piece.len();
        let (data, used) = match &mut self.end {
            BodyEnd::Chunks(chunks) => {
                let mut piece = piece.try_into_mut().unwrap_or_else(|piece| piece[..].into());
                let (mut data, trailers) = (Vec::new(), &mut self.trailers);
                let used = chunks.take_apart(&piece, |part, range| match part {
                    ChunkPart::Data => data.push(range),
                    ChunkPart::Trailer => trailers.extend_from_slice(&piece[range]),
                });
                let mut length = 0;
                for range in data {
                    let to = length;
                    length += range.len();
                    piece.copy_within(range, to);
                }
                piece.truncate(length);
                (piece.freeze(), used)
            }
            end => {
                let used = end.take(&piece);
                (piece.slice(..used.unwrap_or(0)), used)
            }
        };
        let used = used.map_err(|reason| Error::new(ErrorKind::InvalidData, reason))?;
        if self.trailers.len() > LONGEST_TRAILERS {
            return Err(Error::new(ErrorKind::InvalidData, "the answer has too many trailers"));
        }
        if self.end.ended()
            && let Some(connection) = self.connection.take()
            && self.keep
            && used == came
        {
            give_back(&self.endpoint, connection, Instant::now());
        }
        Ok(data)
    }
}

fn read_trailers(lines: &[u8]) -> std::io::Result<HeaderMap> {
    let wrong = || Error::new(ErrorKind::InvalidData, "the answer has malformed trailers");
    let mut fields = [httparse::EMPTY_HEADER; MOST_TRAILERS];
    let Ok(httparse::Status::Complete((_, fields))) = httparse::parse_headers(lines, &mut fields)
    else {
        return Err(wrong());
    };
    let mut trailers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| wrong())?;
        trailers.append(name, HeaderValue::from_bytes(field.value).map_err(|_| wrong())?);
    }
    Ok(trailers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_are_read_as_headers_are() {
        let trailers = read_trailers(b"Grpc-Status: 0\r\nx: a\r\nx: b\r\n\r\n").unwrap();
        assert_eq!(trailers["grpc-status"], "0");
        assert_eq!(trailers.get_all("x").iter().count(), 2);
        for wrong in [&b"no colon\r\n\r\n"[..], b"a b: c\r\n\r\n", b"a: b\r\n"] {
            assert!(read_trailers(wrong).is_err(), "{wrong:?}");
        }
    }
}
