//! Challenges of certificate authorities, written by signed updates.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use limen_api::source::Objects;
use limen_api::{ChallengeWrite, DnsChallengeSpec};
use limen_core::global::TrafficRules;
use limen_dns::Challenges;
use limen_dns_wire::tsig::{Before, TsigKey, sign, verify};
use tokio::sync::mpsc;

use crate::bed::{Bed, shop, until};
use crate::client::*;

const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const NAME: &str = "_acme-challenge.shop.example.com";

fn key(name: &str) -> TsigKey {
    TsigKey::new(name, "hmac-sha256", SECRET).unwrap()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// An update that adds a text to a name, or removes it.
fn update(name: &str, class: u16, text: &str) -> Vec<u8> {
    let mut packet = vec![0x12, 0x34, 0x28, 0, 0, 1, 0, 0, 0, 1, 0, 0];
    packet.extend(encode("example.com"));
    packet.extend([0, 6, 0, 1]);
    packet.extend(encode(name));
    packet.extend(TXT.to_be_bytes());
    packet.extend(class.to_be_bytes());
    packet.extend([0, 0, 0, 60]);
    packet.extend((text.len() as u16 + 1).to_be_bytes());
    packet.push(text.len() as u8);
    packet.extend(text.bytes());
    packet
}

/// A server, and what stands for its hub: takes writes and gives objects.
struct Stage {
    bed: Bed,
    writes: mpsc::Receiver<ChallengeWrite>,
}

impl Stage {
    fn new() -> Self {
        Self::limited(0)
    }

    fn limited(rate_limit: u32) -> Self {
        let (writer, writes) = mpsc::channel(4);
        let challenges = Challenges { keys: vec![key("acme")], writer };
        let bed = Bed::with(shop(TrafficRules::default()), |options| {
            options.challenges = Some(challenges);
            (options.rate_limit, options.workers) = (rate_limit, 1);
        });
        Self { bed, writes }
    }

    /// Sends an update; the hub takes it and says so, or not. Returns the code of the answer.
    fn send(&mut self, packet: &[u8], with: &TsigKey, tcp: bool, hub: &Result<(), String>) -> u8 {
        let mut signed = packet.to_vec();
        let mac = sign(&mut signed, with, Before::Nothing, now());
        let server = self.bed.address();
        let asking = std::thread::spawn(move || ask_raw(server, &signed, tcp));
        while !asking.is_finished() {
            if let Ok(ChallengeWrite { changes, done }) = self.writes.try_recv() {
                if hub.is_ok() {
                    let mut spec = DnsChallengeSpec { name: changes[0].0.clone(), texts: vec![] };
                    changes.iter().for_each(|(_, change)| spec.change(change));
                    self.bed.set(with_challenge(spec));
                }
                done.send(hub.clone()).unwrap();
            }
            std::thread::yield_now();
        }
        let answer = asking.join().unwrap();
        let code = answer[3] & 0x0F;
        // What is not refused for its signature has one.
        if code != 9 {
            verify(&answer, [with], Before::Request(&mac), now()).unwrap();
        }
        code
    }

    fn texts(&self) -> Vec<Vec<u8>> {
        let answer = ask(NAME, TXT).udp(self.bed.address());
        answer.answers.into_iter().map(|record| record.data).collect()
    }
}

fn ask_raw(server: SocketAddr, packet: &[u8], tcp: bool) -> Vec<u8> {
    use std::io::{Read, Write};
    if !tcp {
        return exchange(server, packet).unwrap();
    }
    let mut stream = TcpStream::connect(server).unwrap();
    stream.write_all(&[&(packet.len() as u16).to_be_bytes(), packet].concat()).unwrap();
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer).unwrap();
    answer
}

fn with_challenge(spec: DnsChallengeSpec) -> Objects {
    let mut objects = shop(TrafficRules::default());
    objects.challenges.insert(("limen-system".into(), "one".into()), Arc::new(spec));
    objects
}

#[test]
fn a_signed_update_is_written_to_the_hub_and_then_answered() {
    for tcp in [false, true] {
        let mut stage = Stage::new();
        assert_eq!(ask(NAME, TXT).udp(stage.bed.address()).rcode, NXDOMAIN);
        assert_eq!(stage.send(&update(NAME, 1, "token"), &key("acme"), tcp, &Ok(())), NOERROR);
        until(|| stage.texts(), |texts| *texts == [b"\x05token".to_vec()]);
        // The host itself is as it was.
        assert_eq!(ask("shop.example.com", A).udp(stage.bed.address()).answers.len(), 1);
        assert_eq!(stage.send(&update(NAME, 254, "token"), &key("acme"), tcp, &Ok(())), NOERROR);
        until(|| stage.texts(), Vec::is_empty);
    }
}

#[test]
fn what_is_not_a_challenge_or_not_signed_well_is_never_written() {
    let mut stage = Stage::new();
    let good = update(NAME, 1, "token");
    let unheard = || Ok(());
    let other =
        TsigKey::new("acme", "hmac-sha256", "ZmFsc2VmYWxzZWZhbHNlZmFsc2VmYWxzZQ==").unwrap();
    assert_eq!(stage.send(&good, &other, false, &unheard()), 9, "another secret");
    assert_eq!(stage.send(&good, &key("stranger"), false, &unheard()), 9, "another name");
    let host = update("shop.example.com", 1, "token");
    assert_eq!(stage.send(&host, &key("acme"), true, &unheard()), REFUSED);
    let answer = exchange(stage.bed.address(), &good).unwrap();
    assert_eq!(answer[3] & 0x0F, REFUSED, "without a signature");
    assert!(stage.writes.try_recv().is_err(), "nothing of that reached the hub");
    let sorry = Err("the hub is away".to_owned());
    assert_eq!(stage.send(&good, &key("acme"), false, &sorry), 2, "SERVFAIL: ask again");
    assert!(stage.texts().is_empty());
}

#[test]
fn a_flood_of_updates_that_nobody_signed_is_not_answered_in_full() {
    let mut stage = Stage::limited(5);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(stage.bed.address()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut signed = update(NAME, 1, "token");
    sign(&mut signed, &key("stranger"), Before::Nothing, now());
    for packet in [update(NAME, 1, "token"), signed] {
        for _ in 0..50 {
            socket.send(&packet).unwrap();
        }
    }
    let (mut answers, mut buffer) = (0, [0; 512]);
    while socket.recv(&mut buffer).is_ok() {
        answers += 1;
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    }
    assert!((1..40).contains(&answers), "{answers} answers");
    // Whoever may is answered as ever.
    assert_eq!(stage.send(&update(NAME, 1, "token"), &key("acme"), false, &Ok(())), NOERROR);
}
