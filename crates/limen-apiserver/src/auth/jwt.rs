//! Signed claims in the compact form of RFC 7515, with one algorithm: ES256.
//!
//! What a token says of its own algorithm is checked, never followed.

use std::fmt;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey,
};
use serde_json::{Map, Value, json};

/// Longer tokens are not looked at.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The DER of a P-256 public key is this, then the 65 bytes of its point.
const P256_PUBLIC_KEY_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The key that service account tokens are signed with.
pub(crate) struct SigningKey {
    pair: EcdsaKeyPair,
    id: String,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The key could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SigningKeyError {
    /// It is not what it should be.
    #[error("it is no ECDSA P-256 private key in PKCS#8 form")]
    Unusable,
    /// The system has no randomness to give.
    #[error("the system gave no random numbers to sign with")]
    NoRandomness,
}

impl SigningKey {
    /// Reads a private key in PKCS#8 DER form.
    pub(crate) fn from_pkcs8(der: &[u8]) -> Result<Self, SigningKeyError> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random)
            .map_err(|_| SigningKeyError::Unusable)?;
        let mut public = P256_PUBLIC_KEY_PREFIX.to_vec();
        public.extend_from_slice(pair.public_key().as_ref());
        let id = BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, &public));
        Ok(Self { pair, id })
    }

    /// What tells this key from others in tokens.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The public half as an entry of a JSON Web Key Set.
    pub(crate) fn public_jwk(&self) -> Value {
        let point = &self.pair.public_key().as_ref()[1..];
        let (x, y) = point.split_at(point.len() / 2);
        json!({
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256",
            "x": BASE64_URL_SAFE_NO_PAD.encode(x),
            "y": BASE64_URL_SAFE_NO_PAD.encode(y),
        })
    }

    /// A token that says `claims`.
    pub(crate) fn sign(&self, claims: &Value) -> Result<String, SigningKeyError> {
        let header = json!({"alg": "ES256", "kid": self.id});
        let mut token = BASE64_URL_SAFE_NO_PAD.encode(header.to_string());
        token.push('.');
        BASE64_URL_SAFE_NO_PAD.encode_string(claims.to_string(), &mut token);
        let signature = self
            .pair
            .sign(&SystemRandom::new(), token.as_bytes())
            .map_err(|_| SigningKeyError::NoRandomness)?;
        token.push('.');
        BASE64_URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token)
    }

    /// Whether this key signed the token, and the token says nothing else.
    pub(crate) fn signed(&self, token: &Parsed<'_>) -> bool {
        if !token.says_es256() {
            return false;
        }
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key());
        key.verify(token.signed.as_bytes(), &token.signature).is_ok()
    }
}

/// A token that was taken apart, and is not to be believed yet.
pub(crate) struct Parsed<'a> {
    header: Map<String, Value>,
    pub(crate) claims: Map<String, Value>,
    signed: &'a str,
    signature: Vec<u8>,
}

impl<'a> Parsed<'a> {
    /// Takes a token apart; `None` if it is no token in this form.
    pub(crate) fn new(token: &'a str) -> Option<Self> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        Some(Self {
            header: part(header)?,
            claims: part(claims)?,
            signed,
            signature: BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?,
        })
    }

    /// Whether the token names another key.
    pub(crate) fn is_of_another_key(&self, key: &SigningKey) -> bool {
        self.header.get("kid").is_some_and(|id| id != key.id())
    }

    /// Whether the header is one of this form, with nothing in it that changes its meaning.
    fn says_es256(&self) -> bool {
        self.header.get("alg").is_some_and(|algorithm| algorithm == "ES256")
            && self.header.keys().all(|field| ["alg", "kid", "typ"].contains(&field.as_str()))
    }
}

fn part(encoded: &str) -> Option<Map<String, Value>> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(encoded).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
pub(crate) fn test_key() -> SigningKey {
    SigningKey::from_pkcs8(rcgen::KeyPair::generate().unwrap().serialized_der()).unwrap()
}

#[cfg(test)]
mod tests {
    use rcgen::PublicKeyData;

    use super::*;

    #[test]
    fn the_key_id_is_the_hash_of_the_public_key_as_in_kubernetes() {
        let pair = rcgen::KeyPair::generate().unwrap();
        let public = pair.subject_public_key_info();
        let key = SigningKey::from_pkcs8(pair.serialized_der()).unwrap();
        assert_eq!(key.id(), BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, &public)));
        assert_eq!(format!("{key:?}"), format!("SigningKey {{ id: {:?}, .. }}", key.id()));
    }

    #[test]
    fn a_token_says_what_was_signed() {
        let key = test_key();
        let token = key.sign(&json!({"a": 1})).unwrap();
        let parsed = Parsed::new(&token).unwrap();
        assert!(!parsed.is_of_another_key(&key) && key.signed(&parsed));
        assert_eq!(Value::Object(parsed.claims), json!({"a": 1}));
        let other = test_key();
        let parsed = Parsed::new(&token).unwrap();
        assert!(parsed.is_of_another_key(&other) && !other.signed(&parsed));
    }

    #[test]
    fn other_algorithms_are_not_followed() {
        let key = test_key();
        for header in [
            json!({"alg": "none"}),
            json!({"alg": "HS256", "kid": key.id()}),
            json!({"alg": "ES256", "crit": ["b64"], "b64": false}),
            json!({"alg": "ES256", "jwk": key.public_jwk()}),
            json!({"kid": key.id()}),
        ] {
            let mut token = BASE64_URL_SAFE_NO_PAD.encode(header.to_string());
            token.push_str(".e30");
            let signature = key.pair.sign(&SystemRandom::new(), token.as_bytes()).unwrap();
            let token = format!("{token}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature));
            assert!(!key.signed(&Parsed::new(&token).unwrap()), "{header}");
        }
    }
}
