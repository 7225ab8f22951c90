//! Questions to DNS servers, as few as a check-up needs: who serves a zone, and with which
//! authority.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::UdpSocket;

/// The type of records that name servers.
pub(super) const NS: u16 = 2;
/// The type of the record that every zone has.
pub(super) const SOA: u16 = 6;

/// How long a server may take, and how often it is asked.
const PATIENCE: Duration = Duration::from_secs(2);
const TRIES: usize = 2;

/// What a server says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) authoritative: bool,
    /// 0 is well; 3 is that there is no such name.
    pub(super) code: u8,
    /// The names of NS records among the answers.
    pub(super) servers: Vec<String>,
}

/// Asks a server by UDP.
pub(super) async fn ask(server: SocketAddr, name: &str, kind: u16) -> Result<Reply, String> {
    let id = (std::process::id() & 0xffff) as u16;
    let question = question(id, name, kind)?;
    let any: IpAddr = match server {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await.map_err(|error| error.to_string())?;
    socket.connect(server).await.map_err(|error| error.to_string())?;
    let mut last = "it is silent".to_owned();
    for _ in 0..TRIES {
        socket.send(&question).await.map_err(|error| error.to_string())?;
        let mut packet = vec![0; 4096];
        match tokio::time::timeout(PATIENCE, socket.recv(&mut packet)).await {
            Err(_) => {}
            Ok(Err(error)) => last = error.to_string(),
            Ok(Ok(length)) => match reply(id, &packet[..length]) {
                Some(reply) => return Ok(reply),
                None => last = "what it says is no answer".to_owned(),
            },
        }
    }
    Err(last)
}

/// A question as a packet.
fn question(id: u16, name: &str, kind: u16) -> Result<Vec<u8>, String> {
    let mut packet = id.to_be_bytes().to_vec();
    // Recursion desired, one question.
    packet.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.trim_end_matches('.').split('.').filter(|label| !label.is_empty()) {
        let length = u8::try_from(label.len()).ok().filter(|length| *length < 64);
        packet.push(length.ok_or_else(|| format!("{name:?} is no name"))?);
        packet.extend(label.as_bytes());
    }
    packet.push(0);
    packet.extend(kind.to_be_bytes());
    packet.extend([0, 1]);
    Ok(packet)
}

/// What a packet answers to the question of that id; nothing if it does not.
fn reply(id: u16, packet: &[u8]) -> Option<Reply> {
    let number = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
    if number(0)? != id || packet.get(2)? & 0x80 == 0 {
        return None;
    }
    let authoritative = packet.get(2)? & 0x04 != 0;
    let code = packet.get(3)? & 0x0f;
    let (questions, answers) = (number(4)?, number(6)?);
    let mut at = 12;
    for _ in 0..questions {
        at = name(packet, at)?.1 + 4;
    }
    let mut servers = Vec::new();
    for _ in 0..answers {
        at = name(packet, at)?.1;
        let (kind, length) = (number(at)?, number(at + 8)?);
        if kind == NS {
            servers.push(name(packet, at + 10)?.0);
        }
        at += 10 + usize::from(length);
    }
    Some(Reply { authoritative, code, servers })
}

/// A name in a packet, and where it ends. Pointers only lead backwards, so this comes to an end.
fn name(packet: &[u8], start: usize) -> Option<(String, usize)> {
    let (mut text, mut at, mut end) = (String::new(), start, None);
    let mut lowest = start;
    loop {
        let length = *packet.get(at)?;
        match length {
            0 => return Some((text, end.unwrap_or(at + 1))),
            0xc0.. => {
                let target = usize::from(length & 0x3f) << 8 | usize::from(*packet.get(at + 1)?);
                end = end.or(Some(at + 2));
                if target >= lowest {
                    return None;
                }
                (lowest, at) = (target, target);
            }
            64.. => return None,
            _ => {
                let label = packet.get(at + 1..at + 1 + usize::from(length))?;
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(&String::from_utf8_lossy(label));
                at += 1 + usize::from(length);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer with two NS records, the second of which is compressed.
    fn answer() -> Vec<u8> {
        let mut packet = question(7, "shop.test", NS).unwrap();
        packet[2] = 0x85;
        packet[7] = 2;
        let record = |data: &[u8]| {
            let mut record = vec![0xc0, 12, 0, 2, 0, 1, 0, 0, 0, 60, 0, data.len() as u8];
            record.extend(data);
            record
        };
        packet.extend(record(b"\x03ns1\x05other\x00"));
        packet.extend(record(b"\x03ns2\xc0\x0c"));
        packet
    }

    #[test]
    fn answers_are_read_with_their_names() {
        let expected = Reply {
            authoritative: true,
            code: 0,
            servers: vec!["ns1.other".to_owned(), "ns2.shop.test".to_owned()],
        };
        assert_eq!(reply(7, &answer()), Some(expected));
        assert_eq!(reply(8, &answer()), None, "the answer to another question");
    }

    #[test]
    fn packets_that_are_broken_are_no_answers() {
        let whole = answer();
        for length in 0..whole.len() {
            assert_eq!(reply(7, &whole[..length]), None, "cut at {length}");
        }
        let mut loops = whole.clone();
        let last = loops.len() - 1;
        loops[last] = (last - 1) as u8;
        assert_eq!(reply(7, &loops), None, "a pointer to itself");
        assert!(question(7, &"a".repeat(64), NS).is_err());
    }
}
