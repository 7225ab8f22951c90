//! Shared secrets, and what they are called.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

use crate::name;

/// How messages are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC with SHA-256: what everybody has.
    HmacSha256,
    /// HMAC with SHA-384.
    HmacSha384,
    /// HMAC with SHA-512.
    HmacSha512,
}

const ALGORITHMS: [(&str, Algorithm); 3] = [
    ("hmac-sha256", Algorithm::HmacSha256),
    ("hmac-sha384", Algorithm::HmacSha384),
    ("hmac-sha512", Algorithm::HmacSha512),
];

/// The shortest secret that is accepted, in bytes.
const SHORTEST: usize = 16;

/// What is wrong with a key. It never says what the secret is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Its name is not one.
    #[error("the key's name: {0}")]
    Name(String),
    /// Its algorithm is not known.
    #[error("algorithm {0:?} is not known; take hmac-sha256, hmac-sha384 or hmac-sha512")]
    Algorithm(String),
    /// The secret is not base64.
    #[error("the secret is not in base64; `openssl rand -base64 32` makes one")]
    Encoding,
    /// The secret could be guessed.
    #[error(
        "the secret has {0} bytes and needs at least {SHORTEST}; `openssl rand -base64 32` makes one"
    )]
    Short(usize),
}

/// A shared secret, with the name that both sides know it by.
#[derive(Clone)]
pub struct TsigKey {
    name: Box<[u8]>,
    text: String,
    algorithm: Algorithm,
    secret: hmac::Key,
}

impl TsigKey {
    /// A key of this name, algorithm (`hmac-sha256`, ...) and secret in base64.
    pub fn new(name: &str, algorithm: &str, secret: &str) -> Result<Self, KeyError> {
        let bytes = STANDARD.decode(secret.trim()).map_err(|_| KeyError::Encoding)?;
        if bytes.len() < SHORTEST {
            return Err(KeyError::Short(bytes.len()));
        }
        let algorithm = algorithm.parse()?;
        let text = name.trim_end_matches('.').to_ascii_lowercase();
        let name = name::from_text(name).map_err(KeyError::Name)?;
        Ok(Self { name, text, algorithm, secret: hmac::Key::new(algorithm.of_ring(), &bytes) })
    }

    /// What it is called, in lower case.
    pub fn name(&self) -> &str {
        &self.text
    }

    /// How it signs.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(super) fn secret(&self) -> &hmac::Key {
        &self.secret
    }

    pub(super) fn wire_name(&self) -> &[u8] {
        &self.name
    }

    /// Whether it is the one that a message names. Both are in lower case.
    pub(super) fn is(&self, name: &[u8], algorithm: &[u8]) -> bool {
        *self.name == *name && self.algorithm.wire_name() == algorithm
    }
}

impl fmt::Debug for TsigKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TsigKey({} {})", self.text, self.algorithm)
    }
}

impl Algorithm {
    /// How long its signatures are, in bytes.
    pub fn length(self) -> usize {
        match self {
            Self::HmacSha256 => 32,
            Self::HmacSha384 => 48,
            Self::HmacSha512 => 64,
        }
    }

    pub(super) fn wire_name(self) -> &'static [u8] {
        match self {
            Self::HmacSha256 => b"\x0bhmac-sha256\0",
            Self::HmacSha384 => b"\x0bhmac-sha384\0",
            Self::HmacSha512 => b"\x0bhmac-sha512\0",
        }
    }

    fn of_ring(self) -> hmac::Algorithm {
        match self {
            Self::HmacSha256 => hmac::HMAC_SHA256,
            Self::HmacSha384 => hmac::HMAC_SHA384,
            Self::HmacSha512 => hmac::HMAC_SHA512,
        }
    }
}

impl std::str::FromStr for Algorithm {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let wanted = text.trim_end_matches('.');
        let found = ALGORITHMS.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, algorithm)| *algorithm).ok_or_else(|| KeyError::Algorithm(text.to_owned()))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ALGORITHMS.iter().find(|(_, other)| other == self).map_or("", |(name, _)| name);
        formatter.write_str(name)
    }
}
