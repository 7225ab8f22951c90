//! What strangers cannot do.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

use limen_core::global::TrafficRules;

use crate::bed::{Bed, global, objects, shop, three, until};
use crate::client::*;

#[test]
fn a_flood_of_one_question_is_not_answered_in_full() {
    let bed = Bed::with(shop(TrafficRules::default()), |options| {
        (options.rate_limit, options.workers) = (5, 1);
    });
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(bed.address()).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let question = ask("shop.example.com", A).bytes();
    for _ in 0..100 {
        socket.send(&question).unwrap();
    }
    let (mut whole, mut cut) = (0, 0);
    let mut buffer = [0; 512];
    while let Ok(length) = socket.recv(&mut buffer) {
        let answer = Answer::read(&buffer[..length]);
        if answer.truncated {
            cut += 1;
        } else {
            whole += 1;
        }
        assert!(!answer.truncated || answer.answers.is_empty());
    }
    assert!((5..40).contains(&whole), "{whole} answers");
    assert!(cut >= 30, "{cut} hints to come by TCP");
    assert_eq!(ask("shop.example.com", A).tcp(bed.address()).answers.len(), 1);
}

#[test]
fn a_flood_of_names_that_one_wildcard_stands_for_is_a_flood_of_one() {
    let wild = global("*.example.com", three(), TrafficRules::default());
    let bed = Bed::with(objects(vec![wild]), |options| {
        (options.rate_limit, options.workers) = (5, 1);
    });
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(bed.address()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    for name in 0..100 {
        let prefix = if name % 2 == 0 { "" } else { "deeper." };
        socket.send(&ask(&format!("{prefix}h{name}.example.com"), A).bytes()).unwrap();
    }
    let (mut whole, mut buffer) = (0, [0; 512]);
    while let Ok(length) = socket.recv(&mut buffer) {
        whole += usize::from(!Answer::read(&buffer[..length]).truncated);
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    }
    assert!((1..40).contains(&whole), "{whole} answers");
}

#[test]
fn who_has_a_cookie_is_not_limited() {
    let bed = Bed::with(shop(TrafficRules::default()), |options| options.rate_limit = 1);
    let first = ask("shop.example.com", A).option(10, b"01234567").udp(bed.address());
    let cookie = first.option(10).unwrap();
    let question = ask("shop.example.com", A).option(10, &cookie);
    for _ in 0..50 {
        let answer = question.udp(bed.address());
        assert_eq!((answer.truncated, answer.answers.len()), (false, 1));
    }
}

#[test]
fn one_client_has_only_so_many_connections() {
    let bed = Bed::with(shop(TrafficRules::default()), |options| {
        options.tcp_connections_per_client = 3;
    });
    let question = ask("shop.example.com", A).bytes();
    let mut seated: Vec<TcpStream> =
        (0..3).map(|_| TcpStream::connect(bed.address()).unwrap()).collect();
    for stream in &mut seated {
        // More than one question on one connection.
        for _ in 0..3 {
            assert_eq!(over_tcp(stream, &question).rcode, NOERROR);
        }
    }
    let mut fourth = TcpStream::connect(bed.address()).unwrap();
    fourth.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(matches!(fourth.read(&mut [0; 1]), Ok(0) | Err(_)), "it is closed");
    drop(seated);
    until(
        || {
            let mut stream = TcpStream::connect(bed.address()).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let sent = [&(question.len() as u16).to_be_bytes(), &question[..]].concat();
            stream.write_all(&sent).and_then(|()| stream.read_exact(&mut [0; 2])).is_ok()
        },
        |answered| *answered,
    );
}

#[test]
fn a_silent_connection_is_closed() {
    let bed = Bed::with(shop(TrafficRules::default()), |options| {
        options.tcp_idle = Duration::from_millis(100);
    });
    let mut stream = TcpStream::connect(bed.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&[0]).unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "half a length is silence too");
}
