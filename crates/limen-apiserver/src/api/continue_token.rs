//! Where the next page of a list starts.
//!
//! A token is `{"v":"meta.k8s.io/v1","rv":REVISION,"start":"NAME\0"}` in base64, as in Kubernetes,
//! so that a client that goes on where another server left off is understood.

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine};
use bytes::Bytes;
use limen_store::Revision;
use serde::{Deserialize, Serialize};

use crate::decode::json_problem;
use crate::error::{ApiError, ApiResult};

const FORMAT: &str = "meta.k8s.io/v1";
/// In place of a revision: whatever is there by now.
const NEWEST: i64 = -1;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Token {
    v: String,
    rv: i64,
    /// The first key that may be on the page, relative to the list.
    start: String,
    /// How many objects are left, where they were counted.
    #[serde(rename = "n", skip_serializing_if = "Option::is_none")]
    pub(super) remaining: Option<u64>,
}

impl Token {
    /// The page after the key `last`, in a list of the keys that start with `prefix`.
    pub(super) fn new(
        revision: Revision,
        prefix: &[u8],
        last: &[u8],
        remaining: Option<u64>,
    ) -> Self {
        let last = last.strip_prefix(prefix).unwrap_or(last);
        let start = format!("{}\0", String::from_utf8_lossy(last));
        let rv = i64::try_from(revision.0).unwrap_or(NEWEST);
        Self { v: FORMAT.to_owned(), rv, start, remaining }
    }

    pub(super) fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    pub(super) fn parse(text: &str) -> ApiResult<Self> {
        read(text).map_err(|problem| {
            let message = format!("invalid continue token: continue key is not valid: {problem}");
            ApiError::bad_request(message)
        })
    }

    /// The key that the page comes after.
    pub(super) fn after(&self, prefix: &[u8]) -> Bytes {
        let start = self.start.trim_start_matches('/').trim_end_matches('\0');
        [prefix, start.as_bytes()].concat().into()
    }

    pub(super) fn revision(&self) -> Option<Revision> {
        u64::try_from(self.rv).ok().map(Revision)
    }
}

fn read(text: &str) -> Result<Token, String> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| {
        let at = match error {
            DecodeError::InvalidByte(at, _) => at,
            _ => text.len(),
        };
        format!("illegal base64 data at input byte {at}")
    })?;
    if let Some(problem) = json_problem(&bytes) {
        return Err(problem);
    }
    let token: Token = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    if token.v != FORMAT {
        return Err(format!("server does not recognize this encoded version {:?}", token.v));
    }
    if token.rv == 0 || token.rv < NEWEST {
        return Err(format!("incorrect encoded start resourceVersion (version {FORMAT})"));
    }
    if token.start.is_empty() {
        return Err(format!("encoded start key empty (version {FORMAT})"));
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leads_back_to_its_key() {
        let token = Token::new(Revision(7), b"core/pods/", b"core/pods/a/b", Some(3));
        let read = Token::parse(&token.text()).unwrap();
        assert_eq!(read.after(b"core/pods/"), "core/pods/a/b");
        assert_eq!(read.revision(), Some(Revision(7)));
        assert_eq!(read.remaining, Some(3));
    }

    #[test]
    fn senseless_tokens_are_refused() {
        let token = |json: &str| URL_SAFE_NO_PAD.encode(json);
        let cases = [
            ("nonsense".to_owned(), r"invalid character '\u009e' looking for beginning of value"),
            ("%%".to_owned(), "illegal base64 data at input byte 0"),
            (token("{}"), "server does not recognize this encoded version \"\""),
            (
                token(r#"{"v":"meta.k8s.io/v1","start":"a"}"#),
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (
                token(r#"{"v":"meta.k8s.io/v1","rv":1}"#),
                "encoded start key empty (version meta.k8s.io/v1)",
            ),
        ];
        for (text, problem) in cases {
            let message = Token::parse(&text).unwrap_err().message;
            let expected = format!("invalid continue token: continue key is not valid: {problem}");
            assert_eq!(message, expected);
        }
        // A foreign token may ask for whatever is there by now.
        let newest = Token::parse(&token(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"a\u0000"}"#));
        assert_eq!(newest.unwrap().revision(), None);
    }
}
