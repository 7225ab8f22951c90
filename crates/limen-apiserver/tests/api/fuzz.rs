//! Requests that nobody would send on purpose.
//!
//! Every file of the corpus is a request: its first line is method, path and content type, the rest
//! its body. Each is sent as it is and then with bytes changed, dropped, doubled or taken from
//! another request. Whatever comes, the server answers with a status of its own making, goes on
//! answering, and keeps what it had. The changes follow from a seed, which a failure names; set
//! `LIMEN_FUZZ_SEED` to try another one and `LIMEN_FUZZ_ROUNDS` to try for longer.

use std::path::Path;
use std::time::Duration;

use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use kube::client::Body;
use serde_json::Value;

use crate::server::{Hub, config_map};

const ROUNDS: u64 = 40;
const SEED: u64 = 0x11e6_5eed;

/// What is changed most: where requests branch.
const SPICES: [&[u8]; 16] = [
    b"null",
    b"{}",
    b"[]",
    b"\"\"",
    b"-1",
    b"1e999",
    b"99999999999999999999",
    b"true",
    b"%00",
    b"%2e%2e",
    b"\xff\xfe",
    b"\\u0000",
    b"[[[[[[[[",
    b"{\"a\":",
    b"metadata",
    b"~1",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_sent_is_answered_and_nothing_is_lost() {
    let seed = number("LIMEN_FUZZ_SEED").unwrap_or(SEED);
    let rounds = number("LIMEN_FUZZ_ROUNDS").unwrap_or(ROUNDS);
    let corpus = corpus();
    let hub = Hub::start().await;
    let kept: Api<ConfigMap> = Api::namespaced(hub.client.clone(), "kube-public");
    kept.create(&PostParams::default(), &config_map("kept", "value")).await.unwrap();

    let mut random = Random(seed);
    for round in 0..rounds {
        for (index, original) in corpus.iter().enumerate() {
            let mut bytes = original.clone();
            for _ in 0..round.min(6) {
                let other = &corpus[random.below(corpus.len())];
                random.change(&mut bytes, other);
            }
            let Some(request) = request(&bytes) else { continue };
            let what = || {
                let text = String::from_utf8_lossy(&bytes);
                format!("seed {seed:#x}, round {round}, file {index}:\n{text}")
            };
            let sent =
                tokio::time::timeout(Duration::from_secs(30), hub.client.send(request)).await;
            let answer = sent.unwrap_or_else(|_| panic!("no answer to {}", what()));
            let answer = answer.unwrap_or_else(|error| panic!("{error}: {}", what()));
            let status = answer.status();
            // A handler that panics would end the connection without any answer.
            if status.is_client_error() || status.is_server_error() {
                let body = answer.into_body().collect_bytes().await.unwrap();
                let told: Value = serde_json::from_slice(&body).unwrap_or_default();
                let plain = !body.starts_with(b"{");
                assert!(plain || told["kind"] == "Status", "{status} without a Status: {}", what());
                let body = String::from_utf8_lossy(&body);
                // Kubernetes answers 500 without a reason to some mistakes of clients, such as a
                // strategic merge patch that contradicts itself, and so do we. With a reason, or
                // with 503, it is the server that failed.
                let failed = status.is_server_error() && told.get("reason").is_some();
                assert!(!failed, "{status} for a mistake of the client's: {body}\n{}", what());
            }
        }
    }
    let object = kept.get("kept").await.unwrap();
    assert_eq!(object.data.unwrap()["key"], "value");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/corpus");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 10);
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// The request that bytes stand for; nothing when no client could send it.
fn request(bytes: &[u8]) -> Option<Request<Body>> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let mut words = bytes[..end].splitn(3, |byte| *byte == b' ');
    let (method, path, content_type) = (words.next()?, words.next()?, words.next()?);
    Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .header("accept", "application/json")
        .body(Body::from(bytes[end + 1..].to_vec()))
        .ok()
        .filter(|request| request.uri().path().starts_with('/'))
}

/// Numbers that look like chance and are always the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap_or(0)
    }

    fn change(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(bytes.len());
        let span = at..(at + self.below(12)).min(bytes.len());
        match self.next() % 5 {
            0 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << (at % 8);
                }
            }
            1 => drop(bytes.drain(span)),
            2 => {
                let copy = bytes[span].to_vec();
                bytes.splice(at..at, copy);
            }
            3 => {
                let spice = SPICES[self.below(SPICES.len())];
                bytes.splice(span, spice.iter().copied());
            }
            _ => {
                let from = self.below(other.len());
                let piece = &other[from..(from + self.below(40)).min(other.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
        }
    }
}
