//! Questions over connections: two bytes of length, then the packet, as many as the client likes.
//! The same over TLS, and as HTTP requests ([`super::https`]).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::https;
use super::udp::milliseconds;
use crate::options::Options;
use crate::respond::{Common, Responder, Transport};
use crate::transfer;
use crate::update::{self, Step};

/// Transfers at once: each holds a whole zone in memory.
const TRANSFERS: usize = 2;

/// The bits of an IPv6 address that tell one client from another, as in the rate limit.
const NETWORK_BITS: u32 = 56;

/// How much one client may have of the server.
#[derive(Clone)]
pub(crate) struct Tcp {
    connections: usize,
    per_client: usize,
    idle: Duration,
    open: Arc<Mutex<Open>>,
}

/// What is spoken on a connection.
#[derive(Clone)]
pub(crate) enum Speech {
    /// DNS.
    Plain,
    /// DNS over TLS.
    Tls(TlsAcceptor),
    /// DNS over HTTPS.
    Https(TlsAcceptor),
}

impl Speech {
    fn transport(&self) -> Transport {
        match self {
            Self::Plain => Transport::Tcp,
            Self::Tls(_) => Transport::Tls,
            Self::Https(_) => Transport::Https,
        }
    }
}

#[derive(Default)]
struct Open {
    all: usize,
    by_network: HashMap<IpAddr, usize>,
}

/// A connection that counts for as long as this is held.
struct Seat {
    open: Arc<Mutex<Open>>,
    client: IpAddr,
    network: IpAddr,
}

/// What counts as one client: whoever has an IPv6 address has a whole network of them.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6((u128::from(address) & !(u128::MAX >> NETWORK_BITS)).into())
        }
        four => four,
    }
}

/// What answers all connections of a listener.
pub(super) struct Answering {
    common: Arc<Common>,
    responder: Mutex<Responder>,
    transfers: Semaphore,
    transport: Transport,
    pub(super) idle: Duration,
}

impl Tcp {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            connections: options.tcp_connections,
            per_client: options.tcp_connections_per_client,
            idle: options.tcp_idle,
            open: Arc::default(),
        }
    }

    fn seat(&self, client: IpAddr) -> Option<Seat> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let network = network(client);
        let of_client = open.by_network.get(&network).copied().unwrap_or_default();
        if open.all >= self.connections || of_client >= self.per_client {
            return None;
        }
        open.all += 1;
        open.by_network.insert(network, of_client + 1);
        Some(Seat { open: self.open.clone(), client, network })
    }

    /// Takes connections for as long as the server runs.
    pub(crate) async fn serve(self, common: Arc<Common>, listener: TcpListener, speech: Speech) {
        let answering = Arc::new(Answering {
            common: common.clone(),
            responder: Mutex::new(Responder::new(common.clone())),
            transfers: Semaphore::new(TRANSFERS),
            transport: speech.transport(),
            idle: self.idle,
        });
        loop {
            let (stream, client) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Mostly too many open files: a moment later there are fewer.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            common.counters.tcp_connections.add();
            let Some(seat) = self.seat(client.ip()) else {
                common.counters.tcp_refused.add();
                continue;
            };
            let (answering, speech) = (answering.clone(), speech.clone());
            tokio::spawn(async move {
                // How a connection ends is the client's business.
                let _ = listen(stream, speech, seat, answering).await;
            });
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.all -= 1;
        if let Some(count) = open.by_network.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                open.by_network.remove(&self.network);
            }
        }
    }
}

impl Answering {
    /// Writes the answer to a packet into `out`. Whether there is one.
    pub(super) fn respond(&self, packet: &[u8], client: IpAddr, out: &mut Vec<u8>) -> bool {
        let mut responder = self.responder.lock().unwrap_or_else(PoisonError::into_inner);
        responder.respond(packet, client, self.transport, milliseconds(), out)
    }

    /// The messages of a zone, if that is what is asked for and allowed. It is put together
    /// elsewhere, since it may have to be signed.
    async fn transfer(&self, packet: &[u8], client: IpAddr) -> Option<Vec<Vec<u8>>> {
        if self.common.secondaries.is_empty() || !transfer::is_asked_for(packet) {
            return None;
        }
        let _turn = self.transfers.acquire().await.ok()?;
        let (common, packet) = (self.common.clone(), packet.to_vec());
        let work = move || transfer::answer(&common, &packet, client, milliseconds() / 1000);
        tokio::task::spawn_blocking(work).await.ok().flatten()
    }

    /// The answer to an update, if that is what it is and there is somebody who may send one.
    async fn update(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let challenges = self.common.challenges.as_ref().filter(|_| update::is_update(packet))?;
        match challenges.read(packet, &self.common.zones.load(), milliseconds()) {
            Step::Answer(answer) | Step::Refuse(answer) => Some(answer),
            Step::Write(pending) => Some(challenges.write(pending).await),
        }
    }
}

async fn listen(
    stream: TcpStream,
    speech: Speech,
    seat: Seat,
    answering: Arc<Answering>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    match speech {
        Speech::Plain => talk(stream, seat.client, &answering).await,
        Speech::Tls(tls) => {
            let stream = timeout(answering.idle, tls.accept(stream)).await??;
            talk(stream, seat.client, &answering).await
        }
        Speech::Https(tls) => {
            let stream = timeout(answering.idle, tls.accept(stream)).await??;
            https::serve(stream, seat.client, answering).await;
            Ok(())
        }
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    client: IpAddr,
    answering: &Answering,
) -> std::io::Result<()> {
    let mut stream = BufStream::new(stream);
    let mut packet = Vec::new();
    let mut answer = Vec::new();
    let idle = answering.idle;
    loop {
        // The whole of a packet within the time, so that trickling it in gains nothing.
        timeout(idle, async {
            let length = stream.read_u16().await?;
            packet.resize(usize::from(length), 0);
            stream.read_exact(&mut packet).await
        })
        .await??;
        if let Some(messages) = answering.transfer(&packet, client).await {
            for message in &messages {
                timeout(idle, send(&mut stream, message)).await??;
            }
            continue;
        }
        if let Some(told) = answering.update(&packet).await {
            answer = told;
        } else if !answering.respond(&packet, client, &mut answer) {
            return Ok(());
        }
        timeout(idle, send(&mut stream, &answer)).await??;
    }
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), message: &[u8]) -> std::io::Result<()> {
    stream.write_u16(message.len() as u16).await?;
    stream.write_all(message).await?;
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_is_one_client_and_each_ipv4_address_is_another() {
        let options = Options { tcp_connections_per_client: 2, ..Options::default() };
        let tcp = Tcp::new(&options);
        let mut seated = Vec::new();
        for (client, expected) in [
            ("2001:db8:0:100::1", true),
            ("2001:db8:0:1ff::1", true),
            ("2001:db8:0:180::7", false),
            ("2001:db8:0:200::1", true),
            ("192.0.2.1", true),
            ("::ffff:192.0.2.1", true),
            ("192.0.2.1", false),
            ("::ffff:192.0.2.2", true),
        ] {
            let seat = tcp.seat(client.parse().unwrap());
            assert_eq!(seat.is_some(), expected, "{client}");
            seated.extend(seat);
        }
        drop(seated);
        let open = tcp.open.lock().unwrap();
        assert_eq!((open.all, open.by_network.len()), (0, 0));
    }
}
