//! A way between two places: how far it is, and whether it is open.
//!
//! ```text
//!   client ──► [ delay line ] ──► what is behind it
//!          ◄── [ delay line ] ◄──
//! ```
//!
//! Delays are those of distance and not of a narrow way: whatever is sent arrives later, and any
//! amount may be on its way. A link that is *shut* refuses connections, as a dead machine does
//! whose network still works; one that is *silent* drops everything, as a cut cable does:
//! connecting takes forever, and what is connected hears nothing more.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Pieces that are on their way in one direction of a connection.
const ON_THE_WAY: usize = 256;
const PIECE: usize = 16 << 10;
/// How long a connection to a silent link may take to be taken by the kernel.
const TAKEN: Duration = Duration::from_millis(100);

/// How a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Everything arrives, this much later.
    Open(Duration),
    /// Connections are refused, and those that were open are reset.
    Shut,
    /// Nothing arrives, and nobody is told.
    Silent,
}

/// A way to something, for as long as this is held.
pub(crate) struct Link {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    _task: AbortOnDropHandle<()>,
}

/// The beginning of a way that leads nowhere yet. Connections wait there.
pub(crate) struct LinkBeginning {
    address: SocketAddr,
    listener: TcpListener,
}

impl LinkBeginning {
    /// Takes an address; port 0 picks one.
    pub(crate) fn at(address: SocketAddr) -> std::io::Result<Self> {
        let socket = bind(address)?;
        let address = socket.local_addr()?;
        Ok(Self { address, listener: socket.listen(1024)? })
    }

    /// Where it begins.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes it lead somewhere.
    pub(crate) fn lead(self, to: SocketAddr, weather: Weather) -> Link {
        let (weather, seen) = watch::channel(weather);
        let task = tokio::spawn(serve(self.listener, self.address, to, seen));
        Link { address: self.address, weather, _task: AbortOnDropHandle::new(task) }
    }
}

impl Link {
    /// Where it begins.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the weather.
    pub(crate) fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }
}

fn bind(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

async fn serve(
    first: TcpListener,
    address: SocketAddr,
    to: SocketAddr,
    mut weather: watch::Receiver<Weather>,
) {
    let mut first = Some(first);
    loop {
        let now = *weather.borrow_and_update();
        let listener = match first.take() {
            Some(listener) if matches!(now, Weather::Open(_)) => Ok(Some(listener)),
            left => {
                drop(left);
                match now {
                    Weather::Open(_) => bind(address).and_then(|it| it.listen(1024)).map(Some),
                    _ => Ok(None),
                }
            }
        };
        let listener = match listener {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!(%error, "the link at {address} cannot be opened again yet");
                tokio::time::sleep(TAKEN).await;
                continue;
            }
        };
        let _full = match now {
            Weather::Silent => full(address).await.ok(),
            _ => None,
        };
        let changed = match &listener {
            Some(listener) => accept(listener, to, &mut weather).await,
            None => weather.changed().await,
        };
        if changed.is_err() {
            return;
        }
    }
}

/// Accepts connections until the link is not open any more.
async fn accept(
    listener: &TcpListener,
    to: SocketAddr,
    weather: &mut watch::Receiver<Weather>,
) -> Result<(), watch::error::RecvError> {
    let mut open = weather.clone();
    let ended = open.wait_for(|now| !matches!(now, Weather::Open(_)));
    tokio::pin!(ended);
    loop {
        let accepted = tokio::select! {
            ended = &mut ended => return ended.map(drop),
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => drop(tokio::spawn(carry(stream, to, weather.clone()))),
            Err(error) => {
                tracing::warn!(%error, "a link cannot accept a connection");
                tokio::time::sleep(TAKEN).await;
            }
        }
    }
}

/// A listener whose queue is full, so that the kernel drops what comes: the nearest thing to a cut
/// cable that an ordinary user can have.
async fn full(address: SocketAddr) -> std::io::Result<(TcpListener, Vec<TcpStream>)> {
    let listener = bind(address)?.listen(0)?;
    let mut waiting = Vec::new();
    while let Ok(taken) = tokio::time::timeout(TAKEN, TcpStream::connect(address)).await {
        waiting.push(taken?);
    }
    Ok((listener, waiting))
}

/// Carries one connection.
async fn carry(mut client: TcpStream, to: SocketAddr, weather: watch::Receiver<Weather>) {
    let Ok(mut server) = TcpStream::connect(to).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    // The kernel has connected them at once; over a distance that takes a round trip.
    let opened = Instant::now() + 2 * one_way(&weather);
    let mut shut = weather.clone();
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let both = async {
        tokio::join!(
            delay_line(from_client, to_server, opened, weather.clone()),
            delay_line(from_server, to_client, opened, weather.clone()),
        );
    };
    let cut = tokio::select! {
        () = both => false,
        // An error means that the link itself is gone.
        _ = shut.wait_for(|now| *now == Weather::Shut) => true,
    };
    if cut {
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

fn one_way(weather: &watch::Receiver<Weather>) -> Duration {
    match *weather.borrow() {
        Weather::Open(one_way) => one_way,
        _ => Duration::ZERO,
    }
}

async fn delay_line(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    opened: Instant,
    weather: watch::Receiver<Weather>,
) {
    let (send, mut on_the_way) = mpsc::channel::<(Instant, Bytes)>(ON_THE_WAY);
    let mut open = weather.clone();
    let departures = async move {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(PIECE);
            match from.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let due = Instant::now().max(opened) + one_way(&weather);
            if send.send((due, buffer.split().freeze())).await.is_err() {
                return;
            }
        }
    };
    let arrivals = async move {
        while let Some((due, piece)) = on_the_way.recv().await {
            tokio::time::sleep_until(due).await;
            if open.wait_for(|now| *now != Weather::Silent).await.is_err() {
                return;
            }
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(departures, arrivals);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Something that says back what it hears.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    async fn said_back(stream: &mut TcpStream) -> std::io::Result<[u8; 2]> {
        let mut answer = [0; 2];
        stream.write_all(b"ab").await?;
        stream.read_exact(&mut answer).await?;
        Ok(answer)
    }

    async fn link() -> Link {
        let beginning = LinkBeginning::at(([127, 0, 0, 1], 0).into()).unwrap();
        beginning.lead(echo().await, Weather::Open(Duration::ZERO))
    }

    #[tokio::test]
    async fn a_long_way_takes_its_time_and_carries_any_amount() {
        let link = link().await;
        link.set(Weather::Open(Duration::from_millis(40)));
        let start = Instant::now();
        let mut stream = TcpStream::connect(link.address()).await.unwrap();
        assert_eq!(&said_back(&mut stream).await.unwrap(), b"ab");
        assert!(start.elapsed() >= Duration::from_millis(160), "connected, and there and back");
        let much = vec![7; 1 << 20];
        let (mut from, mut to) = stream.split();
        let mut back = vec![0; much.len()];
        let (written, read) = tokio::join!(to.write_all(&much), from.read_exact(&mut back));
        written.unwrap();
        read.unwrap();
        assert_eq!(back, much);
    }

    #[tokio::test]
    async fn a_shut_link_refuses_and_resets_and_opens_again() {
        let link = link().await;
        let mut stream = TcpStream::connect(link.address()).await.unwrap();
        said_back(&mut stream).await.unwrap();
        link.set(Weather::Shut);
        assert!(said_back(&mut stream).await.is_err());
        while TcpStream::connect(link.address()).await.is_ok() {
            tokio::task::yield_now().await;
        }
        link.set(Weather::Open(Duration::ZERO));
        loop {
            if let Ok(mut stream) = TcpStream::connect(link.address()).await {
                assert_eq!(&said_back(&mut stream).await.unwrap(), b"ab");
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_silent_link_says_nothing_and_then_goes_on() {
        let link = link().await;
        let mut stream = TcpStream::connect(link.address()).await.unwrap();
        said_back(&mut stream).await.unwrap();
        link.set(Weather::Silent);
        let quiet = Duration::from_millis(300);
        let connecting = async {
            // Until the queue is full, a connection may still be taken.
            while let Ok(taken) =
                tokio::time::timeout(quiet, TcpStream::connect(link.address())).await
            {
                drop(taken);
            }
        };
        tokio::time::timeout(Duration::from_secs(20), connecting).await.expect("it falls silent");
        assert!(tokio::time::timeout(quiet, said_back(&mut stream)).await.is_err());
        link.set(Weather::Open(Duration::ZERO));
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"ab", "what was on its way arrives");
    }
}
