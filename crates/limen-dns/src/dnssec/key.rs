//! One key that signs.

use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

/// ECDSA with P-256 and SHA-256, as DNS numbers it.
pub(super) const ALGORITHM: u8 = 13;
/// A zone key that the parent may point to.
const FLAGS: u16 = 257;
const PROTOCOL: u8 = 3;
const SHA_256: u8 = 2;

/// A key that signs.
pub(super) struct Key {
    pair: EcdsaKeyPair,
    /// The data of its DNSKEY record.
    pub(super) dnskey: Box<[u8]>,
    pub(super) tag: u16,
}

/// A new key, as it is stored.
pub(super) fn generate() -> Result<Vec<u8>, &'static str> {
    EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
        .map(|stored| stored.as_ref().to_vec())
        .map_err(|_| "the system gave no randomness for a key")
}

impl Key {
    /// A key as it is stored (PKCS #8).
    pub(super) fn read(stored: &[u8]) -> Result<Self, &'static str> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, stored, &random)
            .map_err(|_| "the key is not one of ECDSA P-256 in PKCS #8")?;
        // The first byte says that a whole point follows, which DNS leaves out.
        let point = &pair.public_key().as_ref()[1..];
        let [high, low] = FLAGS.to_be_bytes();
        let dnskey: Box<[u8]> = [&[high, low, PROTOCOL, ALGORITHM], point].concat().into();
        let tag = tag(&dnskey);
        Ok(Self { pair, dnskey, tag })
    }

    pub(super) fn sign(&self, content: &[u8]) -> Option<[u8; 64]> {
        let signature = self.pair.sign(&SystemRandom::new(), content).ok()?;
        signature.as_ref().try_into().ok()
    }

    /// The data of the DS record that the parent of a zone should have.
    pub(super) fn ds(&self, apex: &[u8]) -> Box<[u8]> {
        let hash = digest::digest(&digest::SHA256, &[apex, &self.dnskey].concat());
        let [high, low] = self.tag.to_be_bytes();
        [&[high, low, ALGORITHM, SHA_256], hash.as_ref()].concat().into()
    }
}

/// What a key is called in signatures (RFC 4034, appendix B).
fn tag(dnskey: &[u8]) -> u16 {
    let sum = dnskey.chunks(2).fold(0_u32, |sum, pair| {
        sum + (u32::from(pair[0]) << 8) + pair.get(1).map_or(0, |low| u32::from(*low))
    });
    (sum + (sum >> 16)) as u16
}
