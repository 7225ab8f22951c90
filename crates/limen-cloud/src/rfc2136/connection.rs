//! A connection to a server: signed messages out, signed answers in.

use std::future::Future;
use std::io;
use std::time::Duration;

use limen_core::publish::{Change, Zone};
use limen_dns_wire::tsig::{self, Before, TsigError, TsigKey};
use limen_dns_wire::u16_at;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::message::{self, Transfer};
use super::{Rfc2136, UpdateError};
use crate::publish::now;

/// A connection to a server.
pub(super) struct Connection<'a> {
    stream: TcpStream,
    key: &'a TsigKey,
    patience: Duration,
    next_id: u16,
}

impl<'a> Connection<'a> {
    pub(super) async fn open(server: &'a Rfc2136, patience: Duration) -> Result<Self, UpdateError> {
        let connected = within(patience, TcpStream::connect(&server.server)).await;
        let stream = connected
            .map_err(|source| UpdateError::Connect { server: server.server.clone(), source })?;
        Ok(Self { stream, key: &server.key, patience, next_id: rand::random() })
    }

    /// The whole zone.
    pub(super) async fn transfer(&mut self, zone: &str) -> Result<Zone, UpdateError> {
        let doing = format!("transfer the zone {zone}");
        let (id, mac) = self.send(message::transfer(zone)?, &doing).await?;
        let mut transfer = Transfer::default();
        let mut before = mac;
        let mut first = true;
        loop {
            let packet = self.receive(id, &doing).await?;
            let follows = if first { Before::Request(&before) } else { Before::Message(&before) };
            let (answer, mac) = self.verified(&packet, follows, &doing)?;
            refused(&answer, &doing)?;
            let malformed = |why| UpdateError::Malformed { doing: doing.clone(), why };
            if transfer.take(&answer).map_err(malformed)? {
                return Ok(transfer.zone);
            }
            (before, first) = (mac, false);
        }
    }

    /// Makes a change, or only sees whether it could be written. Whether what it needs was still so.
    pub(super) async fn make_unless(
        &mut self,
        dry_run: bool,
        zone: &str,
        change: &Change,
    ) -> Result<bool, UpdateError> {
        match dry_run {
            true => message::update(zone, change).map(|_| true),
            false => self.make(zone, change).await,
        }
    }

    /// Makes a change. Whether what it needs was still so.
    async fn make(&mut self, zone: &str, change: &Change) -> Result<bool, UpdateError> {
        let doing = format!("make the change \"{}\"", change.what);
        let (id, mac) = self.send(message::update(zone, change)?, &doing).await?;
        let packet = self.receive(id, &doing).await?;
        let (answer, _) = self.verified(&packet, Before::Request(&mac), &doing)?;
        // NXDOMAIN, YXDOMAIN, YXRRSET, NXRRSET: something was no longer so.
        if matches!(code(&answer), 3 | 6 | 7 | 8) {
            return Ok(false);
        }
        refused(&answer, &doing)?;
        Ok(true)
    }

    async fn send(
        &mut self,
        mut packet: Vec<u8>,
        doing: &str,
    ) -> Result<(u16, Vec<u8>), UpdateError> {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        packet[..2].copy_from_slice(&id.to_be_bytes());
        let time = u64::try_from(now()).unwrap_or_default();
        let mac = tsig::sign(&mut packet, self.key, Before::Nothing, time);
        let length = u16::try_from(packet.len())
            .map_err(|_| UpdateError::Unwritable(format!("{doing}: that is too much at once")))?;
        let framed = [&length.to_be_bytes()[..], &packet].concat();
        let sent = within(self.patience, self.stream.write_all(&framed)).await;
        sent.map_err(|source| UpdateError::Lost { doing: doing.to_owned(), source })?;
        Ok((id, mac))
    }

    async fn receive(&mut self, id: u16, doing: &str) -> Result<Vec<u8>, UpdateError> {
        let stream = &mut self.stream;
        let read = async {
            let length = stream.read_u16().await?;
            let mut packet = vec![0; usize::from(length)];
            stream.read_exact(&mut packet).await?;
            Ok(packet)
        };
        let packet = within(self.patience, read).await;
        let packet =
            packet.map_err(|source| UpdateError::Lost { doing: doing.to_owned(), source })?;
        let is_answer =
            packet.len() >= 12 && packet[2] & 0x80 != 0 && u16_at(&packet, 0) == Some(id);
        if !is_answer {
            let why = "it is not an answer to what was asked";
            return Err(UpdateError::Malformed { doing: doing.to_owned(), why });
        }
        Ok(packet)
    }

    fn verified(
        &self,
        packet: &[u8],
        before: Before<'_>,
        doing: &str,
    ) -> Result<(Vec<u8>, Vec<u8>), UpdateError> {
        let time = u64::try_from(now()).unwrap_or_default();
        match tsig::verify(packet, [self.key], before, time) {
            Ok(signed) => Ok((signed.message, signed.mac)),
            Err(source) => {
                // Who refuses outright may not sign that.
                if source == TsigError::Missing {
                    refused(packet, doing)?;
                }
                Err(UpdateError::Signature { doing: doing.to_owned(), source })
            }
        }
    }
}

async fn within<T>(patience: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
    tokio::time::timeout(patience, work).await.unwrap_or_else(|_| Err(late()))
}

/// The code of an answer.
fn code(packet: &[u8]) -> u8 {
    packet.get(3).map_or(0, |byte| byte & 0x0F)
}

fn refused(packet: &[u8], doing: &str) -> Result<(), UpdateError> {
    let advice = match code(packet) {
        0 => return Ok(()),
        1 => "FORMERR; it did not understand the message",
        2 => "SERVFAIL; its log says why",
        4 => "NOTIMP; it does not take updates",
        5 => "REFUSED; allow this key to update and to transfer the zone",
        9 => "NOTAUTH; it is not the primary of this zone, or does not know the key",
        10 => "NOTZONE; a name is not in the zone",
        _ => "its log may say why",
    };
    Err(UpdateError::Refused { doing: doing.to_owned(), code: code(packet), advice })
}
