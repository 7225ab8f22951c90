//! The loop of a worker: many packets in with one system call, many answers out with another.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};

use crate::respond::{Common, Responder, Transport};
use crate::update::{self, Step};

/// Packets in one go.
const BATCH: usize = 32;
/// A question is shorter; what is longer is cut, and then malformed.
const LONGEST: usize = 2048;

/// Answers until it should stop.
pub(super) fn run(common: &Arc<Common>, socket: &UdpSocket, stopping: &AtomicBool) {
    let mut responder = Responder::new(common.clone());
    let mut questions = vec![[0; LONGEST]; BATCH];
    let mut answers: Vec<Vec<u8>> = (0..BATCH).map(|_| Vec::with_capacity(LONGEST)).collect();
    let mut incoming = MultiHeaders::preallocate(BATCH, None);
    let mut outgoing = MultiHeaders::preallocate(BATCH, None);
    while !stopping.load(Ordering::Relaxed) {
        let received = match receive(socket, &mut incoming, &mut questions) {
            Ok(received) => received,
            // Nobody has asked for a while, or a signal came.
            Err(Errno::EAGAIN | Errno::EINTR) => continue,
            // Some answer before found nobody, and the system says so here.
            Err(Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ENETUNREACH) => continue,
            Err(error) => {
                tracing::error!(%error, "cannot receive");
                std::thread::sleep(super::LOOK);
                continue;
            }
        };
        let now = milliseconds();
        let mut addresses: [Option<SockaddrStorage>; BATCH] = [None; BATCH];
        let mut count = 0;
        for (question, message) in questions.iter().zip(&received) {
            let Some((length, from)) = message else { continue };
            let Some(client) = ip(from) else { continue };
            let packet = &question[..*length];
            let out = &mut answers[count];
            if update::is_update(packet)
                && let Some(challenges) = &common.challenges
            {
                match challenges.read(packet, &common.zones.load(), now) {
                    Step::Answer(answer) => *out = answer,
                    Step::Refuse(_) if !responder.may_refuse(client, now) => continue,
                    Step::Refuse(answer) => *out = answer,
                    Step::Write(pending) => {
                        if let (Ok(socket), Some(client)) = (socket.try_clone(), address(from)) {
                            challenges.write_from_udp(pending, socket, client);
                        }
                        continue;
                    }
                }
                addresses[count] = Some(*from);
                count += 1;
                continue;
            }
            if responder.respond(packet, client, Transport::Udp, now, out) {
                addresses[count] = Some(*from);
                count += 1;
            }
        }
        send(socket, &mut outgoing, &answers[..count], &addresses[..count]);
    }
}

type Received = [Option<(usize, SockaddrStorage)>; BATCH];

fn receive(
    socket: &UdpSocket,
    headers: &mut MultiHeaders<SockaddrStorage>,
    questions: &mut [[u8; LONGEST]],
) -> Result<Received, Errno> {
    let mut slices: Vec<[IoSliceMut<'_>; 1]> =
        questions.iter_mut().map(|question| [IoSliceMut::new(question)]).collect();
    // Waits for the first packet only.
    let flags = MsgFlags::MSG_WAITFORONE;
    let messages = recvmmsg(socket.as_raw_fd(), headers, slices.iter_mut(), flags, None)?;
    let mut received = [None; BATCH];
    for (slot, message) in received.iter_mut().zip(messages) {
        // An address that cannot be read is that of nobody, whom `ip` leaves out.
        *slot = message.address.map(|address| (message.bytes, address));
    }
    Ok(received)
}

fn send(
    socket: &UdpSocket,
    headers: &mut MultiHeaders<SockaddrStorage>,
    mut answers: &[Vec<u8>],
    mut addresses: &[Option<SockaddrStorage>],
) {
    while !answers.is_empty() {
        let slices: Vec<[IoSlice<'_>; 1]> =
            answers.iter().map(|answer| [IoSlice::new(answer)]).collect();
        let flags = MsgFlags::empty();
        let sent = sendmmsg(socket.as_raw_fd(), headers, slices.iter(), addresses, [], flags);
        // An answer that cannot be sent is like one that is lost on its way: the client asks again.
        let done = sent.map_or(1, |sent| sent.count().max(1));
        answers = &answers[done..];
        addresses = &addresses[done..];
    }
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    if let Some(four) = address.as_sockaddr_in() {
        return Some(IpAddr::V4(four.ip()));
    }
    address.as_sockaddr_in6().map(|six| IpAddr::V6(six.ip()))
}

fn address(from: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(four) = from.as_sockaddr_in() {
        return Some(SocketAddr::new(IpAddr::V4(four.ip()), four.port()));
    }
    from.as_sockaddr_in6().map(|six| SocketAddr::new(IpAddr::V6(six.ip()), six.port()))
}

/// Milliseconds since 1970.
pub(super) fn milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}
