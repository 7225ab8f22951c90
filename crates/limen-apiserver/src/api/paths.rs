//! Paths that are not resources: health, version, discovery, schemas, metrics.

use std::collections::BTreeSet;
use std::time::Duration;

use http::header::ACCEPT;
use http::{HeaderMap, Method, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::Api;
use crate::answer::{self, Body, Offer, Wanted};
use crate::audit::AuditLog;
use crate::discovery;
use crate::error::{ApiError, ApiResult};
use crate::openapi::{self, Document};
use crate::registry::Types;
use crate::resource::ResourceType;

/// The version of Kubernetes whose behaviour this server has.
const MAJOR: &str = "1";
const MINOR: &str = "36";
/// The oldest version whose clients it understands as well.
const OLDEST_MINOR: &str = "35";

/// How long the store may take to answer before the server is not ready, and for how long its last
/// answer is taken for the next: anybody may ask, and shall not wear it out.
const READY_WITHIN: Duration = Duration::from_secs(2);
const READY_FOR: Duration = Duration::from_millis(500);

impl Api {
    /// What `/readyz` says when the store does not answer.
    pub(super) async fn unready(&self, path: &str) -> Option<Response<Body>> {
        if path.trim_end_matches('/') != "/readyz" || self.store_answers().await {
            return None;
        }
        let body = "[-]store failed: reason withheld\nreadyz check failed\n";
        let code = StatusCode::INTERNAL_SERVER_ERROR;
        Some(answer::bytes(code, "text/plain; charset=utf-8", body.into()))
    }

    async fn store_answers(&self) -> bool {
        let mut last = self.store_answered.lock().await;
        if let Some((at, answers)) = *last
            && at.elapsed() < READY_FOR
        {
            return answers;
        }
        let asked = timeout(READY_WITHIN, self.store.get(b"readyz", None)).await;
        let answers = match asked {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => {
                tracing::warn!(%error, "not ready: the store fails");
                false
            }
            Err(_) => {
                tracing::warn!("not ready: the store does not answer");
                false
            }
        };
        *last = Some((Instant::now(), answers));
        answers
    }

    pub(super) fn answer_path(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> ApiResult<Response<Body>> {
        let path = if path.len() > 1 { path.trim_end_matches('/') } else { path };
        let parts: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
        // The others answer whatever the method.
        let only_get = matches!(parts.as_slice(), ["version" | "api"] | ["api" | "apis", _, ..]);
        if only_get && *method != Method::GET {
            return Err(ApiError::method_not_allowed());
        }
        let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let types = self.registry.types();
        let document = match parts.as_slice() {
            ["healthz" | "livez" | "readyz"] | ["healthz" | "livez" | "readyz", "ping"] => {
                return Ok(text("ok"));
            }
            ["metrics"] => {
                let unlogged = self.audit.as_ref().map_or(0, AuditLog::dropped);
                return Ok(text(&self.metrics.text(self.flow.rejected(), unlogged)));
            }
            ["api" | "apis"] if discovery::wants_aggregated(accept) => {
                let document = discovery::aggregated(&types, parts[0] == "api");
                return Ok(answer::cacheable(headers, discovery::AGGREGATED, &document));
            }
            ["openapi", "v2"] => return Ok(openapi::version_2(accept)),
            ["openapi", "v3"] => return Ok(text(&self.openapi_index(&types).to_string())),
            ["openapi", "v3", rest @ ..] => match self.openapi_document(&types, rest) {
                None => return Ok(answer::nothing(StatusCode::NOT_FOUND)),
                found => found,
            },
            [".well-known", "openid-configuration"] => {
                let keys = format!("https://{}/openid/v1/jwks", self.address);
                Some(self.authenticator.issuer.discovery(&keys))
            }
            ["openid", "v1", "jwks"] => {
                let keys = self.authenticator.issuer.key_set().to_string().into();
                return Ok(answer::bytes(StatusCode::OK, "application/jwk-set+json", keys));
            }
            [""] => Some(json!({"paths": self.root_paths(&types)})),
            ["version"] => Some(version()),
            ["api"] => Some(discovery::core_versions(&self.address)),
            ["apis"] => Some(discovery::group_list(&types)),
            ["api", version] => discovery::resource_list(&types, "", version),
            ["apis", group] => discovery::group(&types, group),
            ["apis", group, version] => discovery::resource_list(&types, group, version),
            _ => None,
        };
        let document = document.ok_or_else(|| match parts.as_slice() {
            ["api", ..] => self.nothing_in(""),
            ["apis", group, ..] => self.nothing_in(group),
            _ => ApiError::page_not_found(),
        })?;
        let offer = if parts.len() == 1 && parts[0].starts_with("api") {
            Offer::Groups
        } else {
            Offer::One
        };
        Ok(Wanted::from_headers(headers, offer)?.value(StatusCode::OK, &document))
    }

    fn openapi_index(&self, types: &Types) -> Value {
        let documents = types.groups().flat_map(|(group, versions)| {
            versions.iter().map(move |version| {
                let resources = version.types.values().map(|kind| &**kind);
                Document::new(group, &version.name, resources, &published)
            })
        });
        let reviews = discovery::review_types();
        let groups: BTreeSet<&str> = reviews.iter().map(|kind| kind.group.as_str()).collect();
        let reviews =
            groups.into_iter().map(|group| Document::new(group, "v1", reviews, &published));
        openapi::index(documents.chain(reviews))
    }

    fn openapi_document(&self, types: &Types, path: &[&str]) -> Option<Value> {
        let (group, version) = match path {
            ["api", version] => ("", *version),
            ["apis", group, version] => (*group, *version),
            _ => return None,
        };
        let found = types.version(group, version).into_iter();
        let found = found.flat_map(|version| version.types.values().map(|kind| &**kind));
        let document =
            Document::new(group, version, found.chain(discovery::review_types()), &published);
        document.has_resources().then(|| document.to_json())
    }

    fn root_paths(&self, types: &Types) -> Vec<String> {
        let mut paths = discovery::group_paths(types);
        paths.extend(PATHS.map(str::to_owned));
        paths.sort();
        paths
    }
}

/// What is there besides groups.
const PATHS: [&str; 12] = [
    "/.well-known/openid-configuration",
    "/api",
    "/api/v1",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/openid/v1/jwks",
    "/readyz",
    "/version",
];

fn published(kind: &ResourceType) -> Option<Value> {
    kind.published.as_deref().and_then(|schema| serde_json::from_str(schema).ok())
}

fn text(body: &str) -> Response<Body> {
    answer::bytes(StatusCode::OK, "text/plain; charset=utf-8", body.to_owned().into())
}

fn version() -> Value {
    json!({
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": OLDEST_MINOR,
        "gitVersion": format!("v{MAJOR}.{MINOR}.0+limen.{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, go_architecture()),
    })
}

/// The architecture as Go names it.
fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
