//! What the page asks for.

use std::error::Error;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, COOKIE, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::{Api, Config};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::answer::{Answer, Refusal, bytes_answer, json_answer, live_answer};
use crate::explain::explain;
use crate::live::now;
use crate::serve::Play;
use crate::sessions::{Credential, Sessions, Viewer, client_of};
use crate::tls::Recognised;
use crate::{act, assets, live, share};

/// Tokens are a few kilobytes, and nothing that the page sends is longer.
const LONGEST_BODY: usize = 64 * 1024;
/// So short a body needs no longer to come.
const SLOWEST_BODY: Duration = Duration::from_secs(10);
const COOKIE_NAME: &str = "limen-session";

/// What all requests share.
pub(crate) struct Desk {
    pub(crate) hub: Config,
    pub(crate) play: Option<Play>,
    pub(crate) sessions: Sessions,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Login {
    Token(String),
    Kubeconfig(String),
    /// That of the connection.
    Certificate,
}

/// Who is at the other end of a connection.
#[derive(Default)]
pub(crate) struct Visitor {
    /// What they send cannot be read on the way.
    pub(crate) secure: bool,
    /// Whom their certificate names.
    pub(crate) certified: Option<Recognised>,
}

impl Desk {
    pub(crate) async fn answer(&self, request: Request<Incoming>, visitor: &Visitor) -> Answer {
        self.handle(request, visitor).await.unwrap_or_else(Answer::from)
    }

    async fn handle(
        &self,
        request: Request<Incoming>,
        visitor: &Visitor,
    ) -> Result<Answer, Refusal> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        if let Some((content_type, text)) = assets::find(path) {
            return match parts.method {
                Method::GET | Method::HEAD => Ok(bytes_answer(StatusCode::OK, content_type, text)),
                _ => Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this can only be read")),
            };
        }
        match (&parts.method, path) {
            (&Method::GET, "/healthz") => Ok(bytes_answer(StatusCode::OK, "text/plain", "ok\n")),
            (&Method::POST, "/api/login") => self.log_in(&parts, body, visitor).await,
            (&Method::POST, "/api/logout") => Ok(self.log_out(&parts.headers, visitor)),
            (&Method::GET, "/api/me") => self.who_is(&parts.headers, visitor).await,
            (&Method::GET, "/api/live") => {
                let viewer = self.viewer(&parts.headers)?;
                let stay = cookie(&parts.headers).and_then(|secret| self.sessions.stay(secret));
                let (send, updates) = mpsc::channel(1);
                tokio::spawn(live::follow(viewer, stay.ok_or_else(log_in_first)?, send));
                Ok(live_answer(updates))
            }
            (&Method::GET, "/api/explain") => {
                let viewer = self.viewer(&parts.headers)?;
                let (what, from) = (parameter(&parts, "where"), parameter(&parts, "from"));
                let why = explain(&viewer.client, &what, &from).await?;
                Ok(json_answer(StatusCode::OK, &why))
            }
            (&Method::POST, "/api/drain" | "/api/undrain" | "/api/share" | "/api/play") => {
                let viewer = self.viewer(&parts.headers)?;
                let done = self.act(&viewer, &parts, body).await?;
                Ok(json_answer(StatusCode::OK, &done))
            }
            _ => Err(Refusal::new(StatusCode::NOT_FOUND, format!("there is nothing at {path}"))),
        }
    }

    async fn act(&self, viewer: &Viewer, parts: &Parts, body: Incoming) -> Result<Value, Refusal> {
        let client = &viewer.client;
        match parts.uri.path() {
            "/api/drain" => act::drain(client, read(parts, body).await?).await,
            "/api/undrain" => act::undrain(client, read(parts, body).await?).await,
            "/api/share" => share::share(client, read(parts, body).await?).await,
            _ => act::play(client, self.play.as_ref(), read(parts, body).await?).await,
        }
    }

    /// Who is looking; for who has not logged in, who they could be by their certificate.
    async fn who_is(&self, headers: &HeaderMap, visitor: &Visitor) -> Result<Answer, Refusal> {
        let described = async { self.describe(&self.viewer(headers)?).await };
        let refusal = match described.await {
            Ok(described) => return Ok(json_answer(StatusCode::OK, &described)),
            Err(refusal) => refusal,
        };
        // Somebody who has just come is not told that they have done something wrong.
        let session = cookie(headers).is_some();
        let certificate = visitor.certified.as_ref().map(|known| &known.name);
        let said =
            json!({"message": refusal.message, "session": session, "certificate": certificate});
        Ok(json_answer(refusal.status, &said))
    }

    /// Who is looking, and which buttons to show them.
    async fn describe(&self, viewer: &Viewer) -> Result<Value, Refusal> {
        let may_change = act::may_change(&viewer.client, "clusters").await?;
        let may_share = act::may_change(&viewer.client, "trafficpolicies").await?;
        let play = self.play.is_some() && may_change;
        Ok(json!({
            "user": &*viewer.name, "mayChange": may_change, "mayShare": may_share, "play": play,
        }))
    }

    async fn log_in(
        &self,
        parts: &Parts,
        body: Incoming,
        visitor: &Visitor,
    ) -> Result<Answer, Refusal> {
        let bad = |message: String| Refusal::new(StatusCode::BAD_REQUEST, message);
        let with = |credential: Result<Credential, String>| {
            let client = client_of(&self.hub, credential.map_err(bad)?)
                .map_err(|error| bad(format!("this certificate cannot be used: {error}")))?;
            Ok::<_, Refusal>((client, None))
        };
        let (client, until) = match read(parts, body).await? {
            Login::Token(token) => with(Credential::token(&token))?,
            Login::Kubeconfig(text) => with(Credential::kubeconfig(&text))?,
            Login::Certificate => {
                let known = visitor.certified.clone();
                let known = known.ok_or_else(|| {
                    bad("this browser has shown no certificate of the hub's authority".to_owned())
                })?;
                (known.client, Some(known.until))
            }
        };
        let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
        let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await;
        let user = review?.status.and_then(|status| status.user_info);
        let name = user.and_then(|user| user.username).unwrap_or_default();
        let viewer = Viewer { name: name.into(), client, until };
        let mut answer = json_answer(StatusCode::OK, &self.describe(&viewer).await?);
        let secret = self.sessions.enter(viewer, Instant::now());
        set_cookie(&mut answer, &format!("{COOKIE_NAME}={secret}"), visitor);
        Ok(answer)
    }

    fn log_out(&self, headers: &HeaderMap, visitor: &Visitor) -> Answer {
        if let Some(secret) = cookie(headers) {
            self.sessions.leave(secret);
        }
        let mut answer = json_answer(StatusCode::OK, &json!({}));
        set_cookie(&mut answer, &format!("{COOKIE_NAME}=; Max-Age=0"), visitor);
        answer
    }

    fn viewer(&self, headers: &HeaderMap) -> Result<Viewer, Refusal> {
        let known = cookie(headers).and_then(|secret| self.sessions.find(secret, Instant::now()));
        match known {
            None => Err(log_in_first()),
            Some(viewer) if viewer.ended(now()) => Err(Refusal::unknown()),
            Some(viewer) => Ok(viewer),
        }
    }
}

fn log_in_first() -> Refusal {
    Refusal::new(
        StatusCode::UNAUTHORIZED,
        "log in first; sessions end after 12 idle hours, or with the hub",
    )
}

/// The body, as JSON. Another site's form cannot send that type without being asked.
async fn read<T: DeserializeOwned>(parts: &Parts, body: Incoming) -> Result<T, Refusal> {
    let bad = |message: String| Refusal::new(StatusCode::BAD_REQUEST, message);
    let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if content_type != Some("application/json") {
        return Err(bad("send it as application/json".to_owned()));
    }
    let bytes = whole(body, SLOWEST_BODY).await?;
    serde_json::from_slice(&bytes).map_err(|error| bad(format!("the body makes no sense: {error}")))
}

/// All of a body. Whoever says that they send one and does not may not keep a connection by it.
async fn whole<B>(body: B, limit: Duration) -> Result<Bytes, Refusal>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    match tokio::time::timeout(limit, Limited::new(body, LONGEST_BODY).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) => {
            let message = format!("the body cannot be read: {error}");
            Err(Refusal::new(StatusCode::BAD_REQUEST, message))
        }
        Err(_) => {
            let message = format!("the body has not come within {} s", limit.as_secs());
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, message))
        }
    }
}

/// A parameter of the query; empty if it is not there.
fn parameter(parts: &Parts, name: &str) -> String {
    let pairs = parts.uri.query().unwrap_or_default().split('&');
    let value = pairs.filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
    let value = value.map(|(_, value)| value.replace('+', " ")).unwrap_or_default();
    percent_encoding::percent_decode_str(&value).decode_utf8_lossy().into_owned()
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies
        .flat_map(|line| line.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='))
        .find_map(|(name, value)| (name == COOKIE_NAME).then_some(value))
}

/// A cookie that scripts cannot read and other sites cannot use; one that was given by TLS never
/// goes in the clear.
fn set_cookie(answer: &mut Answer, cookie: &str, visitor: &Visitor) {
    let secure = if visitor.secure { "; Secure" } else { "" };
    let value = format!("{cookie}; Path=/; HttpOnly; SameSite=Strict{secure}");
    if let Ok(value) = HeaderValue::from_str(&value) {
        answer.headers_mut().insert(SET_COOKIE, value);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    #[tokio::test]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let soon = Duration::from_millis(20);
        let never = futures::stream::pending::<Result<Frame<Bytes>, Infallible>>();
        let refused = whole(StreamBody::new(never), soon).await.unwrap_err();
        assert_eq!(refused.status, StatusCode::REQUEST_TIMEOUT);
        let sent = |text: String| whole(Full::<Bytes>::from(text), SLOWEST_BODY);
        let long = sent(" ".repeat(LONGEST_BODY + 1)).await;
        assert_eq!(long.unwrap_err().status, StatusCode::BAD_REQUEST);
        assert_eq!(sent("{}".to_owned()).await.unwrap(), "{}");
    }
}
