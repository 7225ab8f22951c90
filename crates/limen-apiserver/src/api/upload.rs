//! The body of a request, which is read once it is known that somebody may send it.
//!
//! Whoever is nobody or may not do what they ask for takes no memory with what they send along.

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use crate::decode::{self, MAX_BODY};
use crate::error::{ApiError, ApiResult};

/// How long a body may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(60);
/// How long to look at what nobody wants to read.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) enum Upload<B> {
    Unread(B),
    Read,
    /// Given up half-way.
    Broken,
}

impl<B> Upload<B>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// How many bytes will be read at most.
    pub(super) fn most(&self) -> usize {
        let Self::Unread(body) = self else { return 0 };
        let said = body.size_hint().upper().and_then(|size| usize::try_from(size).ok());
        said.map_or(MAX_BODY, |size| size.min(MAX_BODY))
    }

    /// The whole body, if it is not too large and comes in time.
    pub(super) async fn read(&mut self) -> ApiResult<Bytes> {
        let Self::Unread(body) = std::mem::replace(self, Self::Broken) else {
            return Ok(Bytes::new());
        };
        match timeout(ARRIVAL, Limited::new(body, MAX_BODY).collect()).await {
            Ok(Ok(body)) => {
                *self = Self::Read;
                Ok(body.to_bytes())
            }
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(decode::too_large()),
            Ok(Err(error)) => {
                Err(ApiError::bad_request(format!("the body cannot be read: {error}")))
            }
            Err(_) => Err(ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "Timeout",
                "the body of the request took too long to arrive",
            )),
        }
    }

    /// Throws away what was not read: a client that is still sending might not see the answer.
    /// Whether nothing is left, so that another request can follow on the same connection.
    pub(super) async fn discard(self) -> bool {
        match self {
            Self::Read => true,
            Self::Broken => false,
            Self::Unread(body) => timeout(PATIENCE, skip(body)).await.unwrap_or(false),
        }
    }
}

/// Whether the body came to its end before it was too large.
async fn skip<B: http_body::Body<Data = Bytes>>(body: B) -> bool {
    let mut body = pin!(body);
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        seen += frame.data_ref().map_or(0, Bytes::len);
        if seen > MAX_BODY {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body::Frame;
    use http_body_util::{Empty, Full, StreamBody};

    use super::*;

    fn chunks(count: usize) -> impl http_body::Body<Data = Bytes, Error = Infallible> {
        let chunk = || Ok(Frame::data(Bytes::from(vec![b'x'; 1 << 20])));
        StreamBody::new(stream::iter((0..count).map(move |_| chunk())))
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit() {
        let mut upload = Upload::Unread(Full::from("hello"));
        assert_eq!(upload.read().await.unwrap(), "hello");
        assert!(upload.discard().await);

        let mut upload = Upload::Unread(chunks(4));
        assert_eq!(upload.read().await.unwrap_err().code, 413);
        assert!(!upload.discard().await, "there is more to come");
    }

    #[test]
    fn a_body_that_does_not_say_how_long_it_is_may_have_any_length() {
        assert_eq!(Upload::Unread(Full::from("hello")).most(), 5);
        assert_eq!(Upload::Unread(Empty::new()).most(), 0);
        assert_eq!(Upload::Unread(chunks(1)).most(), MAX_BODY);
        assert_eq!(Upload::Unread(Full::from(vec![0; MAX_BODY + 1])).most(), MAX_BODY);
    }

    #[tokio::test]
    async fn what_is_not_read_is_thrown_away_within_limits() {
        assert!(Upload::Unread(Empty::new()).discard().await);
        assert!(Upload::Unread(chunks(2)).discard().await);
        assert!(!Upload::Unread(chunks(4)).discard().await);
    }
}
