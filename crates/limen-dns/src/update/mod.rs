//! Updates of challenges (RFC 2136), for ACME clients: certbot, lego, cert-manager, nsupdate.
//!
//! ```text
//! packet ► signature ► zone ► only TXT of _acme-challenge names ► the hub ► answer
//! ```
//!
//! A worker decides what it can by itself and writes nothing. What is left is a [`Pending`] that is
//! given to the hub's writer, and answered once every server can know of it. Without a good
//! signature nothing is even looked at.

mod message;
#[cfg(test)]
mod tests;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use limen_api::{ChallengeChange, ChallengeWrite};
use limen_dns_wire::tsig::{self, Before, TsigError, TsigKey};
use tokio::sync::{mpsc, oneshot};

use crate::wire::HEADER;
use crate::zone::Zones;

/// How long the hub may take.
const PATIENCE: Duration = Duration::from_secs(4);
const OPCODE: u8 = 0x78;
const UPDATE: u8 = 5 << 3;

/// Answer codes of updates that questions do not have.
pub(crate) mod code {
    pub(crate) const NO_ERROR: u8 = 0;
    pub(crate) const FORM_ERR: u8 = 1;
    pub(crate) const SERV_FAIL: u8 = 2;
    pub(crate) const NOT_IMP: u8 = 4;
    pub(crate) const REFUSED: u8 = 5;
    pub(crate) const NOT_AUTH: u8 = 9;
    pub(crate) const NOT_ZONE: u8 = 10;
}

/// Who may update challenges, and who writes them down.
#[derive(Clone, Debug)]
pub struct Challenges {
    /// Whose updates are taken.
    pub keys: Vec<TsigKey>,
    /// Takes what is to be written.
    pub writer: mpsc::Sender<ChallengeWrite>,
}

/// What becomes of a packet.
pub(crate) enum Step {
    /// It is answered at once.
    Answer(Vec<u8>),
    /// It is not signed well, so that its sender may be anybody: it is answered only so often.
    Refuse(Vec<u8>),
    /// It is to be written down first.
    Write(Box<Pending>),
}

/// An update that may be made.
pub(crate) struct Pending {
    changes: Vec<(String, ChallengeChange)>,
    /// The answer without its code and signature.
    answer: Vec<u8>,
    key: TsigKey,
    mac: Vec<u8>,
}

/// Whether a packet is an update.
pub(crate) fn is_update(packet: &[u8]) -> bool {
    packet.len() >= HEADER && packet[2] & (0x80 | OPCODE) == UPDATE
}

impl Challenges {
    /// What becomes of an update. `now` is in milliseconds since 1970.
    pub(crate) fn read(&self, packet: &[u8], zones: &Zones, now: u64) -> Step {
        let seconds = now / 1000;
        let signed = match tsig::verify(packet, &self.keys, Before::Nothing, seconds) {
            Ok(signed) => signed,
            Err(why) => {
                let code = match why {
                    TsigError::Malformed => code::FORM_ERR,
                    TsigError::Missing => code::REFUSED,
                    _ => code::NOT_AUTH,
                };
                let mut answer = message::answer(packet, code);
                tsig::append_refusal(&mut answer, packet, &self.keys, why);
                return Step::Refuse(answer);
            }
        };
        let answer = message::answer(&signed.message, code::NO_ERROR);
        let pending =
            Pending { changes: Vec::new(), answer, key: signed.key.clone(), mac: signed.mac };
        match message::changes(&signed.message, zones) {
            Ok(changes) if changes.is_empty() => {
                Step::Answer(pending.finish(code::NO_ERROR, seconds))
            }
            Ok(changes) => Step::Write(Box::new(Pending { changes, ..pending })),
            Err(code) => Step::Answer(pending.finish(code, seconds)),
        }
    }

    /// Writes an update down and answers it by UDP. It is dropped when too many are waiting: the
    /// client asks again.
    pub(crate) fn write_from_udp(
        &self,
        pending: Box<Pending>,
        socket: UdpSocket,
        client: SocketAddr,
    ) {
        let Ok(permit) = self.writer.clone().try_reserve_owned() else { return };
        let (pending, write, done) = pending.into_write();
        permit.send(write);
        // Workers have no runtime, and updates are rare.
        std::thread::spawn(move || {
            let code = written(done.blocking_recv());
            let answer = pending.finish(code, seconds());
            // An answer that cannot be sent is like one that is lost on its way.
            let _ = socket.send_to(&answer, client);
        });
    }

    /// Writes an update down. Returns the answer.
    pub(crate) async fn write(&self, pending: Box<Pending>) -> Vec<u8> {
        let (pending, write, done) = pending.into_write();
        let code = match self.writer.try_send(write) {
            Err(_) => code::SERV_FAIL,
            Ok(()) => match tokio::time::timeout(PATIENCE, done).await {
                Ok(outcome) => written(outcome),
                Err(_) => code::SERV_FAIL,
            },
        };
        pending.finish(code, seconds())
    }
}

fn written(outcome: Result<Result<(), String>, oneshot::error::RecvError>) -> u8 {
    match outcome {
        Ok(Ok(())) => code::NO_ERROR,
        Ok(Err(error)) => {
            tracing::warn!("a challenge cannot be written to the hub: {error}");
            code::SERV_FAIL
        }
        Err(_) => code::SERV_FAIL,
    }
}

fn seconds() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

type Done = oneshot::Receiver<Result<(), String>>;

impl Pending {
    fn into_write(mut self: Box<Self>) -> (Box<Self>, ChallengeWrite, Done) {
        let (done, told) = oneshot::channel();
        let changes = std::mem::take(&mut self.changes);
        (self, ChallengeWrite { changes, done }, told)
    }

    fn finish(mut self, code: u8, now: u64) -> Vec<u8> {
        self.answer[3] = self.answer[3] & 0xF0 | code;
        tsig::sign(&mut self.answer, &self.key, Before::Request(&self.mac), now);
        self.answer
    }
}
