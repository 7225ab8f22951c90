//! Who is asking.
//!
//! ```text
//!   TLS handshake ── client certificate ─┐
//!                                        ├─► Authenticator ─► Claimed ─► Identity
//!   Authorization: Bearer … ─────────────┘                      │           │
//!                                               objects still there?   Impersonate-*
//! ```
//!
//! Everything that decides is pure: the caller brings the time and says which objects a token
//! depends on are still there. Only `pki` touches files, and only at start. Nothing here writes
//! a token or a key to a log, and no type that holds one shows it in `Debug`.

mod identity;
mod impersonation;
mod jwt;
pub(crate) mod pki;
mod remembered;
mod request;
mod reviews;
mod service_account;
mod static_tokens;
mod tls;
mod token_request;
mod x509;

pub use identity::MASTERS;
pub(crate) use identity::{Identity, service_account_username};
pub(crate) use impersonation::Impersonation;
pub(crate) use request::{Authenticator, Claimed};
pub(crate) use reviews::{self_subject_review, token_review_answer, token_review_question};
pub(crate) use service_account::{Reference, TokenIssuer, TokenRefusal};
pub(crate) use static_tokens::StaticTokens;
pub(crate) use tls::{ServingCertificate, TlsError, server_config};
pub(crate) use token_request::{bound_object, token_request};
pub(crate) use x509::{certificate_end, certificate_identity};
