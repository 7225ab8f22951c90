//! Questions by TCP: two bytes of length, then the packet, as many as the client likes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::udp::milliseconds;
use crate::options::Options;
use crate::respond::{Common, Responder, Transport};
use crate::update::{self, Step};

/// How much one client may have of the server.
#[derive(Clone)]
pub(crate) struct Tcp {
    connections: usize,
    per_client: usize,
    idle: Duration,
    open: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    all: usize,
    by_client: HashMap<IpAddr, usize>,
}

/// A connection that counts for as long as this is held.
struct Seat {
    open: Arc<Mutex<Open>>,
    client: IpAddr,
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
        let of_client = open.by_client.get(&client).copied().unwrap_or_default();
        if open.all >= self.connections || of_client >= self.per_client {
            return None;
        }
        open.all += 1;
        open.by_client.insert(client, of_client + 1);
        Some(Seat { open: self.open.clone(), client })
    }

    /// Takes connections for as long as the server runs.
    pub(crate) async fn serve(self, common: Arc<Common>, listener: TcpListener) {
        let responder = Arc::new(Mutex::new(Responder::new(common.clone())));
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
            let (responder, common, idle) = (responder.clone(), common.clone(), self.idle);
            tokio::spawn(async move {
                // How a connection ends is the client's business.
                let _ = talk(stream, &seat, &responder, &common, idle).await;
            });
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.all -= 1;
        if let Some(count) = open.by_client.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                open.by_client.remove(&self.client);
            }
        }
    }
}

async fn talk(
    stream: TcpStream,
    seat: &Seat,
    responder: &Mutex<Responder>,
    common: &Common,
    idle: Duration,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufStream::new(stream);
    let mut packet = Vec::new();
    let mut answer = Vec::new();
    loop {
        // The whole of a packet within the time, so that trickling it in gains nothing.
        timeout(idle, async {
            let length = stream.read_u16().await?;
            packet.resize(usize::from(length), 0);
            stream.read_exact(&mut packet).await
        })
        .await??;
        let answered = if update::is_update(&packet)
            && let Some(challenges) = &common.challenges
        {
            answer = match challenges.read(&packet, &common.zones.load(), milliseconds()) {
                Step::Answer(answer) => answer,
                Step::Write(pending) => challenges.write(pending).await,
            };
            true
        } else {
            let mut responder = responder.lock().unwrap_or_else(PoisonError::into_inner);
            responder.respond(&packet, seat.client, Transport::Tcp, milliseconds(), &mut answer)
        };
        if !answered {
            return Ok(());
        }
        let length = answer.len() as u16;
        timeout(idle, async {
            stream.write_u16(length).await?;
            stream.write_all(&answer).await?;
            stream.flush().await
        })
        .await??;
    }
}
