//! The listener.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::HOST;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::Config;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::answer::{Answer, moved_to};
use crate::crowd::Crowd;
use crate::patient::Patient;
use crate::requests::{Desk, Visitor};
use crate::sessions::Sessions;
use crate::tls::Tls;

/// So many connections are open at a time; others wait.
const CONNECTIONS: usize = 512;
/// So many of them from one address; more are closed at once.
const FROM_ONE_ADDRESS: usize = 128;
const SLOWEST_HEAD: Duration = Duration::from_secs(10);
/// Who takes nothing of what they are sent for so long has gone.
const SLOWEST_TAKER: Duration = Duration::from_secs(30);
/// What the first byte of a TLS handshake says it is.
const HANDSHAKE: u8 = 0x16;

/// Where the dashboard listens, and which hub it shows.
pub struct DashboardOptions {
    /// The address.
    pub listen: SocketAddr,
    /// The hub's address and authority. Credentials in it are not used: people bring their own.
    pub hub: Config,
    /// Makes trouble for the members, if they are those of a playground.
    pub play: Option<Play>,
    /// How it speaks TLS. Without it people send their tokens in the clear: that belongs on
    /// loopback.
    pub tls: Option<Tls>,
}

/// Does something to a member of a playground: its name, and what to do. The error is for people.
pub type Play = Arc<dyn Fn(String, String) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// A dashboard that is being served. It ends when it is dropped.
pub struct Dashboard {
    address: SocketAddr,
    _accepting: JoinSet<()>,
}

impl Dashboard {
    /// Starts to serve.
    ///
    /// # Errors
    ///
    /// When the address cannot be listened on.
    pub async fn start(options: DashboardOptions) -> std::io::Result<Self> {
        let DashboardOptions { listen, hub, play, tls } = options;
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let desk = Arc::new(Desk { hub, play, sessions: Sessions::default() });
        let door = Arc::new(Door { desk, tls: tls.map(speaking_http1) });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, door));
        Ok(Self { address, _accepting: accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// What every connection needs.
struct Door {
    desk: Arc<Desk>,
    tls: Option<(TlsAcceptor, Tls)>,
}

fn speaking_http1(tls: Tls) -> (TlsAcceptor, Tls) {
    let mut config: ServerConfig = (*tls.config).clone();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    (TlsAcceptor::from(Arc::new(config)), tls)
}

async fn accept(listener: TcpListener, door: Arc<Door>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let crowd = Crowd::default();
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, from)) => {
                let Some(of_address) = crowd.enter(from.ip(), FROM_ONE_ADDRESS) else { continue };
                let door = door.clone();
                connections.spawn(async move {
                    let_in(stream, door).await;
                    drop((place, of_address));
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the dashboard cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn let_in(stream: TcpStream, door: Arc<Door>) {
    let patient = |stream| Patient::new(stream, SLOWEST_TAKER);
    let inside = |visitor: Visitor| Reception::Desk(door.desk.clone(), Arc::new(visitor));
    let Some((acceptor, tls)) = &door.tls else {
        return converse(patient(stream), inside(Visitor::default())).await;
    };
    let mut first = [0];
    let peeked = tokio::time::timeout(SLOWEST_HEAD, stream.peek(&mut first)).await;
    match (peeked, first) {
        (Ok(Ok(1)), [HANDSHAKE]) => {}
        // Somebody has typed http: they are told where to go, and have sent nothing secret yet.
        (Ok(Ok(1)), _) => return converse(patient(stream), Reception::SentToTls).await,
        _ => return,
    }
    match tokio::time::timeout(SLOWEST_HEAD, acceptor.accept(patient(stream))).await {
        Ok(Ok(stream)) => {
            let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
            let certified = shown.and_then(|shown| tls.recognise.as_ref()?(shown));
            converse(stream, inside(Visitor { secure: true, certified })).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake with the dashboard failed"),
        Err(_) => {}
    }
}

/// Who answers on a connection.
#[derive(Clone)]
enum Reception {
    Desk(Arc<Desk>, Arc<Visitor>),
    SentToTls,
}

impl Reception {
    async fn answer(self, request: Request<Incoming>) -> Answer {
        match self {
            Self::Desk(desk, visitor) => desk.answer(request, &visitor).await,
            Self::SentToTls => send_to_tls(&request),
        }
    }
}

async fn converse<S>(stream: S, reception: Reception)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(move |request| {
        let reception = reception.clone();
        async move { Ok::<_, Infallible>(reception.answer(request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SLOWEST_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection to the dashboard ended");
    }
}

/// The same page by TLS.
fn send_to_tls(request: &Request<Incoming>) -> Answer {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    match host {
        Some(host) => moved_to(&format!("https://{host}{path}")),
        None => crate::answer::Refusal::new(StatusCode::BAD_REQUEST, "come by https").into(),
    }
}
