//! Proofs of hosts: TXT records are asked for until they are there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use limen_core::compile::{Proof, Proofs};
use limen_dns_wire::{name, u16_at};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

const PATIENCE: Duration = Duration::from_secs(3);
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// Whoever has just written a record should not wait much longer than resolvers do.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
const TXT: u16 = 16;
const NO_ERROR: u8 = 0;
const NO_SUCH_NAME: u8 = 3;

/// What is being proven.
pub(crate) struct HostVerification {
    pub(crate) proofs: Proofs,
    resolver: SocketAddr,
    found: BTreeSet<Proof>,
    /// Those that have been looked for and were not there.
    missed: BTreeSet<Proof>,
    asking: BTreeMap<Proof, AbortHandle>,
    tell: mpsc::Sender<Looked>,
}

/// What came of looking for a proof.
pub(crate) struct Looked {
    pub(crate) proof: Proof,
    pub(crate) found: bool,
}

impl HostVerification {
    /// Asks a resolver for proofs that name the hub.
    pub(crate) fn new(
        hub: String,
        resolver: SocketAddr,
        domain: Option<String>,
        tell: mpsc::Sender<Looked>,
    ) -> Self {
        Self {
            proofs: Proofs { hub, domain },
            resolver,
            found: BTreeSet::new(),
            missed: BTreeSet::new(),
            asking: BTreeMap::new(),
            tell,
        }
    }

    pub(crate) fn is_found(&self, proof: &Proof) -> bool {
        self.found.contains(proof)
    }

    /// Whether it is known if the record is there.
    pub(crate) fn is_answered(&self, proof: &Proof) -> bool {
        self.found.contains(proof) || self.missed.contains(proof)
    }

    /// Takes the result of a look.
    pub(crate) fn looked(&mut self, Looked { proof, found }: Looked) {
        match found {
            true => {
                self.asking.remove(&proof);
                self.missed.remove(&proof);
                self.found.insert(proof);
            }
            false => drop(self.missed.insert(proof)),
        }
    }

    /// Asks for exactly what some root still needs.
    pub(crate) fn follow(&mut self, wanted: &BTreeSet<Proof>) {
        self.found.retain(|proof| wanted.contains(proof));
        self.missed.retain(|proof| wanted.contains(proof));
        self.asking.retain(|proof, task| {
            let keep = wanted.contains(proof);
            if !keep {
                task.abort();
            }
            keep
        });
        for proof in wanted.difference(&self.found) {
            if !self.asking.contains_key(proof) {
                let asking = keep_asking(self.resolver, proof.clone(), self.tell.clone());
                self.asking.insert(proof.clone(), tokio::spawn(asking).abort_handle());
            }
        }
    }
}

impl Drop for HostVerification {
    fn drop(&mut self) {
        self.asking.values().for_each(AbortHandle::abort);
    }
}

async fn keep_asking(resolver: SocketAddr, proof: Proof, tell: mpsc::Sender<Looked>) {
    let (mut pause, mut missed) = (FIRST_PAUSE, false);
    loop {
        match tokio::time::timeout(PATIENCE, texts(resolver, &proof.name)).await {
            Ok(Ok(texts)) if texts.contains(&proof.text) => {
                let _ = tell.send(Looked { proof, found: true }).await;
                return;
            }
            Ok(Ok(_)) if !missed => {
                missed = true;
                let _ = tell.send(Looked { proof: proof.clone(), found: false }).await;
            }
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(name = proof.name, %error, "cannot be looked up"),
            Err(_) => tracing::warn!(name = proof.name, "the resolver does not answer"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The TXT records of a name.
async fn texts(resolver: SocketAddr, name: &str) -> std::io::Result<Vec<String>> {
    let wrong = |why: String| std::io::Error::new(std::io::ErrorKind::InvalidData, why);
    let mut packet = rand::random::<[u8; 2]>().to_vec();
    // Recursion is wished for, and one question asked.
    packet.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    packet.extend(name::from_text(name).map_err(wrong)?);
    packet.extend(TXT.to_be_bytes());
    packet.extend([0, 1]);
    let any = if resolver.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(resolver).await?;
    socket.send(&packet).await?;
    let mut answer = vec![0; 4096];
    loop {
        let length = socket.recv(&mut answer).await?;
        if length >= 12 && answer[..2] == packet[..2] && answer[2] & 0x80 != 0 {
            answer.truncate(length);
            break;
        }
    }
    if answer[2] & 0x02 != 0 {
        answer = by_tcp(resolver, &packet).await?;
    }
    // A resolver that cannot tell has not said that there is none.
    let code = answer[3] & 0x0f;
    if code != NO_ERROR && code != NO_SUCH_NAME {
        return Err(wrong(format!("the resolver answers with code {code}")));
    }
    read(&answer).ok_or_else(|| wrong("the answer is malformed".to_owned()))
}

async fn by_tcp(resolver: SocketAddr, packet: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(resolver).await?;
    stream.write_all(&[&(packet.len() as u16).to_be_bytes(), packet].concat()).await?;
    let mut answer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

fn read(answer: &[u8]) -> Option<Vec<String>> {
    let (questions, answers) = (u16_at(answer, 4)?, u16_at(answer, 6)?);
    let mut at = 12;
    for _ in 0..questions {
        at = name::skip(answer, at)? + 4;
    }
    let mut found = Vec::new();
    for _ in 0..answers {
        let after = name::skip(answer, at)?;
        let start = after + 10;
        at = start + usize::from(u16_at(answer, after + 8)?);
        let mut data = answer.get(start..at)?;
        if u16_at(answer, after)? != TXT {
            continue;
        }
        let mut text = Vec::new();
        while let [length, rest @ ..] = data {
            let (part, after) = rest.split_at_checked(usize::from(*length))?;
            text.extend_from_slice(part);
            data = after;
        }
        found.push(String::from_utf8_lossy(&text).into_owned());
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_resolver_that_cannot_tell_has_not_said_that_there_is_none() {
        for (code, said) in [(0, true), (3, true), (2, false), (5, false)] {
            let resolver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let address = resolver.local_addr().unwrap();
            let answering = tokio::spawn(async move {
                let mut packet = [0; 512];
                let (length, from) = resolver.recv_from(&mut packet).await.unwrap();
                (packet[2], packet[3]) = (0x81, code);
                resolver.send_to(&packet[..length], from).await.unwrap();
            });
            let found = texts(address, "_limen-challenge.shop.test").await;
            assert_eq!(found.is_ok_and(|found| found.is_empty()), said, "{code}");
            answering.await.unwrap();
        }
    }
}
