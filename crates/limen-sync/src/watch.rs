//! Following all objects of one kind in one cluster, as plain JSON.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use http::Method;
use kube::core::WatchEvent;
use limen_core::federated::Kind;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::discovery::lacks;
use crate::lean::Lean;
use crate::object_api::{ObjectApi, escape, kind_path, request};

/// How long one watch lasts before the next one takes over.
const LASTING: u64 = 290;
/// How long a watch may be silent beyond that before it is given up.
const GRACE: Duration = Duration::from_secs(20);

/// What a follower sees.
#[derive(Debug)]
pub enum Seen {
    /// Everything that is there, at the start and whenever the thread was lost.
    State(Vec<Value>),
    /// An object is new or changed.
    Changed(Value),
    /// An object is gone; this is what it was last.
    Gone(Value),
    /// The cluster says that it does not know the kind.
    UnknownKind,
    /// The cluster does not answer, or not as it should.
    Lost(kube::Error),
}

/// Tells everything about the objects of a kind, for as long as somebody listens.
pub async fn follow(
    api: ObjectApi,
    kind: Arc<Kind>,
    selector: String,
    tell: mpsc::Sender<(Arc<Kind>, Seen)>,
) {
    let (_, used) = watch::channel(true);
    follow_used(api, kind, selector, used, tell).await;
}

/// As [`follow`]. While a kind is not used and there is nothing of it, one look is enough: a watch
/// begins, from that look on, when the kind is used.
pub(crate) async fn follow_used(
    api: ObjectApi,
    kind: Arc<Kind>,
    selector: String,
    mut used: watch::Receiver<bool>,
    tell: mpsc::Sender<(Arc<Kind>, Seen)>,
) {
    let tell = Tell { kind: kind.clone(), to: tell };
    let mut pause = Pause::default();
    loop {
        let mut version = match api.list(&kind, &selector).await {
            Ok((objects, version)) => {
                pause = Pause::default();
                let nothing = objects.is_empty();
                if !tell.say(Seen::State(objects)).await {
                    return;
                }
                if nothing && used.wait_for(|used| *used).await.is_err() {
                    return;
                }
                version
            }
            Err(error) => {
                let unknown = is(&error, 404) && lacks(&api, &kind).await.unwrap_or(false);
                let seen = if unknown { Seen::UnknownKind } else { Seen::Lost(error) };
                if !tell.say(seen).await {
                    return;
                }
                pause.before_next(&api, unknown).await;
                continue;
            }
        };
        // Watches follow each other from version to version; a list is needed only when one of
        // them loses the thread.
        loop {
            match watch_from(&api, &selector, &mut version, &tell).await {
                Ok(Ended::InTime) => pause = Pause::default(),
                Ok(Ended::NotWanted) => return,
                Ok(Ended::Compacted) => break,
                Err(error) => {
                    if is(&error, 410) || is(&error, 404) {
                        break;
                    }
                    if !tell.say(Seen::Lost(error)).await {
                        return;
                    }
                    pause.before_next(&api, false).await;
                }
            }
        }
    }
}

fn is(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

struct Tell {
    kind: Arc<Kind>,
    to: mpsc::Sender<(Arc<Kind>, Seen)>,
}

impl Tell {
    /// Whether anybody listens still.
    async fn say(&self, seen: Seen) -> bool {
        self.to.send((self.kind.clone(), seen)).await.is_ok()
    }
}

enum Ended {
    InTime,
    Compacted,
    NotWanted,
}

async fn watch_from(
    api: &ObjectApi,
    selector: &str,
    version: &mut String,
    tell: &Tell,
) -> kube::Result<Ended> {
    let path = format!(
        "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={LASTING}&labelSelector={}&resourceVersion={}",
        kind_path(&tell.kind, None),
        escape(selector),
        escape(version)
    );
    let request = request(Method::GET, &path, None, None)?;
    let events = api.in_time(api.client().request_events::<Lean>(request)).await?;
    let mut events = std::pin::pin!(events);
    let limit = Duration::from_secs(LASTING) + GRACE;
    while let Ok(Some(event)) = tokio::time::timeout(limit, events.next()).await {
        let (object, gone) = match event? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object.0, false),
            WatchEvent::Deleted(object) => (object.0, true),
            WatchEvent::Bookmark(mark) => {
                *version = mark.metadata.resource_version;
                continue;
            }
            WatchEvent::Error(status) if status.code == 410 => return Ok(Ended::Compacted),
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        };
        if let Some(newer) = object["metadata"]["resourceVersion"].as_str() {
            newer.clone_into(version);
        }
        let seen = if gone { Seen::Gone(object) } else { Seen::Changed(object) };
        if !tell.say(seen).await {
            return Ok(Ended::NotWanted);
        }
    }
    Ok(Ended::InTime)
}

/// How long to wait before trying again: longer each time.
#[derive(Default)]
struct Pause(u32);

impl Pause {
    /// Waits. That a cluster answers is a reason to try at once, unless its answer was that it does
    /// not know the kind.
    async fn before_next(&mut self, api: &ObjectApi, unknown: bool) {
        self.0 += 1;
        let least = if unknown { 2000 } else { 100 };
        let longest = Duration::from_millis((least << self.0.min(8)).min(30_000));
        match unknown {
            true => tokio::time::sleep(longest).await,
            false => api.wait_for_answers(longest).await,
        }
    }
}
