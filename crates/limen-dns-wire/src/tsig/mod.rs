//! Messages signed with a shared secret (TSIG, RFC 8945).
//!
//! ```text
//! client                                              server
//!   sign(request, Before::Nothing) ──────────────────► verify(request, Before::Nothing)
//!   verify(answer, Before::Request(mac)) ◄──────────── sign(answer, Before::Request(mac))
//!   verify(more, Before::Message(mac of answer)) ◄──── sign(more, Before::Message(mac of answer))
//! ```
//!
//! A signature covers what came before it, so that no answer passes for that to another question.
//! A shortened signature is never accepted.

mod key;
mod record;
#[cfg(test)]
mod tests;

pub use key::{Algorithm, KeyError, TsigKey};
pub use record::find;

use ring::hmac;

use crate::u16_at;
use record::Record;

/// How far clocks may be apart, in seconds.
pub const FUDGE: u16 = 300;

/// What a signature follows.
#[derive(Clone, Copy, Debug)]
pub enum Before<'a> {
    /// Nothing: it is that of a request.
    Nothing,
    /// The signature of the request that this answers.
    Request(&'a [u8]),
    /// The signature of the message before this one, in an answer of several messages.
    Message(&'a [u8]),
}

/// A message whose signature is right.
#[derive(Debug)]
pub struct Signed<'a> {
    /// Whose key it was.
    pub key: &'a TsigKey,
    /// The signature, which that of the answer has to follow.
    pub mac: Vec<u8>,
    /// The message without it.
    pub message: Vec<u8>,
}

/// Why a signature is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TsigError {
    /// There is no signature.
    #[error("the message is not signed")]
    Missing,
    /// It cannot be read.
    #[error("the message or its signature is malformed")]
    Malformed,
    /// No such key.
    #[error("the key is not known here under that name and algorithm")]
    UnknownKey,
    /// The signature is wrong: another secret, or something was changed on the way.
    #[error("the signature is wrong: the secrets differ, or the message was changed")]
    BadSignature,
    /// It was signed too long ago, or in the future.
    #[error("it was signed at {signed}, and it is {now} here: set the clocks right")]
    BadTime {
        /// When it says that it was signed, in seconds since 1970.
        signed: u64,
        /// What time it is here.
        now: u64,
    },
    /// Only a part of the signature is there.
    #[error("the signature is shortened, which is not accepted")]
    Truncated,
    /// The other side did not accept our signature, and says so with this code.
    #[error("the other side refused the signature with {}", code_name(*.0))]
    Refused(u16),
}

impl TsigError {
    /// The code that the other side is told. Nothing where a message is merely malformed.
    pub fn code(self) -> Option<u16> {
        match self {
            Self::Missing | Self::Malformed | Self::Refused(_) => None,
            Self::BadSignature => Some(16),
            Self::UnknownKey => Some(17),
            Self::BadTime { .. } => Some(18),
            Self::Truncated => Some(22),
        }
    }
}

fn code_name(code: u16) -> String {
    match code {
        16 => "BADSIG: the secrets differ".to_owned(),
        17 => "BADKEY: it has no key of that name and algorithm".to_owned(),
        18 => "BADTIME: the clocks are too far apart".to_owned(),
        22 => "BADTRUNC".to_owned(),
        other => format!("code {other}"),
    }
}

/// Signs a message: appends the signature as its last record. `now` is in seconds since 1970.
/// Returns the signature.
pub fn sign(message: &mut Vec<u8>, key: &TsigKey, before: Before<'_>, now: u64) -> Vec<u8> {
    let record = Record::new(key, original_id(message), now);
    append_signed(message, key, before, record)
}

fn append_signed(
    message: &mut Vec<u8>,
    key: &TsigKey,
    before: Before<'_>,
    mut record: Record,
) -> Vec<u8> {
    let mut context = hmac::Context::with_key(key.secret());
    record.digest(message, before, |bytes| context.update(bytes));
    record.mac = context.sign().as_ref().to_vec();
    record.append_to(message);
    record.mac
}

/// Checks the signature of a message. `now` is in seconds since 1970.
pub fn verify<'a>(
    packet: &[u8],
    keys: impl IntoIterator<Item = &'a TsigKey>,
    before: Before<'_>,
    now: u64,
) -> Result<Signed<'a>, TsigError> {
    let start = find(packet)?.ok_or(TsigError::Missing)?;
    let record = Record::read(packet, start).ok_or(TsigError::Malformed)?;
    let key = keys.into_iter().find(|key| key.is(&record.key, &record.algorithm)).ok_or(
        if record.error == 0 { TsigError::UnknownKey } else { TsigError::Refused(record.error) },
    )?;
    if record.mac.is_empty() && record.error != 0 {
        return Err(TsigError::Refused(record.error));
    }
    let full = key.algorithm().length();
    match record.mac.len() {
        length if length == full => {}
        length if length > full || length < 10.max(full / 2) => return Err(TsigError::Malformed),
        _ => return Err(TsigError::Truncated),
    }
    let message = record::without(packet, start, record.original_id);
    let mut covered = Vec::with_capacity(message.len() + 128);
    record.digest(&message, before, |bytes| covered.extend_from_slice(bytes));
    hmac::verify(key.secret(), &covered, &record.mac).map_err(|_| TsigError::BadSignature)?;
    if record.error != 0 {
        return Err(TsigError::Refused(record.error));
    }
    if now.abs_diff(record.time) > u64::from(record.fudge) {
        return Err(TsigError::BadTime { signed: record.time, now });
    }
    Ok(Signed { key, mac: record.mac, message })
}

/// Appends to an answer why the signature of its request was not accepted. The answer's own code
/// should be NOTAUTH. Does nothing where there is no code for the reason, nor where the answer would
/// be longer than the request of a stranger, whose address may be somebody else's.
pub fn append_refusal<'a>(
    answer: &mut Vec<u8>,
    request: &[u8],
    keys: impl IntoIterator<Item = &'a TsigKey>,
    why: TsigError,
) {
    let Some(code) = why.code() else { return };
    let Ok(Some(start)) = find(request) else { return };
    let Some(asked) = Record::read(request, start) else { return };
    let mut record = Record { error: code, mac: Vec::new(), other: Vec::new(), ..asked.clone() };
    if let TsigError::BadTime { now, .. } = why {
        record.other = now.to_be_bytes()[2..].to_vec();
    }
    let key = keys.into_iter().find(|key| key.is(&asked.key, &asked.algorithm));
    match key {
        // What could not be trusted is not answered with a signature. Of a shortened one nobody
        // has seen whether it is right.
        Some(key) if matches!(why, TsigError::BadTime { .. }) => {
            append_signed(answer, key, Before::Request(&asked.mac), record);
        }
        // The name of a key may be two bytes there, and is written out here.
        _ if answer.len() + record.length() > request.len() => {}
        _ => record.append_to(answer),
    }
}

/// How many bytes a signature of a key adds to a message.
pub fn length(key: &TsigKey) -> usize {
    Record::new(key, 0, 0).length() + key.algorithm().length()
}

fn original_id(message: &[u8]) -> u16 {
    u16_at(message, 0).unwrap_or_default()
}
