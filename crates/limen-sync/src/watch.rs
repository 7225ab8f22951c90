//! Following all objects of one kind in one cluster, as plain JSON.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use futures::StreamExt;
use http::Method;
use kube::core::WatchEvent;
use limen_core::federated::Kind;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::discovery::{Serving, serving};
use crate::object_api::{ObjectApi, escape, kind_path, request};
use crate::slim_object::SlimObject;

/// How long one watch lasts before the next one takes over.
const LASTING: u64 = 290;
/// How long a watch may be silent beyond that before it is given up.
const GRACE: Duration = Duration::from_secs(20);
/// A watch that ends sooner has hardly begun.
const AT_ONCE: Duration = Duration::from_secs(1);

/// What a follower sees.
#[derive(Debug)]
pub enum Seen {
    /// Everything that is there, with the version of the list: at the start, and whenever a watch
    /// could not go on. It is the truth whatever its version.
    State(Vec<Value>, String),
    /// An object is new or changed.
    Changed(Value),
    /// An object is gone; this is what it was last.
    Gone(Value),
    /// A watch is established, and everything up to this version has been told.
    Bookmark(String),
    /// A watch could not go on: changes are not told until the next state.
    Behind,
    /// The cluster says that it does not know the kind, in any version.
    UnknownKind,
    /// The cluster serves the kind in these versions only.
    OtherVersions(Vec<String>),
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
    // Lists and watches fail each for themselves: that one is answered says nothing of the other.
    let (mut pause, mut watch_pause) = (Pause::default(), Pause::default());
    loop {
        let mut version = match api.list(&kind, &selector).await {
            Ok((objects, version)) => {
                pause = Pause::default();
                let nothing = objects.is_empty();
                if !tell.say(Seen::State(objects, version.clone())).await {
                    return;
                }
                if nothing && used.wait_for(|used| *used).await.is_err() {
                    return;
                }
                version
            }
            Err(error) => {
                let serving = match is(&error, 404) {
                    true => serving(&api, &kind).await.unwrap_or(Serving::Unknown),
                    false => Serving::Unknown,
                };
                let known = matches!(serving, Serving::Absent | Serving::OtherVersions(_));
                let seen = match serving {
                    Serving::Absent => Seen::UnknownKind,
                    Serving::OtherVersions(versions) => Seen::OtherVersions(versions),
                    Serving::Unknown | Serving::Served => Seen::Lost(error),
                };
                if !tell.say(seen).await {
                    return;
                }
                match known {
                    true => pause.in_full(UNKNOWN).await,
                    false => pause.until_answers(&api).await,
                }
                continue;
            }
        };
        // Watches follow each other from version to version; a list is needed only when one of
        // them ends in an error or goes back.
        loop {
            let (began, before) = (Instant::now(), version.clone());
            let ended = watch_from(&api, &selector, &mut version, &tell).await;
            if version != before {
                watch_pause = Pause::default();
            }
            match ended {
                Ok(Ended::NotWanted) => return,
                Ok(Ended::InTime) if began.elapsed() > AT_ONCE => watch_pause = Pause::default(),
                Ok(Ended::InTime) => watch_pause.in_full(LEAST).await,
                Ok(Ended::Compacted | Ended::WentBack) => {
                    if !tell.say(Seen::Behind).await {
                        return;
                    }
                    watch_pause.in_full(LEAST).await;
                    break;
                }
                Err(error) if is(&error, 410) || is(&error, 404) => {
                    if !tell.say(Seen::Behind).await {
                        return;
                    }
                    watch_pause.in_full(LEAST).await;
                    break;
                }
                Err(error) => {
                    // A probe that is answered says nothing about a watch that is refused.
                    let refused = matches!(error, kube::Error::Api(_));
                    if !tell.say(Seen::Lost(error)).await {
                        return;
                    }
                    match refused {
                        true => watch_pause.in_full(LEAST).await,
                        false => watch_pause.until_answers(&api).await,
                    }
                    break;
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
    /// A version is lower than one before it: the cluster was restored.
    WentBack,
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
    let events = api.in_time(api.client().request_events::<SlimObject>(request)).await?;
    if !tell.say(Seen::Bookmark(version.clone())).await {
        return Ok(Ended::NotWanted);
    }
    let mut events = std::pin::pin!(events);
    let limit = Duration::from_secs(LASTING) + GRACE;
    while let Ok(Some(event)) = tokio::time::timeout(limit, events.next()).await {
        let (object, gone) = match event? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object.0, false),
            WatchEvent::Deleted(object) => (object.0, true),
            WatchEvent::Bookmark(mark) => {
                let newer = mark.metadata.resource_version;
                if is_lower(&newer, version) {
                    return Ok(Ended::WentBack);
                }
                version.clone_from(&newer);
                if !tell.say(Seen::Bookmark(newer)).await {
                    return Ok(Ended::NotWanted);
                }
                continue;
            }
            WatchEvent::Error(status) if status.code == 410 => return Ok(Ended::Compacted),
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        };
        if let Some(newer) = object["metadata"]["resourceVersion"].as_str() {
            if is_lower(newer, version) {
                return Ok(Ended::WentBack);
            }
            newer.clone_into(version);
        }
        let seen = if gone { Seen::Gone(object) } else { Seen::Changed(object) };
        if !tell.say(seen).await {
            return Ok(Ended::NotWanted);
        }
    }
    Ok(Ended::InTime)
}

/// Whether one version is before another, where both are numbers.
fn is_lower(version: &str, than: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    matches!((number(version), number(than)), (Some(a), Some(b)) if a < b)
}

/// Half of the first pause, in milliseconds: usually, and where the cluster does not know the kind.
const LEAST: u64 = 100;
const UNKNOWN: u64 = 2000;

/// How long to wait before trying again: longer each time.
#[derive(Default)]
struct Pause(u32);

impl Pause {
    fn longer(&mut self, least: u64) -> Duration {
        self.0 += 1;
        Duration::from_millis((least << self.0.min(8)).min(30_000))
    }

    /// Waits until the cluster is known to answer, and no longer than this.
    async fn until_answers(&mut self, api: &ObjectApi) {
        api.wait_for_answers(self.longer(LEAST)).await;
    }

    /// Waits although the cluster answers: it was its answer that was of no use.
    async fn in_full(&mut self, least: u64) {
        tokio::time::sleep(self.longer(least)).await;
    }
}
