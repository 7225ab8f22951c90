//! What people and other programs can ask a gateway: its health, metrics, routes, targets, and why
//! a request goes where it goes.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::explain;
use crate::metrics::{Labels, TargetMetrics, Text, write_targets};
use crate::snapshot::{Backend, Snapshot};
use crate::upstream::{Address, milliseconds};
use crate::worker::Shared;

/// Serves the admin endpoints.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    listener: TcpListener,
    ready: watch::Receiver<bool>,
) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (shared, ready) = (shared.clone(), ready.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let loaded = *ready.borrow();
            let answer = answer(&shared, loaded, request.uri().path(), request.uri().query());
            async move { Ok::<_, Infallible>(answer) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_secs(10))
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(connection);
    }
}

fn answer(shared: &Shared, loaded: bool, path: &str, query: Option<&str>) -> Response<Full<Bytes>> {
    let snapshot = shared.snapshot.load();
    match path {
        "/healthz" => text(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" if shared.is_stopping() => {
            text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned())
        }
        "/readyz" if loaded => text(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => {
            text(StatusCode::SERVICE_UNAVAILABLE, "no routes have been loaded yet\n".to_owned())
        }
        "/metrics" => text(StatusCode::OK, metrics(shared, &snapshot)),
        "/routes" => found(&routes(&snapshot)),
        "/targets" => found(&targets(&snapshot)),
        "/explain" => explain(shared, &snapshot, query.unwrap_or_default()),
        _ => text(
            StatusCode::NOT_FOUND,
            "there are /healthz /readyz /metrics /routes /targets /explain?host=&path=&client=&from=\n"
                .to_owned(),
        ),
    }
}

fn text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn found(value: &Value) -> Response<Full<Bytes>> {
    let mut response = text(StatusCode::OK, format!("{value:#}\n"));
    let kind = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn backends(snapshot: &Snapshot) -> Vec<&Arc<Backend>> {
    let mut backends: Vec<_> =
        snapshot.ingresses.values().flat_map(|ingress| &ingress.backends).collect();
    backends.sort_by(|a, b| (&a.ingress, &a.name).cmp(&(&b.ingress, &b.name)));
    backends
}

fn metrics(shared: &Shared, snapshot: &Snapshot) -> String {
    let mut text = Text::default();
    let own = &shared.metrics;
    let open = shared.connections.load(Ordering::Relaxed);
    text.family("limen_gateway_open_connections", "gauge", "Client connections");
    text.line("limen_gateway_open_connections", &[], open);
    for (name, help, value) in [
        ("connections", "Client connections accepted", &own.connections),
        ("refused_connections", "Client connections beyond the limit", &own.connections_refused),
        ("failed_handshakes", "TLS handshakes that failed", &own.handshakes_failed),
        ("malformed_requests", "Streams that are not HTTP by the letter", &own.malformed),
        ("unmatched_requests", "Requests that no rule matches", &own.unmatched),
        ("refused_requests", "Requests that were refused", &own.refused),
        ("limited_requests", "Requests of clients that ask too often", &own.limited),
        ("dropped_log_entries", "Entries missing from the access log", &own.log_dropped),
        ("reloads", "Snapshots put in force", &own.reloads),
        ("failed_reloads", "Objects that could not be put in force", &own.reloads_failed),
        ("failed_snapshots", "Objects that could not be kept on disk", &own.snapshots_failed),
    ] {
        let name = format!("limen_gateway_{name}_total");
        text.family(&name, "counter", help);
        text.line(&name, &[], value.get());
    }
    let backends = backends(snapshot);
    let mut rows: Vec<(Labels<'_>, &TargetMetrics)> = Vec::new();
    for backend in &backends {
        for target in &backend.targets {
            let cluster = target.target.cluster.as_str();
            let labels =
                [("ingress", &*backend.ingress), ("backend", &*backend.name), ("cluster", cluster)];
            rows.push((labels, &target.metrics));
        }
    }
    write_targets(&mut text, &rows);
    let now = milliseconds(Instant::now());
    type Gauge = fn(&Address, u64) -> u64;
    let gauges: [(&str, &str, &str, Gauge); 3] = [
        (
            "limen_gateway_ejections_total",
            "counter",
            "Addresses left alone after failures",
            |a, _| a.ejections.load(Ordering::Relaxed),
        ),
        ("limen_gateway_ejected_addresses", "gauge", "Addresses left alone now", |a, now| {
            u64::from(a.is_ejected(now))
        }),
        ("limen_gateway_outstanding_requests", "gauge", "Requests under way", |a, _| {
            u64::from(a.outstanding())
        }),
    ];
    for (name, kind, help, value) in gauges {
        text.family(name, kind, help);
        let targets = backends.iter().flat_map(|backend| &backend.targets);
        for ((labels, _), target) in rows.iter().zip(targets) {
            let sum: u64 = target.addresses.iter().map(|address| value(address, now)).sum();
            text.line(name, labels, sum);
        }
    }
    text.into_string()
}

fn routes(snapshot: &Snapshot) -> Value {
    let mut ingresses: Vec<_> = snapshot.ingresses.values().collect();
    ingresses.sort_by(|a, b| a.label.cmp(&b.label));
    let ingresses: Vec<_> = ingresses
        .iter()
        .map(|ingress| {
            json!({
                "ingress": ingress.label,
                "rules": ingress.global.rules,
                "defaultBackend": ingress.global.default_backend,
                "tls": ingress.global.tls,
            })
        })
        .collect();
    json!({ "ingresses": ingresses, "problems": snapshot.problems })
}

fn targets(snapshot: &Snapshot) -> Value {
    let now = milliseconds(Instant::now());
    let backends = backends(snapshot).into_iter().map(|backend| describe(backend, now));
    Value::Array(backends.collect())
}

/// A backend with its targets in the order of preference, and why each is ready or not.
fn describe(backend: &Backend, now: u64) -> Value {
    let targets = backend.plan.preferred().map(|(index, tier)| {
        let target = &backend.targets[index];
        let addresses: Vec<_> = target
            .addresses
            .iter()
            .map(|address| {
                let health = address.health.as_ref();
                json!({
                    "address": address.endpoint.destination.to_string(),
                    "outstanding": address.outstanding(),
                    "connections": address.endpoint.connections.load(Ordering::Relaxed),
                    "probes": health.map_or("none".to_owned(), |health| format!("{:?}", health.verdict())),
                    "reason": health.map(|health| health.reason()).filter(|reason| !reason.is_empty()),
                    "ejected": address.is_ejected(now),
                    "onProbation": address.on_probation(now),
                })
            })
            .collect();
        json!({
            "cluster": target.target.cluster,
            "group": target.target.group,
            "tier": tier,
            "readiness": target.readiness(now).name(),
            "drainedPercent": target.target.drained_percent,
            "capacity": target.capacity,
            "allowed": target.flow.allowed(),
            "utilisation": target.flow.utilisation(),
            "verdicts": target.target.verdicts,
            "addresses": addresses,
        })
    });
    let targets: Vec<_> = targets.collect();
    json!({ "ingress": backend.ingress, "backend": backend.name, "targets": targets })
}

fn explain(shared: &Shared, snapshot: &Snapshot, query: &str) -> Response<Full<Bytes>> {
    match explain::answer(shared, snapshot, query, describe) {
        Ok(value) => found(&value),
        Err((status, usage)) => text(status, usage.to_owned()),
    }
}
