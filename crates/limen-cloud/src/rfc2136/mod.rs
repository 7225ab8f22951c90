//! DNS servers that take updates (RFC 2136), signed with a shared secret (RFC 8945).
//!
//! The zone is read as a whole (AXFR), what has to change is planned, and each change is one
//! message: what must still be so, and what to do then.

mod connection;
mod message;

use std::time::Duration;

use limen_core::publish::{Plan, Wanted, plan};
use limen_dns_wire::tsig::{TsigError, TsigKey};

use crate::publish::{Round, Settings};
use connection::Connection;

/// How long a server may take for one message.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server that takes updates.
#[derive(Clone, Debug)]
pub struct Rfc2136 {
    /// Its host and port.
    pub server: String,
    /// What messages are signed with. A server that takes unsigned updates takes them from
    /// everybody.
    pub key: TsigKey,
}

/// Why a zone could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// It cannot be reached.
    #[error("the DNS server {server} cannot be reached: {source}")]
    Connect {
        /// The server.
        server: String,
        /// Why.
        source: std::io::Error,
    },
    /// It has gone, or is too slow.
    #[error("the DNS server stopped answering while it was asked to {doing}: {source}")]
    Lost {
        /// What it was asked.
        doing: String,
        /// Why.
        source: std::io::Error,
    },
    /// It does not accept our signature, or we do not accept its.
    #[error("the DNS server was asked to {doing}: {source}")]
    Signature {
        /// What it was asked.
        doing: String,
        /// Why.
        source: TsigError,
    },
    /// It does not want to.
    #[error("the DNS server was asked to {doing}, and answered {code}: {advice}")]
    Refused {
        /// What it was asked.
        doing: String,
        /// The code of its answer.
        code: u8,
        /// What to do about it.
        advice: &'static str,
    },
    /// Its answer cannot be read.
    #[error("the answer of the DNS server to {doing} is malformed: {why}")]
    Malformed {
        /// What it was asked.
        doing: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A name or text cannot be written.
    #[error("{0}")]
    Unwritable(String),
}

/// Codes of answers: the message was not understood, and it was not liked.
const FORMERR: u8 = 1;
const REFUSED: u8 = 5;

impl UpdateError {
    /// Whether it may be for what was asked, and not for the server or the zone.
    fn is_of_one_change(&self) -> bool {
        matches!(self, Self::Refused { code: FORMERR | REFUSED, .. } | Self::Unwritable(_))
    }
}

impl Rfc2136 {
    /// Makes a zone have what is wanted.
    pub(crate) async fn publish(
        &self,
        settings: &Settings,
        wanted: &Wanted,
        now: i64,
    ) -> Result<Round, UpdateError> {
        let zone = &settings.publisher.zone;
        let mut connection = Connection::open(self, PATIENCE).await?;
        let found = connection.transfer(zone).await?;
        let Plan { renewal, changes, remarks, held } =
            plan(&settings.publisher, wanted, &found, now);
        let mut round = Round { remarks, held, ..Round::default() };
        if let Some(renewal) = renewal {
            if !connection.make_unless(settings.dry_run, zone, &renewal).await? {
                // Somebody else of the same name is about; what it has done is to be seen first.
                round.overtaken.push(renewal.what);
                return Ok(round);
            }
            round.changed.push(renewal.what);
        }
        for change in changes {
            match connection.make_unless(settings.dry_run, zone, &change).await {
                Ok(true) => round.changed.push(change.what),
                Ok(false) => round.overtaken.push(change.what),
                // One name that cannot be written must not keep all others from being.
                Err(error) if error.is_of_one_change() => round.note(error)?,
                Err(error) => return Err(error),
            }
        }
        Ok(round)
    }
}
