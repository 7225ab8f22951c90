//! A server that refuses some updates, and is only that much of a server.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use limen_api::source::Objects;
use limen_cloud::{Place, Rfc2136, Settings, publish_once};
use limen_core::global::{Address, Backend, Global, PathRule, PathType, Rule, Target};
use limen_core::publish::Publisher;
use limen_dns_wire::tsig::{Before, TsigKey, sign, verify};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const UPDATE: u8 = 0x28;
const REFUSED: u8 = 5;

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

/// An empty zone, in which everything may be written but names with `bad`.
async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        // Who has asked enough goes away.
        let _ = talk(stream).await;
    }
}

async fn talk(mut stream: TcpStream) -> std::io::Result<()> {
    loop {
        let mut packet = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut packet).await?;
        let key = key();
        let signed = verify(&packet, [&key], Before::Nothing, now()).unwrap();
        let message = &signed.message;
        let mut answer = vec![message[0], message[1], 0x80 | message[2], 0, 0, 0, 0, 0, 0, 0, 0, 0];
        if message[2] & 0x78 == UPDATE {
            let refused = message.windows(4).any(|bytes| bytes == b"\x03bad");
            answer[3] = if refused { REFUSED } else { 0 };
        } else {
            answer[7] = 2;
            for _ in 0..2 {
                answer.extend(b"\x07example\x03com\0\0\x06\0\x01\0\0\0\x05\0\0");
            }
        }
        sign(&mut answer, &key, Before::Request(&signed.mac), now());
        stream.write_u16(answer.len() as u16).await?;
        stream.write_all(&answer).await?;
    }
}

#[tokio::test]
async fn a_name_that_is_refused_keeps_no_other_from_being_published() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap().to_string();
    tokio::spawn(serve(listener));
    let place = Place::Rfc2136(Rfc2136 { server, key: key() });
    let (owner, zone) = ("one".to_owned(), "example.com".to_owned());
    let publisher = Publisher { owner, zone, lease: 60, limits: None };
    let settings = Settings { publisher, ttl: 30, dry_run: false };
    let wanted = objects(&["a..dots.example.com", "bad.example.com", "good.example.com"]);
    let round = publish_once(&place, &settings, &wanted).await.unwrap();
    assert_eq!(round.changed, ["say that one is alive", "good.example.com leads to 192.0.2.1"]);
    assert_eq!(round.failed.len(), 2, "{round:?}");
    assert!(round.failed[0].contains("two dots"), "{round:?}");
    assert!(round.failed[1].contains("bad.example.com") && round.failed[1].contains("REFUSED"));
}
