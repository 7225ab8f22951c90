//! Signing answers as they are given (DNSSEC with ECDSA P-256).
//!
//! ```text
//! key folder ► keys and their states ► Signer of a zone ► signatures, remembered by content
//!                                          └► DNSKEY, CDS, CDNSKEY, and the DS for the parent
//! ```
//!
//! Answers differ from client to client, so a zone cannot be signed beforehand: each set of records
//! is signed when it is first given, and the signature is kept for whoever is given the same. What
//! does not exist is denied by one record for just the name that was asked for (RFC 9824), so that
//! nobody can list a zone.
//!
//! One key signs everything (a combined signing key). It is replaced in steps, none of which
//! leaves anybody without a way from the parent to an answer:
//!
//! | step | new key | old key | wait before it |
//! | --- | --- | --- | --- |
//! | | | active | |
//! | roll | published | active | |
//! | roll | active | retired | until caches know the new key; and the parent has its DS |
//! | roll | active | removed | until caches have forgotten what the old one signed, and its DS |

mod cache;
mod denial;
mod folder;
mod key;
mod key_file;
mod signer;
mod signers;
#[cfg(test)]
mod tests;

pub(crate) use cache::Signatures;
pub(crate) use denial::{bitmap, next_name};
pub(crate) use folder::ds_texts;
pub(crate) use signer::{Content, Signer};
pub(crate) use signers::Signers;

pub use folder::{KeyFolder, KeyFolderError, KeyState, Rolled, StoredKey};

/// How long the keys of a zone are remembered, in seconds.
pub(crate) const KEY_TTL: u32 = 3600;
