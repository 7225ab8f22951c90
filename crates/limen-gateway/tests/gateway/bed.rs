//! What the tests stand on: gateways, targets and clients on loopback.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use limen_core::global::{
    Address, Backend, Global, PathRule, PathType, Rule, Target, TrafficRules,
};
use limen_gateway::source::Within;
use limen_gateway::{Gateway, Objects, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Something that answers, and how many requests have come to it.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    pub(crate) hits: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

pub(crate) type Answer = Response<BoxBody<Bytes, Infallible>>;

pub(crate) fn answer(text: impl Into<Bytes>) -> Answer {
    Response::new(Full::new(text.into()).boxed())
}

impl Upstream {
    /// Answers every request, over HTTP/1 and HTTP/2.
    pub(crate) async fn http<F, R>(reply: F) -> Self
    where
        F: Fn(Request<Incoming>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Answer> + Send + 'static,
    {
        Self::http_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), reply)
    }

    fn http_on<F, R>(listener: TcpListener, reply: F) -> Self
    where
        F: Fn(Request<Incoming>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Answer> + Send + 'static,
    {
        let hits = Arc::new(AtomicUsize::new(0));
        let count = hits.clone();
        let mut upstream = Self::raw_on(listener, move |stream| {
            let (reply, count) = (reply.clone(), count.clone());
            async move {
                let service = service_fn(move |request| {
                    count.fetch_add(1, Ordering::Relaxed);
                    let reply = reply(request);
                    async move { Ok::<_, Infallible>(reply.await) }
                });
                let builder = auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
            }
        });
        upstream.hits = hits;
        upstream
    }

    /// Answers every request with its own name.
    pub(crate) async fn named(name: &'static str) -> Self {
        Self::http(move |_| async move { answer(name) }).await
    }

    /// The same on a socket that is there already.
    pub(crate) fn named_on(name: &'static str, listener: TcpListener) -> Self {
        Self::http_on(listener, move |_| async move { answer(name) })
    }

    /// Does what it likes with every connection.
    pub(crate) async fn raw<F, R>(serve: F) -> Self
    where
        F: Fn(TcpStream) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        Self::raw_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), serve)
    }

    fn raw_on<F, R>(listener: TcpListener, serve: F) -> Self
    where
        F: Fn(TcpStream) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let address = listener.local_addr().unwrap();
        let hits = Arc::new(AtomicUsize::new(0));
        let count = hits.clone();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            let serve = Arc::new(serve);
            while let Ok((stream, _)) = listener.accept().await {
                let (count, serve) = (count.clone(), serve.clone());
                connections.spawn(async move {
                    // A probe that only connects is nobody who comes.
                    if stream.peek(&mut [0]).await.is_ok_and(|length| length > 0) {
                        count.fetch_add(1, Ordering::Relaxed);
                        serve(stream).await;
                    }
                });
            }
        });
        Self { address, hits, task }
    }

    pub(crate) fn hits(&self) -> usize {
        self.hits.load(Ordering::Relaxed)
    }

    /// Dies with all its connections.
    pub(crate) async fn kill(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A target of one cluster.
pub(crate) fn target(cluster: &str, addresses: &[SocketAddr]) -> Target {
    let address =
        |address: &SocketAddr| Address { host: address.ip().to_string(), port: address.port() };
    Target {
        cluster: cluster.to_owned(),
        addresses: addresses.iter().map(address).collect(),
        ..Target::default()
    }
}

/// Everything below `a.test` to one backend.
pub(crate) fn global(targets: Vec<Target>) -> Global {
    Global {
        rules: vec![Rule {
            host: "a.test".to_owned(),
            paths: vec![PathRule {
                path: "/".to_owned(),
                path_type: PathType::Prefix,
                backend: "web".to_owned(),
            }],
        }],
        backends: vec![Backend { name: "web".to_owned(), targets }],
        ..Global::default()
    }
}

pub(crate) fn with_traffic(mut global: Global, traffic: TrafficRules) -> Global {
    global.traffic = traffic;
    global
}

/// A running gateway whose objects a test can change.
pub(crate) struct Bed {
    pub(crate) gateway: Gateway,
    pub(crate) objects: watch::Sender<Objects>,
}

pub(crate) fn objects(globals: impl IntoIterator<Item = Global>) -> Objects {
    let keyed = globals.into_iter().enumerate();
    let keyed =
        keyed.map(|(index, global)| (("test".into(), format!("g{index}")), Arc::new(global)));
    Objects { ingresses: keyed.collect(), ..Objects::default() }
}

pub(crate) fn options() -> Options {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    Options {
        name: "edge-1".to_owned(),
        http: vec![any],
        https: vec![any],
        admin: Some(any),
        drain: Duration::from_secs(10),
        ..Options::default()
    }
}

impl Bed {
    pub(crate) async fn new(global: Global) -> Self {
        Self::with(options(), objects([global])).await
    }

    pub(crate) async fn with(options: Options, objects: Objects) -> Self {
        let (objects, receiver) = watch::channel(objects);
        let gateway = Gateway::start(options, Within(receiver)).unwrap();
        gateway.ready().await;
        let bed = Self { gateway, objects };
        bed.listening().await;
        bed
    }

    /// Workers start to listen a moment after routes are loaded.
    async fn listening(&self) {
        for address in self.gateway.http().iter().chain(self.gateway.https()) {
            while TcpStream::connect(address).await.is_err() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    }

    pub(crate) fn http(&self) -> SocketAddr {
        self.gateway.http()[0]
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"))
            .await
    }

    pub(crate) async fn send(&self, request: &str) -> Reply {
        Reply::parse(&exchange(self.http(), request.as_bytes()).await)
    }

    pub(crate) async fn admin(&self, path: &str) -> Reply {
        let request = format!("GET {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n");
        let admin = self.gateway.admin().unwrap();
        Reply::parse(&exchange(admin, request.as_bytes()).await)
    }
}

/// Sends bytes and reads whatever comes until the other side closes.
pub(crate) async fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut read = Vec::new();
    // The other side may close before all is sent.
    let _ = stream.write_all(bytes).await;
    let _ = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut read)).await;
    read
}

/// An answer as it came over the wire.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let line = |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(": "));
        self.head.lines().find(|text| line(text)).map(|text| &text[name.len() + 2..])
    }
}

/// Waits until something is true.
pub(crate) async fn eventually(what: &str, mut check: impl AsyncFnMut() -> bool) {
    for _ in 0..3000 {
        if check().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came true that {what}");
}
