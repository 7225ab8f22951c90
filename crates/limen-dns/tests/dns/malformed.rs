//! Packets that are not what they should be.

use limen_core::global::TrafficRules;

use crate::bed::{Bed, shop};
use crate::client::*;

/// A good question, changed.
fn packet(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = ask("shop.example.com", A).bytes();
    change(&mut bytes);
    bytes
}

fn with_opt(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = ask("shop.example.com", A).edns().bytes();
    change(&mut bytes);
    bytes
}

fn with_question(question: &[u8]) -> Vec<u8> {
    [&[0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], question].concat()
}

#[test]
fn malformed_packets_get_the_code_that_the_standards_say() {
    let long_name: Vec<u8> = [&[63_u8][..], &[b'x'; 63]].concat().repeat(4);
    let table: Vec<(&str, Vec<u8>, u8)> = vec![
        ("no question", packet(|bytes| bytes[5] = 0), FORMERR),
        ("two questions", packet(|bytes| bytes[5] = 2), FORMERR),
        ("65535 questions", packet(|bytes| bytes[4..6].fill(255)), FORMERR),
        ("an answer in a question", packet(|bytes| bytes[7] = 1), FORMERR),
        ("an authority in a question", packet(|bytes| bytes[9] = 1), FORMERR),
        ("records that are not there", packet(|bytes| bytes[11] = 1), FORMERR),
        ("bytes after the end", packet(|bytes| bytes.push(0)), FORMERR),
        ("a header only", packet(|bytes| bytes.truncate(12)), FORMERR),
        ("half a name", packet(|bytes| bytes.truncate(20)), FORMERR),
        ("no class", packet(|bytes| bytes.truncate(bytes.len() - 2)), FORMERR),
        ("a pointer to itself", with_question(&[0xC0, 12, 0, 1, 0, 1]), FORMERR),
        ("a pointer beyond the end", with_question(&[0xFF, 0xFF, 0, 1, 0, 1]), FORMERR),
        ("a label of a kind that never came", with_question(&[0x41, 0, 0, 1, 0, 1]), FORMERR),
        (
            "a name of more than 255 bytes",
            with_question(&[&long_name[..], &[0, 0, 1, 0, 1]].concat()),
            FORMERR,
        ),
        ("an OPT as a question", with_question(&[0, 0, 41, 0, 1]), FORMERR),
        ("a pointer back into the name", with_question(&[1, b'x', 0xC0, 12, 0, 1, 0, 1]), FORMERR),
        (
            "a record that points at itself",
            packet(|bytes| {
                let at = bytes.len() as u8;
                bytes.extend([0xC0, at, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4]);
                bytes[11] = 1;
            }),
            NOERROR,
        ),
        (
            "what a transfer knows, cut short",
            with_question(&[1, b'x', 0, 0, 251, 0, 1, 0xC0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 9])
                .into_iter()
                .enumerate()
                .map(|(at, byte)| if at == 9 { 1 } else { byte })
                .collect(),
            FORMERR,
        ),
        ("a truncated question, as it says itself", packet(|bytes| bytes[2] |= 0x02), NOERROR),
        ("an authoritative question", packet(|bytes| bytes[2] |= 0x04), NOERROR),
        ("all flags that mean nothing here", packet(|bytes| bytes[3] = 0xF0), NOERROR),
        ("a code in a question", packet(|bytes| bytes[3] = 0x0F), NOERROR),
        ("class CHAOS", Ask { class: 3, ..ask("version.bind", TXT) }.bytes(), REFUSED),
        ("class NONE", Ask { class: 254, ..ask("shop.example.com", A) }.bytes(), REFUSED),
        ("type 0", ask("shop.example.com", 0).bytes(), NOERROR),
        ("MAILA", ask("shop.example.com", 254).bytes(), NOTIMP),
        ("TKEY", ask("shop.example.com", 249).bytes(), NOTIMP),
        ("TSIG as a question", ask("shop.example.com", 250).bytes(), NOTIMP),
        (
            "EDNS of version 1",
            with_opt(|bytes| {
                let at = bytes.len() - 5;
                bytes[at] = 1;
            }),
            0,
        ),
        (
            "an option of 1200 bytes",
            ask("shop.example.com", A).option(65001, &[7; 1200]).bytes(),
            NOERROR,
        ),
        ("an inverse query", packet(|bytes| bytes[2] = 1 << 3), NOTIMP),
        ("a status query", packet(|bytes| bytes[2] = 2 << 3), NOTIMP),
        ("a notification", packet(|bytes| bytes[2] = 4 << 3), NOTIMP),
        ("an update", packet(|bytes| bytes[2] = 5 << 3), NOTIMP),
        ("an unknown opcode", packet(|bytes| bytes[2] = 15 << 3), NOTIMP),
        ("MAILB", ask("shop.example.com", 253).bytes(), NOTIMP),
        ("a whole zone", ask("example.com", 252).bytes(), REFUSED),
        ("the changes of a zone", ask("example.com", 251).bytes(), REFUSED),
        ("class ANY", Ask { class: 255, ..ask("shop.example.com", A) }.bytes(), REFUSED),
        ("an unknown class", Ask { class: 77, ..ask("shop.example.com", A) }.bytes(), REFUSED),
        ("an unknown kind", ask("shop.example.com", 65280).bytes(), NOERROR),
        (
            "two OPT records",
            with_opt(|bytes| {
                let opt = bytes[bytes.len() - 11..].to_vec();
                bytes.extend(opt);
                bytes[11] = 2;
            }),
            FORMERR,
        ),
        (
            "an OPT with a name",
            packet(|bytes| {
                bytes.extend([1, b'x', 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
                bytes[11] = 1;
            }),
            FORMERR,
        ),
        (
            "an OPT longer than the packet",
            with_opt(|bytes| *bytes.last_mut().unwrap() = 9),
            FORMERR,
        ),
        ("an empty option", ask("shop.example.com", A).option(3, &[]).bytes(), NOERROR),
        ("a cookie of 7 bytes", ask("shop.example.com", A).option(10, &[0; 7]).bytes(), FORMERR),
        ("a cookie of 41 bytes", ask("shop.example.com", A).option(10, &[0; 41]).bytes(), FORMERR),
        ("a subnet of 3 bytes", ask("shop.example.com", A).option(8, &[0, 1, 0]).bytes(), FORMERR),
        (
            "a subnet of 33 bits",
            ask("shop.example.com", A).option(8, &[0, 1, 33, 0, 1, 2, 3, 4, 5]).bytes(),
            FORMERR,
        ),
        (
            "a subnet with more address than it says",
            ask("shop.example.com", A).option(8, &[0, 1, 8, 0, 10, 1]).bytes(),
            FORMERR,
        ),
        (
            "a subnet with bits beyond its end",
            ask("shop.example.com", A).option(8, &[0, 1, 4, 0, 0xFF]).bytes(),
            FORMERR,
        ),
        (
            "a subnet with a scope in a question",
            ask("shop.example.com", A).option(8, &[0, 1, 8, 8, 10]).bytes(),
            FORMERR,
        ),
        (
            "a subnet of an unknown family",
            ask("shop.example.com", A).option(8, &[0, 9, 8, 0, 10]).bytes(),
            FORMERR,
        ),
        (
            "600 options, which are cut short on arrival",
            (0..600).fold(ask("shop.example.com", A), |ask, _| ask.option(65001, &[])).bytes(),
            FORMERR,
        ),
    ];
    let bed = Bed::new(shop(TrafficRules::default()));
    for (what, bytes, rcode) in table {
        let answer = Answer::read(&exchange(bed.address(), &bytes).expect(what));
        assert_eq!(answer.rcode, rcode, "{what}");
    }
}

#[test]
fn an_answer_is_never_answered() {
    let bed = Bed::new(shop(TrafficRules::default()));
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(bed.address()).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    for opcode in 0..16 {
        socket.send(&packet(|bytes| bytes[2] = 0x80 | opcode << 3)).unwrap();
    }
    for length in 0..12 {
        socket.send(&packet(|bytes| bytes.truncate(length))).unwrap();
    }
    // Whatever comes first answers this one, which came last.
    socket.send(&packet(|bytes| bytes[0] = 0x77)).unwrap();
    let mut buffer = [0; 512];
    socket.recv(&mut buffer).unwrap();
    assert_eq!(buffer[0], 0x77);
}
