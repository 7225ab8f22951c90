//! One request, from its head to the end of its answer.
//!
//! ```text
//! check ──► match ──► client rules ──► headers ──► attempt ──► answer ──► body ──► account
//!  400       404       308 to HTTPS,    X-Forwarded   │  ▲        │
//!  414       503       421              hop-by-hop    └──┘        └─ 101: tunnel
//!  508                                             retry, 502 503 504
//! ```
//!
//! Whatever happens, the exchange is accounted for exactly once: when its [`Exchange`] is dropped.

mod answer;
mod attempt;
mod body;
mod check;
mod choose;
mod client;
mod exchange;
mod forward;
mod headers;
mod mirror;
#[cfg(test)]
mod no_allocation;
mod refusal;
mod tunnel;
mod who;

use std::sync::Arc;
use std::time::Instant;

use http::header::{CONTENT_LENGTH, HOST, LOCATION, SET_COOKIE};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::{Body, Incoming};
use limen_core::route::{HostBuffer, normal_host};

use crate::snapshot::Route;
use crate::upstream::{ClientBody, OutBody, milliseconds};
use crate::worker::Shared;
pub(crate) use attempt::{blame, is_repeatable};
pub(crate) use body::{ProxyBody, noting_body};
pub(crate) use choose::{Chosen, Seen, choose, count, forget_all_but, may_retry, pay_in};
pub(crate) use client::Client;
pub(crate) use exchange::{Exchange, entry_of};
pub(crate) use forward::hexadecimal;
pub(crate) use refusal::{NO_TARGET, Refusal};
pub(crate) use who::{ask_of, residency};

/// Answers one request.
pub(crate) async fn handle(
    shared: Arc<Shared>,
    client: Arc<Client>,
    request: Request<Incoming>,
) -> Response<ProxyBody> {
    let started = Instant::now();
    let http2 = request.version() == Version::HTTP_2;
    let exchange = Exchange::new(&shared, started, || entry_of(&request, &client));
    let mut response = match admit(&shared, &client, &request) {
        Ok((route, host)) => match redirect(&shared, &client, &route, &request, &host) {
            Some(response) => exchange.answered(response),
            // It could not be sent to where it can show a certificate.
            None if !is_known(&client, &route) => {
                shared.metrics.refused.add(1);
                exchange.refused(&refusal::MISDIRECTED)
            }
            None => serve(&shared, &client, route, host, request, exchange).await,
        },
        Err(refusal) => {
            match refusal.status {
                StatusCode::NOT_FOUND => shared.metrics.unmatched.add(1),
                _ => shared.metrics.refused.add(1),
            }
            exchange.refused(&refusal)
        }
    };
    if !http2 && shared.is_stopping() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(http::header::CONNECTION, close);
    }
    response
}

/// The route of a request that may be served, and its host in normal form.
fn admit(
    shared: &Shared,
    client: &Client,
    request: &Request<Incoming>,
) -> Result<(Arc<Route>, String), Refusal> {
    let authority = check::check(request, &shared.options)?;
    if headers::upgrade_of(request).is_some() && !request.body().is_end_stream() {
        return Err(refusal::UPGRADE_WITH_BODY);
    }
    let mut buffer = HostBuffer::default();
    let host = normal_host(authority, &mut buffer).ok_or(refusal::BAD_HOST)?;
    let snapshot = shared.snapshot.load();
    let found = snapshot.routes.find(host, request.uri().path());
    let (_, route) = found.ok_or(refusal::NO_ROUTE)?;
    // Over plain HTTP the client is first sent to where it can show a certificate.
    let goes_on = client.tls.is_none() && route.redirect_to_https;
    if !goes_on && !is_known(client, route) {
        return Err(refusal::MISDIRECTED);
    }
    if let Some((whose, limit)) = &route.ingress.limit {
        let now = milliseconds(Instant::now());
        let from = client.original_of(request.headers());
        let admitted = shared.clients.admit(*whose, from, limit, now);
        admitted.map_err(|seconds| {
            shared.metrics.limited.add(1);
            Refusal { retry_after: seconds, ..refusal::TOO_MANY }
        })?;
    }
    Ok((route.clone(), host.to_owned()))
}

/// Whether a client has shown the certificate that a route asks for, if it asks for one.
fn is_known(client: &Client, route: &Route) -> bool {
    let wanted = route.ingress.client_ca.as_ref();
    wanted.is_none_or(|authority| client.authority.as_ref() == Some(authority))
}

fn redirect(
    shared: &Shared,
    client: &Client,
    route: &Route,
    request: &Request<Incoming>,
    host: &str,
) -> Option<Response<ProxyBody>> {
    if client.tls.is_some() || !route.redirect_to_https || shared.https_port == 0 {
        return None;
    }
    let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    // Whoever named the port of this gateway meant this gateway. Others came through something
    // that maps ports, and there HTTPS has its usual one.
    let named = request.headers().get(HOST).and_then(|value| value.to_str().ok());
    let named = named.and_then(|value| value.rsplit_once(':')).map(|(_, port)| port);
    let port = match named.and_then(|port| port.parse::<u16>().ok()) {
        Some(port) if port == client.local.port() && shared.https_port != 443 => {
            format!(":{}", shared.https_port)
        }
        _ => String::new(),
    };
    let location = HeaderValue::try_from(format!("https://{host}{port}{path}")).ok()?;
    let mut response = Response::new(ProxyBody::Empty);
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    response.headers_mut().insert(LOCATION, location);
    Some(response)
}

async fn serve(
    shared: &Arc<Shared>,
    client: &Arc<Client>,
    route: Arc<Route>,
    host: String,
    mut request: Request<Incoming>,
    mut exchange: Exchange,
) -> Response<ProxyBody> {
    let Some(backend) = route.backend.clone() else {
        return exchange.refused(&refusal::NO_BACKEND);
    };
    exchange.matched(&route);
    let upgrade = headers::upgrade_of(&request);
    let client_side = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
    let (mut head, incoming) = request.into_parts();
    let original_version = head.version;
    let who = who::Who::new(&backend, &shared.options, client, &head.headers);
    let known = forward::prepare(&mut head, client, shared, &host, upgrade.as_ref());
    exchange.identified(known);
    let (body, progress) = if incoming.is_end_stream() {
        // Whoever waits for bytes that never come takes those of the next request for them.
        if let Some(length) = head.headers.get_mut(CONTENT_LENGTH) {
            *length = HeaderValue::from_static("0");
        }
        (OutBody::Empty, None)
    } else {
        let (body, progress) = ClientBody::new(incoming);
        (OutBody::Client(body), Some(progress))
    };
    exchange.receives(progress.clone());
    let request = Request::from_parts(head, body);
    let attempts = attempt::Attempts {
        backend: &backend,
        host: &host,
        progress: progress.as_ref(),
        ask: who.ask,
    };
    let whole = backend.rules.request;
    let outcome = match whole {
        Some(whole) => tokio::time::timeout(whole, attempts.run(request, &mut exchange))
            .await
            .unwrap_or(Err(refusal::TOO_SLOW)),
        None => attempts.run(request, &mut exchange).await,
    };
    match outcome {
        Ok((response, lease)) => {
            let answer =
                answer::Answer { route: &route, client, version: original_version, shared };
            let mut response = response;
            let target = exchange.target().unwrap_or_default();
            for cookie in who.cookies(&backend, target, client.tls.is_some()) {
                response.headers_mut().append(SET_COOKIE, cookie);
            }
            answer.make(response, lease, client_side, exchange)
        }
        Err(refusal) => exchange.refused(&refusal),
    }
}
