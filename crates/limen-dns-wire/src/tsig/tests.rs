use proptest::prelude::*;

use super::*;

const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const NOW: u64 = 1_700_000_000;

fn key(algorithm: &str) -> TsigKey {
    TsigKey::new("Peer.Example.", algorithm, SECRET).unwrap()
}

/// A question for the SOA of `example`.
fn question() -> Vec<u8> {
    b"\x12\x34\0\0\0\x01\0\0\0\0\0\0\x07example\0\0\x06\0\x01".to_vec()
}

#[test]
fn what_was_signed_is_accepted_whole() {
    for algorithm in ["hmac-sha256", "HMAC-SHA384.", "hmac-sha512"] {
        let key = key(algorithm);
        let mut message = question();
        let mac = sign(&mut message, &key, Before::Nothing, NOW);
        assert_eq!(message.len(), question().len() + length(&key), "{algorithm}");
        let signed = verify(&message, [&key], Before::Nothing, NOW + 300).unwrap();
        assert_eq!((signed.mac, signed.message), (mac, question()), "{algorithm}");
        assert_eq!(signed.key.name(), "peer.example");
    }
}

#[test]
fn an_answer_belongs_to_its_question_and_to_what_came_before() {
    let key = key("hmac-sha256");
    let mut answer = question();
    let first = sign(&mut answer, &key, Before::Request(b"mac"), NOW);
    let check = |packet: &[u8], before| verify(packet, [&key], before, NOW).map(|_| ());
    assert_eq!(check(&answer, Before::Request(b"mac")), Ok(()));
    assert_eq!(check(&answer, Before::Request(b"other")), Err(TsigError::BadSignature));
    assert_eq!(check(&answer, Before::Nothing), Err(TsigError::BadSignature));
    let mut second = question();
    sign(&mut second, &key, Before::Message(&first), NOW);
    assert_eq!(check(&second, Before::Message(&first)), Ok(()));
    assert_eq!(check(&second, Before::Message(b"mac")), Err(TsigError::BadSignature));
    assert_eq!(check(&second, Before::Request(&first)), Err(TsigError::BadSignature));
}

#[test]
fn a_message_renumbered_on_its_way_is_still_the_same() {
    let key = key("hmac-sha256");
    let mut message = question();
    sign(&mut message, &key, Before::Nothing, NOW);
    message[0] ^= 0xFF;
    assert_eq!(verify(&message, [&key], Before::Nothing, NOW).unwrap().message, question());
}

#[test]
fn whatever_is_not_right_is_refused_and_said() {
    let key = key("hmac-sha256");
    let mut message = question();
    sign(&mut message, &key, Before::Nothing, NOW);
    let check = |packet: &[u8], now| verify(packet, [&key], Before::Nothing, now).unwrap_err();
    assert_eq!(check(&question(), NOW), TsigError::Missing);
    assert_eq!(check(&message[..message.len() - 1], NOW), TsigError::Malformed);
    let late = TsigError::BadTime { signed: NOW, now: NOW + 301 };
    assert_eq!(check(&message, NOW + 301), late);
    assert!(matches!(check(&message, NOW - 301), TsigError::BadTime { .. }));
    let other = "b3RoZXIgc2VjcmV0IG90aGVyIHNlY3JldA==";
    for (theirs, error) in [
        (TsigKey::new("peer.example", "hmac-sha256", other), TsigError::BadSignature),
        (TsigKey::new("peer.example", "hmac-sha512", SECRET), TsigError::UnknownKey),
        (TsigKey::new("nobody.example", "hmac-sha256", SECRET), TsigError::UnknownKey),
    ] {
        let mut message = question();
        sign(&mut message, &theirs.unwrap(), Before::Nothing, NOW);
        assert_eq!(check(&message, NOW), error);
    }
}

#[test]
fn a_shortened_signature_is_refused() {
    let key = key("hmac-sha256");
    let mut message = question();
    sign(&mut message, &key, Before::Nothing, NOW);
    let start = find(&message).unwrap().unwrap();
    for (kept, error) in [(16, TsigError::Truncated), (15, TsigError::Malformed)] {
        let mut record = Record::read(&message, start).unwrap();
        record.mac.truncate(kept);
        let mut shorter = question();
        record.append_to(&mut shorter);
        assert_eq!(verify(&shorter, [&key], Before::Nothing, NOW).unwrap_err(), error, "{kept}");
        // Whoever makes up so many bytes must not get a signature of the key for them.
        let mut answer = question();
        append_refusal(&mut answer, &shorter, [&key], error);
        let refusal = find(&answer).unwrap().map(|start| Record::read(&answer, start).unwrap());
        assert!(refusal.is_none_or(|refusal| refusal.mac.is_empty()), "{kept}");
    }
}

#[test]
fn a_refusal_says_why_and_is_signed_only_where_the_key_was_right() {
    let key = key("hmac-sha256");
    let mut request = question();
    let mac = sign(&mut request, &key, Before::Nothing, NOW);
    for (why, code) in [
        (TsigError::UnknownKey, 17),
        (TsigError::BadSignature, 16),
        (TsigError::Truncated, 22),
        (TsigError::BadTime { signed: NOW, now: NOW + 1000 }, 18),
    ] {
        let mut answer = question();
        append_refusal(&mut answer, &request, [&key], why);
        let start = find(&answer).unwrap().unwrap();
        let record = Record::read(&answer, start).unwrap();
        assert_eq!(record.error, code);
        assert_eq!(record.mac.is_empty(), code != 18, "{why}");
        assert_eq!(record.other.len(), if code == 18 { 6 } else { 0 });
        let seen = verify(&answer, [&key], Before::Request(&mac), NOW).unwrap_err();
        assert_eq!(seen, TsigError::Refused(code));
    }
}

#[test]
fn no_stranger_is_told_more_than_it_has_said() {
    let key = key("hmac-sha256");
    let mut whole = question();
    sign(&mut whole, &key, Before::Nothing, NOW);
    let start = find(&whole).unwrap().unwrap();
    let mut record = Record::read(&whole, start).unwrap();
    record.mac.clear();
    // A question for a name of 129 bytes, and a signature whose key is called the same.
    let long = [[&[63], &[b'x'; 63][..]].concat().repeat(2), vec![0]].concat();
    let bare = [&question()[..12], &long, b"\0\x06\0\x01"].concat();
    let mut request = bare.clone();
    record.append_to(&mut request);
    let name = bare.len()..bare.len() + record.key.len();
    request.splice(name, [0xC0, 12]);
    assert_eq!(verify(&request, [&key], Before::Nothing, NOW).unwrap_err(), TsigError::UnknownKey);
    for why in [TsigError::UnknownKey, TsigError::Truncated] {
        let mut answer = bare.clone();
        append_refusal(&mut answer, &request, [&key], why);
        assert_eq!(answer, bare);
    }
}

#[test]
fn a_key_is_checked_and_never_shows_its_secret() {
    let shown = format!("{:?}", key("hmac-sha256"));
    assert_eq!(shown, "TsigKey(peer.example hmac-sha256)");
    let wrong = |name, algorithm, secret| TsigKey::new(name, algorithm, secret).unwrap_err();
    assert!(matches!(wrong("a..b", "hmac-sha256", SECRET), KeyError::Name(_)));
    assert_eq!(wrong("a", "hmac-md5", SECRET), KeyError::Algorithm("hmac-md5".into()));
    assert_eq!(wrong("a", "hmac-sha256", "!!"), KeyError::Encoding);
    assert_eq!(wrong("a", "hmac-sha256", "c2hvcnQ="), KeyError::Short(5));
}

proptest! {
    /// Whatever comes, it is read or refused, and no change of one bit goes unnoticed.
    #[test]
    fn nothing_that_was_changed_is_accepted(flip in 0_usize..800, noise in any::<Vec<u8>>()) {
        let key = key("hmac-sha256");
        let _ = verify(&noise, [&key], Before::Nothing, NOW);
        let mut message = question();
        sign(&mut message, &key, Before::Nothing, NOW);
        let bit = flip % (message.len() * 8);
        // The number of a message may be changed, and upper case is lower case in a name.
        message[bit / 8] ^= 1 << (bit % 8);
        if let Ok(signed) = verify(&message, [&key], Before::Nothing, NOW) {
            prop_assert_eq!(signed.message, question());
        }
    }
}
