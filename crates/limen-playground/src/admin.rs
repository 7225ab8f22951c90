//! The control of a playground over HTTP: how members are, and making trouble for them.
//!
//! | request | does |
//! | --- | --- |
//! | `GET /` | everything: where things are, members with their faults, pods with their load |
//! | `POST /clusters/NAME/TROUBLE` | `kill`, `pause`, `partition-hub`, `partition-clients`, `slow` (with `{"milliseconds": N}`), `restore` |
//! | `PUT /clusters/NAME/pods/NAMESPACE/POD` | tells a pod what to be like |
//!
//! It is served on loopback and asks nobody who they are. So that no web page can use it through
//! somebody's browser, it refuses requests that come from a page or name another host.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::member::{Member, Trouble};
use crate::pods::Behaviour;

const MOST_BYTES: usize = 64 << 10;
const HEADERS: Duration = Duration::from_secs(10);

/// Why the control could not be served.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Not on loopback.
    #[error("{0} is not a loopback address; the playground's control is for this machine only")]
    NotLoopback(SocketAddr),
    /// The address could not be taken.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
}

/// The control, served for as long as this is held.
pub struct Admin {
    address: SocketAddr,
    _task: AbortOnDropHandle<()>,
}

/// What the control is of.
struct Subject {
    members: Vec<Arc<Member>>,
    /// Where things are.
    addresses: Value,
}

impl Admin {
    /// Takes the address and serves; `addresses` makes what `GET /` says of where things are, from
    /// the address that was taken.
    pub async fn start(
        address: SocketAddr,
        members: Vec<Arc<Member>>,
        addresses: impl FnOnce(SocketAddr) -> Value,
    ) -> Result<Self, AdminError> {
        if !address.ip().is_loopback() {
            return Err(AdminError::NotLoopback(address));
        }
        let failed = |error| AdminError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let subject = Arc::new(Subject { members, addresses: addresses(address) });
        let task = AbortOnDropHandle::new(tokio::spawn(serve(listener, subject)));
        Ok(Self { address, _task: task })
    }

    /// Where it is served.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn serve(listener: TcpListener, subject: Arc<Subject>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let subject = subject.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let subject = subject.clone();
                async move { Ok::<_, Infallible>(answer(&subject, request).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADERS)
                .serve_connection(TokioIo::new(stream), service);
            // What goes wrong on a connection is the business of who opened it.
            let _ = connection.await;
        });
    }
}

type Refusal = (StatusCode, String);

async fn answer(subject: &Subject, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let accepted = request.headers().get(ACCEPT).and_then(|accepted| accepted.to_str().ok());
    let program = accepted.is_some_and(|accepted| accepted.contains("json"));
    let told = told(request.uri().path());
    let (status, body) = match act(subject, request).await {
        Ok(body) => (StatusCode::OK, body),
        Err((status, error)) => (status, json!({"error": error})),
    };
    // A person with curl is told what happened; a program, and who asks for everything, gets it all.
    let (text, kind) = match (program, body["error"].as_str(), told) {
        (false, Some(error), _) => (error.to_owned(), "text/plain"),
        (false, None, Some(told)) => (told, "text/plain"),
        _ => (body.to_string(), "application/json"),
    };
    let mut response = Response::new(Full::new(Bytes::from(format!("{text}\n"))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}

/// What has happened to a cluster after a request to such a path.
fn told(path: &str) -> Option<String> {
    let mut parts = path.trim_matches('/').split('/');
    let ("clusters", name, what, None) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next())
    else {
        return None;
    };
    Some(match what {
        "kill" => format!("{name} has lost power"),
        "pause" => format!("{name} hangs"),
        "partition-hub" => format!("the hub does not reach {name} any more"),
        "partition-clients" => format!("clients do not reach {name} any more"),
        "slow" => format!("{name} is slow"),
        "restore" => format!("{name} is back"),
        _ => return None,
    })
}

async fn act(subject: &Subject, request: Request<Incoming>) -> Result<Value, Refusal> {
    if !is_local(request.headers()) {
        let why = "requests from web pages, or for other hosts, are refused".to_owned();
        return Err((StatusCode::FORBIDDEN, why));
    }
    let method = request.method().clone();
    let path = request.uri().path().trim_matches('/').to_owned();
    let parts: Vec<&str> = path.split('/').collect();
    match (&method, parts.as_slice()) {
        (&Method::GET, [""]) => Ok(subject.describe()),
        (&Method::POST, ["clusters", name, what]) => {
            let member = subject.member(name)?;
            let trouble = trouble(what, request).await?;
            let failed =
                |error: crate::MemberError| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
            member.trouble(trouble).await.map_err(failed)?;
            Ok(describe(member))
        }
        (&Method::PUT, ["clusters", name, "pods", namespace, pod]) => {
            let member = subject.member(name)?;
            let behaviour: Behaviour = read(request).await?;
            let key = ((*namespace).to_owned(), (*pod).to_owned());
            match member.behave(&key, behaviour) {
                true => Ok(json!(behaviour)),
                false => Err((
                    StatusCode::NOT_FOUND,
                    format!("no pod {namespace}/{pod} runs in cluster {name}"),
                )),
            }
        }
        _ => Err((
            StatusCode::NOT_FOUND,
            "there is GET /, POST /clusters/NAME/TROUBLE and PUT /clusters/NAME/pods/NAMESPACE/POD"
                .to_owned(),
        )),
    }
}

fn is_local(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let loopback = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    (loopback || name == "localhost") && !headers.contains_key(ORIGIN)
}

async fn trouble(what: &str, request: Request<Incoming>) -> Result<Trouble, Refusal> {
    #[derive(serde::Deserialize)]
    struct Slow {
        milliseconds: u32,
    }
    Ok(match what {
        "kill" => Trouble::Kill,
        "pause" => Trouble::Pause,
        "partition-hub" => Trouble::PartitionHub,
        "partition-clients" => Trouble::PartitionClients,
        "slow" => Trouble::Slow(read::<Slow>(request).await?.milliseconds),
        "restore" => Trouble::Restore,
        _ => {
            let known = "kill, pause, partition-hub, partition-clients, slow and restore";
            return Err((StatusCode::NOT_FOUND, format!("there is no {what}; there is {known}")));
        }
    })
}

async fn read<T: serde::de::DeserializeOwned>(request: Request<Incoming>) -> Result<T, Refusal> {
    let wrong = |reason: String| (StatusCode::BAD_REQUEST, reason);
    let body = Limited::new(request.into_body(), MOST_BYTES).collect().await;
    let body = body.map_err(|error| wrong(error.to_string()))?.to_bytes();
    serde_json::from_slice(&body)
        .map_err(|error| wrong(format!("the body is not understood: {error}")))
}

impl Subject {
    fn member(&self, name: &str) -> Result<&Member, Refusal> {
        let found = self.members.iter().find(|member| member.place().name == name);
        let known = || {
            let names: Vec<&str> =
                self.members.iter().map(|member| member.place().name.as_str()).collect();
            (
                StatusCode::NOT_FOUND,
                format!("there is no cluster {name}; there is {}", names.join(", ")),
            )
        };
        found.map(AsRef::as_ref).ok_or_else(known)
    }

    fn describe(&self) -> Value {
        let members: Vec<Value> = self.members.iter().map(|member| describe(member)).collect();
        json!({"addresses": self.addresses, "clusters": members})
    }
}

fn describe(member: &Member) -> Value {
    let pods = member.pods().into_iter().map(|((namespace, name), state)| {
        json!({
            "namespace": namespace, "name": name, "requests": state.requests(),
            "requestsPerSecond": state.rate(), "loadPercent": state.load(),
            "behaviour": state.behaviour(),
        })
    });
    let mut described = json!(member.place());
    described["ingress"] = json!(member.ingress_address().to_string());
    described["faults"] = json!(member.faults());
    described["pods"] = pods.collect();
    described
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_what_happened_to_a_cluster() {
        assert_eq!(told("/clusters/asia/kill").as_deref(), Some("asia has lost power"));
        assert_eq!(told("/clusters/asia/restore/").as_deref(), Some("asia is back"));
        for path in ["/", "/clusters/asia", "/clusters/asia/explode", "/clusters/a/kill/b"] {
            assert_eq!(told(path), None, "{path}");
        }
    }
}
