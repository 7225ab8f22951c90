//! Why a request goes where it goes, for people.

use std::net::IpAddr;
use std::time::Instant;

use http::StatusCode;
use limen_core::decide::{Explanation, Question, explain};
use limen_core::route::{HostBuffer, normal_host};
use serde_json::{Value, json};

use crate::proxy::Seen;
use crate::snapshot::{Backend, Route, Snapshot};
use crate::upstream::milliseconds;
use crate::worker::Shared;

/// A request that somebody asks about.
#[derive(Default)]
struct Asked {
    host: String,
    path: String,
    client: Option<IpAddr>,
    /// Where the client is, if that is said instead of an address.
    from: Vec<String>,
}

impl Asked {
    fn parse(query: &str) -> Self {
        let mut asked = Self { path: "/".to_owned(), ..Self::default() };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "host" => asked.host = value.into_owned(),
                "path" => asked.path = value.into_owned(),
                "client" => asked.client = value.parse().ok(),
                "from" => asked.from = value.split(',').map(str::to_owned).collect(),
                _ => {}
            }
        }
        asked
    }

    /// Where the client is: what was said, or what the table knows, or where the gateway is.
    fn places<'a>(&'a self, shared: &'a Shared) -> Vec<&'a str> {
        let options = &shared.options;
        let known = self.client.map(|client| options.geography.names(client)).unwrap_or_default();
        let known = if self.from.is_empty() { known } else { &self.from };
        if known.is_empty() {
            return options.locality.region.as_deref().into_iter().collect();
        }
        known.iter().map(String::as_str).collect()
    }
}

/// The answer to a query, or what to ask instead.
pub(crate) fn answer(
    shared: &Shared,
    snapshot: &Snapshot,
    query: &str,
    describe: impl Fn(&Backend, u64) -> Value,
) -> Result<Value, (StatusCode, &'static str)> {
    let asked = Asked::parse(query);
    let mut buffer = HostBuffer::default();
    let normal = normal_host(&asked.host, &mut buffer).ok_or((
        StatusCode::BAD_REQUEST,
        "say which request: /explain?host=a.example&path=/&client=192.0.2.1 or &from=REGION\n",
    ))?;
    let Some((matched, route)) = snapshot.routes.find(normal, &asked.path) else {
        return Ok(json!({ "host": normal, "path": asked.path, "matched": null, "answer": 404 }));
    };
    let Route { ingress, backend, host, path, redirect_to_https, .. } = &**route;
    let now = milliseconds(Instant::now());
    let places = asked.places(shared);
    let explanation = backend.as_ref().and_then(|backend| {
        let global = ingress.global.backends.iter().find(|global| global.name == backend.name)?;
        let seen = Seen { backend, now };
        let allowed: Vec<_> = backend.targets.iter().map(|target| target.flow.allowed()).collect();
        Some(explain(&Question {
            backend: global,
            rules: &ingress.global.traffic,
            plan: &backend.plan,
            sight: &seen,
            client: &places,
            allowed: &allowed,
            demand: shared.rates.load().get(&backend.id).copied().unwrap_or(0.0),
        }))
    });
    let nowhere = explanation.as_ref().is_none_or(|found: &Explanation| found.cluster.is_none());
    Ok(json!({
        "host": normal,
        "path": asked.path,
        "client": asked.client.map(|client| client.to_string()),
        "places": places,
        "matched": {
            "by": format!("{matched:?}"),
            "ingress": ingress.label,
            "host": host,
            "path": path,
            "redirectToHttps": redirect_to_https,
        },
        "backend": backend.as_ref().map(|backend| describe(backend, now)),
        "split": ingress.global.traffic.split,
        "nearestReady": explanation.as_ref().and_then(|found| found.cluster.clone()),
        "explanation": explanation,
        "answer": nowhere.then_some(503),
    }))
}
