//! What the image `zone-printer` answers: who it is and where.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use serde_json::json;

use super::PodState;

/// What an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// What it calls itself.
    name: String,
    /// The share of its answers, in percent, that are a failure.
    broken_percent: u8,
}

impl Version {
    /// The image of that name, if there is one: `zone-printer`, with or without a registry in
    /// front, in the versions `v1`, `v2` and `v2-broken`.
    pub(crate) fn of(image: &str) -> Option<Self> {
        let (repository, tag) = match image.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => (repository, tag),
            _ => (image, "latest"),
        };
        if repository.rsplit('/').next() != Some("zone-printer") {
            return None;
        }
        let (name, broken_percent) = match tag {
            "v1" | "latest" => ("v1", 0),
            "v2" => ("v2", 0),
            "v2-broken" => ("v2-broken", 50),
            _ => return None,
        };
        Some(Self { name: name.to_owned(), broken_percent })
    }
}

/// Who a pod is.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) cluster: String,
    pub(crate) region: String,
    pub(crate) zone: String,
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) version: Version,
}

/// Answers a request.
pub(super) async fn answer(
    identity: &Identity,
    state: &PodState,
    request: &Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let behaviour = state.behaviour();
    if request.uri().path() == "/healthz" {
        let status =
            if behaviour.unready { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        let text = if behaviour.unready { "not ready\n" } else { "ok\n" };
        return Ok(respond(status, "text/plain; charset=utf-8", text.to_owned()));
    }
    let number = state.count();
    if behaviour.slow_milliseconds > 0 {
        tokio::time::sleep(Duration::from_millis(behaviour.slow_milliseconds.into())).await;
    }
    let share = behaviour.fail_percent.max(identity.version.broken_percent).min(100);
    let mut response = if fails(number, share) {
        let text = format!("{} in {} is broken\n", identity.pod, identity.cluster);
        respond(StatusCode::INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", text)
    } else {
        let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
        greet(identity, accept.is_some_and(|accept| accept.contains("json")))
    };
    // As ORCA has it: how busy the endpoint is, with every answer.
    let load = format!(
        "JSON {}",
        json!({"cpu_utilization": state.load() / 100.0, "rps_fractional": state.rate()})
    );
    if let Ok(load) = load.try_into() {
        response.headers_mut().insert("endpoint-load-metrics", load);
    }
    Ok(response)
}

fn greet(identity: &Identity, as_json: bool) -> Response<Full<Bytes>> {
    let Identity { cluster, region, zone, namespace, pod, version } = identity;
    let version = &version.name;
    if as_json {
        let body = json!({"cluster": cluster, "region": region, "zone": zone,
            "namespace": namespace, "pod": pod, "version": version});
        return respond(StatusCode::OK, "application/json", format!("{body}\n"));
    }
    let text = format!("Hello from {cluster} ({region}), pod {pod}, version {version}\n");
    respond(StatusCode::OK, "text/plain; charset=utf-8", text)
}

fn respond(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}

/// Whether the answer with this number is one of the share that fail, evenly spread.
fn fails(number: u64, percent: u8) -> bool {
    let share = u64::from(percent);
    (number + 1) * share / 100 != number * share / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_known_by_their_last_name() {
        for (image, known) in [
            ("zone-printer:v1", true),
            ("zone-printer", true),
            ("localhost:5000/demo/zone-printer:v2-broken", true),
            ("localhost:5000/zone-printer", true),
            ("zone-printer:v9", false),
            ("nginx:1.27", false),
            ("not-zone-printer:v1", false),
        ] {
            assert_eq!(Version::of(image).is_some(), known, "{image}");
        }
    }

    #[test]
    fn failures_are_exactly_the_share_that_was_asked_for() {
        for percent in [0, 1, 33, 50, 100] {
            let failed = (0..1000).filter(|number| fails(*number, percent)).count();
            assert_eq!(failed, usize::from(percent) * 10);
        }
    }
}
