//! A server that refuses some updates, and is only that much of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use limen_api::source::Objects;
use limen_cloud::{Place, PublishError, Rfc2136, Round, Settings, publish_once};
use limen_core::global::{Address, Backend, Global, PathRule, PathType, Rule, Target};
use limen_core::publish::Publisher;
use limen_dns_wire::tsig::{Before, TsigKey, sign, verify};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const UPDATE: u8 = 0x28;
const REFUSED: u8 = 5;
const NXRRSET: u8 = 8;

fn key() -> TsigKey {
    let secret = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    TsigKey::new("publish", "hmac-sha256", secret).unwrap()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A host for each name, all of them well.
fn objects(hosts: &[&str]) -> Objects {
    let global = |host: &&str| {
        let path =
            PathRule { path: "/".into(), path_type: PathType::Prefix, backend: "web".into() };
        let target = Target {
            cluster: "one".into(),
            addresses: vec![Address { host: "192.0.2.1".into(), port: 80 }],
            ready_endpoints: Some(1),
            ..Target::default()
        };
        Global {
            rules: vec![Rule { host: (*host).to_owned(), paths: vec![path] }],
            backends: vec![Backend { name: "web".into(), targets: vec![target] }],
            ..Global::default()
        }
    };
    let keyed =
        hosts.iter().map(|host| (("default".into(), (*host).to_owned()), Arc::new(global(host))));
    Objects { ingresses: keyed.collect(), ..Objects::default() }
}

/// What a server answers to an update.
type Judge = fn(&[u8]) -> u8;

/// A server with nothing in its zone but, maybe, that the publisher is alive.
struct Server {
    judge: Judge,
    alive: bool,
    /// How many updates it was asked for.
    asked: AtomicUsize,
}

impl Server {
    async fn serve(self: Arc<Self>, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            // Who has asked enough goes away.
            let _ = self.talk(stream).await;
        }
    }

    async fn talk(&self, mut stream: TcpStream) -> std::io::Result<()> {
        loop {
            let mut packet = vec![0; usize::from(stream.read_u16().await?)];
            stream.read_exact(&mut packet).await?;
            let key = key();
            let signed = verify(&packet, [&key], Before::Nothing, now()).unwrap();
            let message = &signed.message;
            let mut answer =
                vec![message[0], message[1], 0x80 | message[2], 0, 0, 0, 0, 0, 0, 0, 0, 0];
            if message[2] & 0x78 == UPDATE {
                self.asked.fetch_add(1, Ordering::SeqCst);
                answer[3] = (self.judge)(message);
            } else {
                let soa = b"\x07example\x03com\0\0\x06\0\x01\0\0\0\x05\0\0";
                let lease = if self.alive { lease() } else { Vec::new() };
                answer[7] = 2 + u8::from(self.alive);
                answer.extend([&soa[..], &lease, soa].concat());
            }
            sign(&mut answer, &key, Before::Request(&signed.mac), now());
            stream.write_u16(answer.len() as u16).await?;
            stream.write_all(&answer).await?;
        }
    }
}

/// The record that says that the publisher is alive.
fn lease() -> Vec<u8> {
    let text = format!("heritage=limen,owner=one,lease={}", now() + 60);
    let length = text.len() as u8;
    let name = b"\x10_limen-lease-one\x07example\x03com\0";
    let head = b"\0\x10\0\x01\0\0\0\x3c\0";
    [&name[..], head, &[length + 1, length], text.as_bytes()].concat()
}

/// Publishes names once. What came of it, and how many updates the server was asked for.
async fn publish(
    judge: Judge,
    alive: bool,
    hosts: &[&str],
) -> (Result<Round, PublishError>, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = Arc::new(Server { judge, alive, asked: AtomicUsize::new(0) });
    tokio::spawn(server.clone().serve(listener));
    let place = Place::Rfc2136(Rfc2136 { server: address, key: key() });
    let (owner, zone) = ("one".to_owned(), "example.com".to_owned());
    let publisher = Publisher { owner, zone, lease: 60, limits: None };
    let settings = Settings { publisher, ttl: 30, dry_run: false };
    let made = publish_once(&place, &settings, &objects(hosts)).await;
    (made, server.asked.load(Ordering::SeqCst))
}

fn has(message: &[u8], label: &[u8]) -> bool {
    message.windows(label.len()).any(|bytes| bytes == label)
}

/// Refuses names with `bad`.
fn some(message: &[u8]) -> u8 {
    if has(message, b"\x03bad") { REFUSED } else { 0 }
}

#[tokio::test]
async fn a_name_that_is_refused_keeps_no_other_from_being_published() {
    let hosts = ["a..dots.example.com", "bad.example.com", "good.example.com"];
    let round = publish(some, false, &hosts).await.0.unwrap();
    assert_eq!(round.changed, ["say that one is alive", "good.example.com leads to 192.0.2.1"]);
    assert_eq!(round.failed.len(), 2, "{round:?}");
    assert!(round.failed[0].contains("two dots"), "{round:?}");
    assert!(round.failed[1].contains("bad.example.com") && round.failed[1].contains("REFUSED"));
}

#[tokio::test]
async fn whoever_cannot_say_that_it_is_alive_touches_no_name() {
    let no_leases: Judge =
        |message| if has(message, b"\x10_limen-lease-one") { REFUSED } else { 0 };
    let (made, asked) = publish(no_leases, false, &["good.example.com"]).await;
    let error = made.unwrap_err().to_string();
    assert!(error.contains("say that one is alive") && error.contains("REFUSED"), "{error}");
    assert_eq!(asked, 1);
    // Somebody else of the same name was faster, whose work is looked at first.
    let overtaken: Judge =
        |message| if has(message, b"\x10_limen-lease-one") { NXRRSET } else { 0 };
    let (made, asked) = publish(overtaken, false, &["good.example.com"]).await;
    let round = made.unwrap();
    assert_eq!((round.overtaken.len(), round.changed.len(), asked), (1, 0, 1), "{round:?}");
    // While the lease lasts it need not be renewed.
    let (made, asked) = publish(no_leases, true, &["good.example.com"]).await;
    assert_eq!((made.unwrap().changed.len(), asked), (1, 1));
}

#[tokio::test]
async fn a_server_that_refuses_everything_is_not_asked_for_everything() {
    let names: Vec<String> = (10..40).map(|n| format!("bad.n{n}.example.com")).collect();
    let mut hosts: Vec<&str> = names.iter().map(String::as_str).collect();
    let (made, asked) = publish(some, true, &hosts).await;
    assert!(made.unwrap_err().to_string().contains("REFUSED"));
    assert_eq!(asked, 5);
    // Whoever takes one thing may take others.
    hosts.insert(0, "a.example.com");
    let (made, asked) = publish(some, true, &hosts).await;
    let round = made.unwrap();
    assert_eq!((asked, round.changed.len(), round.failed.len()), (31, 1, 30));
}

#[tokio::test]
async fn a_server_in_trouble_is_asked_once() {
    // SERVFAIL, NOTIMP, NOTAUTH and NOTZONE.
    let judges: [(Judge, u8); 4] = [(|_| 2, 2), (|_| 4, 4), (|_| 9, 9), (|_| 10, 10)];
    for (judge, code) in judges {
        let (made, asked) = publish(judge, true, &["a.example.com", "b.example.com"]).await;
        let error = made.unwrap_err().to_string();
        assert!(error.contains(&format!("answered {code}")), "{error}");
        assert_eq!(asked, 1);
    }
}
