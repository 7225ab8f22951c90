use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

use super::signer::{Content, Signer};
use super::*;
use crate::wire::{kind, name};
use crate::zone::{Apex, Zones};

const NOW: u64 = 1_700_000_000;
const ZONE: &str = "example.com";

struct Keys {
    folder: tempfile::TempDir,
    keys: KeyFolder,
}

impl Keys {
    fn signer(&self, now: u64) -> Signer {
        self.keys.provide(ZONE, now).unwrap();
        self.keys.signer(ZONE).unwrap()
    }
}

fn keys() -> Keys {
    let folder = tempfile::tempdir().unwrap();
    let keys = KeyFolder::new(folder.path().join("keys"));
    Keys { folder, keys }
}

/// Whether a signature is right: put together from the standard, not from the signer's code.
fn is_right(rrsig: &[u8], dnskey: &[u8], records: &[u8]) -> bool {
    let (head, signature) = rrsig.split_at(rrsig.len() - 64);
    let point = [&[4], &dnskey[4..]].concat();
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
    key.verify(&[head, records].concat(), signature).is_ok()
}

fn content(signer: &Signer, kind: u16, ttl: u32, data: &mut [&[u8]]) -> Content {
    let mut content = Content::default();
    content.set(signer, &name::from_text("www.example.com").unwrap(), kind, ttl, data);
    content
}

#[test]
fn a_signature_covers_the_records_in_the_order_of_the_standard() {
    let bed = keys();
    let signer = bed.signer(NOW);
    let dnskey = signer.sets[0].data[0].clone();
    assert_eq!((dnskey.len(), &dnskey[..4]), (68, &[1, 1, 3, 13][..]));
    let content = content(&signer, kind::A, 30, &mut [&[9, 9, 9, 9], &[1, 2, 3, 4], &[1, 2, 3, 4]]);
    let mut memory = Signatures::default();
    let signatures = memory.of(&signer, &content, NOW as u32).to_vec();
    assert_eq!(signatures.len(), 1);
    let owner = b"\x03www\x07example\x03com\0";
    let record = |data: [u8; 4]| [&owner[..], &[0, 1, 0, 1, 0, 0, 0, 30, 0, 4], &data].concat();
    let records = [record([1, 2, 3, 4]), record([9, 9, 9, 9])].concat();
    assert!(is_right(&signatures[0], &dnskey, &records));
    assert!(!is_right(&signatures[0], &dnskey, &record([1, 2, 3, 4])));
    let head = &signatures[0];
    assert_eq!(head[..8], [0, 1, 13, 3, 0, 0, 0, 30], "type, algorithm, labels, TTL");
    let time = |at: usize| u64::from(u32::from_be_bytes(head[at..at + 4].try_into().unwrap()));
    assert_eq!(time(12), NOW - 3600, "a clock may be behind");
    assert!((7..8).contains(&((time(8) - NOW) / 86_400)), "a week and a little");
    assert_eq!(head[18..31], *b"\x07example\x03com\0");
}

#[test]
fn a_signature_is_made_once_until_it_is_about_to_expire() {
    let bed = keys();
    let signer = bed.signer(NOW);
    let content = content(&signer, kind::A, 30, &mut [&[1, 2, 3, 4]]);
    let mut memory = Signatures::default();
    let mut at = |days: u32| memory.of(&signer, &content, NOW as u32 + days * 86_400)[0].clone();
    let first = at(0);
    assert_eq!(first, at(3), "it is remembered");
    let expires = u32::from_be_bytes(first[8..12].try_into().unwrap());
    let later = at(6);
    assert_ne!(first, later, "it is made again");
    assert!(u32::from_be_bytes(later[8..12].try_into().unwrap()) > expires);
}

#[test]
fn a_signature_of_the_future_is_made_again_when_the_clock_is_set_right() {
    let bed = keys();
    let signer = bed.signer(NOW);
    let content = content(&signer, kind::A, 30, &mut [&[1, 2, 3, 4]]);
    let mut memory = Signatures::default();
    let mut at = |now: u64| memory.of(&signer, &content, now as u32)[0].clone();
    let ahead = at(NOW + 86_400);
    assert_eq!(at(NOW + 86_400 - 60), ahead, "a clock is set right by a little all the time");
    let right = at(NOW);
    let inception = u32::from_be_bytes(right[12..16].try_into().unwrap());
    assert_eq!(u64::from(inception), NOW - 3600);
    assert_eq!(at(NOW), right);
}

#[test]
fn the_memory_is_bounded_and_keeps_what_is_used() {
    let bed = keys();
    let signer = bed.signer(NOW);
    let mut memory = Signatures::with_most(8);
    let often = content(&signer, kind::A, 30, &mut [&[1, 2, 3, 4]]);
    let kept = memory.of(&signer, &often, NOW as u32).to_vec();
    for ttl in 100..200 {
        let other = content(&signer, kind::A, ttl, &mut [&[1, 2, 3, 4]]);
        memory.of(&signer, &other, NOW as u32);
        assert_eq!(memory.of(&signer, &often, NOW as u32).to_vec(), kept);
        assert!(memory.len() <= 17, "{}", memory.len());
    }
}

#[test]
fn a_key_is_made_once_and_nobody_else_can_read_it() {
    let bed = keys();
    let tag = |signer: Signer| signer.sets[0].data[0].clone();
    assert_eq!(tag(bed.signer(NOW)), tag(bed.signer(NOW + 1)));
    bed.keys.provide("example.org", NOW).unwrap();
    let stored = bed.keys.list(ZONE).unwrap();
    assert_eq!((stored.len(), stored[0].state, stored[0].since), (1, KeyState::Active, NOW));
    let path = bed.folder.path().join(format!("keys/{ZONE}.{:05}.key", stored[0].tag));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(stored[0].ds.starts_with(&format!("example.com. IN DS {} 13 2 ", stored[0].tag)));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = bed.keys.signer(ZONE).err().unwrap().to_string();
    assert!(error.contains("(mode 644): chmod 600"), "{error}");
    assert!(error.contains(path.to_str().unwrap()), "{error}");
    assert!(bed.keys.signer("example.org").is_ok(), "the key of another zone is no worse for it");
    assert!(bed.keys.provide(ZONE, NOW).is_err(), "no key is made beside one that cannot be used");
}

fn zones() -> Zones {
    let apex = Apex { name: name::from_text(ZONE).unwrap().into(), ..Apex::default() };
    Zones { apexes: vec![apex], ..Zones::default() }
}

#[test]
fn a_folder_that_looks_empty_leaves_the_key_that_signs() {
    let bed = keys();
    let mut signers = Signers::new(Some(bed.keys.clone()));
    let mut zones = zones();
    signers.attach(&mut zones, NOW);
    let first = zones.apexes[0].signer.clone().unwrap();
    let (here, away) = (bed.folder.path().join("keys"), bed.folder.path().join("away"));
    std::fs::rename(&here, &away).unwrap();
    for looks_empty in [false, true] {
        if looks_empty {
            std::fs::create_dir(&here).unwrap();
        }
        // However often that is seen, it is one problem.
        for _ in 0..3 {
            signers.attach(&mut zones, NOW);
            let signer = zones.apexes[0].signer.clone().unwrap();
            assert!(Arc::ptr_eq(&first, &signer));
            let problems = zones.all_problems().map(String::as_str).collect::<Vec<_>>();
            assert!(matches!(problems[..], [one] if one.contains("are gone from")), "{problems:?}");
        }
    }
    assert_eq!(std::fs::read_dir(&here).unwrap().count(), 0, "no key was made");
    std::fs::remove_dir(&here).unwrap();
    std::fs::rename(&away, &here).unwrap();
    signers.attach(&mut zones, NOW);
    assert_eq!(zones.all_problems().count(), 0);
    assert!(Arc::ptr_eq(&first, zones.apexes[0].signer.as_ref().unwrap()));
}

#[test]
fn a_key_that_is_hidden_from_others_again_is_taken_back() {
    let bed = keys();
    let mut signers = Signers::new(Some(bed.keys.clone()));
    let mut zones = zones();
    signers.attach(&mut zones, NOW);
    let Rolled::Published(new) = bed.keys.roll(ZONE, NOW, false).unwrap() else { panic!() };
    let path = bed.folder.path().join(format!("keys/{ZONE}.{new:05}.key"));
    let set_mode = |mode| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o644);
    assert!(signers.have_changed(NOW));
    signers.attach(&mut zones, NOW);
    assert!(zones.key_problems[0].contains("chmod 600"), "{:?}", zones.key_problems);
    assert!(!signers.have_changed(NOW), "it is not read again until it is another");
    set_mode(0o600);
    assert!(signers.have_changed(NOW), "a new mode is a change");
    signers.attach(&mut zones, NOW);
    assert_eq!(zones.key_problems.len(), 0);
    assert_eq!(zones.apexes[0].signer.as_ref().unwrap().sets[0].data.len(), 2, "both keys");
    assert!(!signers.have_changed(NOW));
}

/// At every moment of a roll, whoever remembers the keys, the DS or the signatures of the moment
/// before can check the answers of this one.
#[test]
fn a_key_is_replaced_without_a_gap() {
    let bed = keys();
    let view = |now: u64| {
        let signer = bed.signer(now);
        let content = content(&signer, kind::A, 30, &mut [&[1, 2, 3, 4]]);
        let mut memory = Signatures::default();
        let tags = |signatures: &[Box<[u8]>]| -> BTreeSet<u16> {
            signatures.iter().map(|data| u16::from_be_bytes([data[16], data[17]])).collect()
        };
        let signing = tags(memory.of(&signer, &content, now as u32));
        let mut sets: Vec<&[u8]> = signer.sets[0].data.iter().map(|data| &**data).collect();
        let mut keys = Content::default();
        keys.set(&signer, &name::from_text(ZONE).unwrap(), kind::DNSKEY, 3600, &mut sets);
        let ds: BTreeSet<u16> = signer.ds().map(|ds| u16::from_be_bytes([ds[0], ds[1]])).collect();
        (signer.sets[0].data.len(), signing, tags(memory.of(&signer, &keys, now as u32)), ds)
    };
    let old = *view(NOW).1.first().unwrap();
    let Rolled::Published(new) = bed.keys.roll(ZONE, NOW, false).unwrap() else { panic!() };
    let both = BTreeSet::from([old, new]);
    let expected = (2, [old].into(), both.clone(), both.clone());
    assert_eq!(view(NOW), expected, "seen, not signing");
    let early = bed.keys.roll(ZONE, NOW + 3600, false).unwrap_err().to_string();
    assert!(early.starts_with(&format!("too early: the key {new} of example.com")), "{early}");
    let at = NOW + 4000;
    assert_eq!(bed.keys.roll(ZONE, at, false).unwrap(), Rolled::Activated(new));
    assert_eq!(view(at), (2, [new].into(), both, [new].into()));
    assert!(bed.keys.roll(ZONE, at + 86_400, false).is_err(), "the old DS may be remembered");
    assert_eq!(bed.keys.roll(ZONE, at + 200_000, false).unwrap(), Rolled::Removed(old));
    assert_eq!(view(at + 200_000), (1, [new].into(), [new].into(), [new].into()));
}

#[test]
fn the_next_name_follows_directly_and_types_are_bits() {
    let apex = name::from_text(ZONE).unwrap();
    let www = name::from_text("www.example.com").unwrap();
    assert_eq!(next_name(&www, &apex), b"\x01\0\x03www\x07example\x03com\0");
    let label = |byte: u8, length: usize| [&[length as u8][..], &vec![byte; length]].concat();
    let longest =
        [label(b'a', 63), label(b'b', 63), label(b'c', 63), label(b'd', 48), apex.to_vec()];
    let longest = longest.concat();
    assert_eq!(longest.len(), 254);
    let next = next_name(&longest, &apex);
    assert_eq!((next.len(), next[63]), (254, b'b'), "the next sibling");
    let mut kinds = vec![kind::CAA, kind::A, kind::NSEC, kind::RRSIG, kind::A];
    let expected = [0, 6, 0x40, 0, 0, 0, 0, 3, 1, 1, 0x40];
    assert_eq!(bitmap(&mut kinds), expected);
}
