//! Questions signed with a shared secret.

use std::time::{SystemTime, UNIX_EPOCH};

use limen_core::global::TrafficRules;
use limen_dns::TsigKey;
use limen_dns_wire::tsig::{Before, TsigError, sign, verify};

use crate::bed::{Bed, shop};
use crate::client::*;

const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const NOTAUTH: u8 = 9;

fn key(name: &str, secret: &str) -> TsigKey {
    TsigKey::new(name, "hmac-sha256", secret).unwrap()
}

fn bed() -> Bed {
    Bed::with(shop(TrafficRules::default()), |options| {
        options.tsig_keys = vec![key("peer", SECRET)];
    })
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn a_signed_question_gets_a_signed_answer() {
    let bed = bed();
    let key = key("peer", SECRET);
    let mut packet = ask("shop.example.com", A).subnet("10.3.0.0", 16).bytes();
    let mac = sign(&mut packet, &key, Before::Nothing, now());
    let bytes = exchange(bed.address(), &packet).unwrap();
    let signed = verify(&bytes, [&key], Before::Request(&mac), now()).unwrap();
    assert_eq!(Answer::read(&signed.message).texts(), ["192.0.2.3"]);
}

#[test]
fn a_wrong_signature_is_said_to_be_wrong_and_nothing_is_answered() {
    let bed = bed();
    let other = "b3RoZXIgc2VjcmV0IG90aGVyIHNlY3JldA==";
    for (key, time, code) in [
        (key("peer", other), now(), 16),
        (key("nobody", SECRET), now(), 17),
        (key("peer", SECRET), now() - 1000, 18),
    ] {
        let mut packet = ask("shop.example.com", A).bytes();
        let mac = sign(&mut packet, &key, Before::Nothing, time);
        let bytes = exchange(bed.address(), &packet).unwrap();
        let answer = Answer::read(&bytes);
        assert_eq!((answer.rcode, answer.answers.len()), (NOTAUTH, 0));
        let error = verify(&bytes, [&key], Before::Request(&mac), time).unwrap_err();
        assert_eq!(error, TsigError::Refused(code));
    }
}
