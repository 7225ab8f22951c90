//! Watches: the log of an API as a stream, late by as much as the network says.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::Response;
use http_body::Frame;
use http_body_util::BodyExt;
use http_body_util::StreamBody;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use tower::BoxError;

use crate::api::{Call, Reply, Resource, selected_event};
use crate::network::Process;
use crate::wire::{Answer, Wire};
use crate::world::World;

/// The pause between two bookmarks of a silent watch.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// Within this time all watches of a process that resumes catch up, in milliseconds.
const RESUMING: u64 = 400;

struct Watch {
    wire: Wire,
    resource: Arc<Resource>,
    selector: String,
    version: u64,
    ends: Instant,
    changes: Arc<Notify>,
    network: Arc<Notify>,
    resets: u64,
    /// The process was suspended; the first events after that come in any order.
    suspended: bool,
    /// The last event has been sent.
    over: bool,
}

fn resource(world: &World, server: &str, call: &Call) -> Option<Arc<Resource>> {
    let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
    let (group, version, plural) = match path.as_slice() {
        ["api", version, .., plural] => ("", *version, *plural),
        ["apis", group, version, .., plural] => (*group, *version, *plural),
        _ => return None,
    };
    world.servers.get(server)?.kinds.find(group, version, plural).cloned()
}

/// Whether an API would begin a watch.
pub(crate) fn admit(world: &mut World, server: &str, call: &Call) -> Reply {
    world.requests += 1;
    if let Some(code) = world.network.outage(server, &call.method, &call.path) {
        return Reply::fault(code);
    }
    let Some(resource) = resource(world, server, call) else { return Reply::no_such_path() };
    let version = call.parameter("resourceVersion").parse().unwrap_or_default();
    let api = world.servers.get(server);
    match api.map(|api| api.logged_after(version, &resource.id()).is_ok()) {
        Some(true) => Reply::ok(Value::Null),
        Some(false) => Reply::fault(410),
        None => Reply::fault(503),
    }
}

/// The answer to a watch that was admitted.
pub(crate) fn response(wire: &Wire, call: &Call) -> Response<Answer> {
    let watch = {
        let mut world = wire.shared.lock();
        let Some(resource) = resource(&world, &wire.server, call) else {
            return Response::new(crate::wire::full(Vec::new()));
        };
        let seconds = call.parameter("timeoutSeconds").parse().unwrap_or(300);
        Watch {
            selector: call.parameter("labelSelector").to_owned(),
            version: call.parameter("resourceVersion").parse().unwrap_or_default(),
            ends: Instant::now() + Duration::from_secs(seconds),
            changes: world.changes(&wire.server, &resource.id()),
            network: world.network_changes(),
            resets: world.network.resets(&wire.server),
            suspended: false,
            over: false,
            resource,
            wire: wire.clone(),
        }
    };
    let lines = stream::unfold(watch, async |mut watch| {
        let line = watch.next().await?;
        let frame = line.map(|line| Frame::data(Bytes::from(format!("{line}\n"))));
        Some((frame, watch))
    });
    Response::new(StreamBody::new(Box::pin(lines)).map_err(BoxError::from).boxed_unsync())
}

enum Step {
    Yield(Value),
    Sleep(Instant),
    Wait,
    Stalled,
    Broken,
}

impl Watch {
    async fn next(&mut self) -> Option<Result<Value, std::io::Error>> {
        let mut bookmark = Instant::now() + BOOKMARKS;
        while !self.over {
            let (changes, network) = (self.changes.clone(), self.network.clone());
            let (mut changed, mut network_changed) =
                (std::pin::pin!(changes.notified()), std::pin::pin!(network.notified()));
            changed.as_mut().enable();
            network_changed.as_mut().enable();
            let until = match self.step() {
                Step::Yield(line) => return Some(Ok(line)),
                Step::Broken => {
                    self.over = true;
                    return Some(Err(std::io::Error::other("connection reset")));
                }
                Step::Sleep(until) => until.min(self.ends),
                Step::Wait => bookmark.min(self.ends),
                Step::Stalled => {
                    network_changed.await;
                    continue;
                }
            };
            let timed_out = tokio::select! {
                biased;
                () = &mut changed => false,
                () = &mut network_changed => false,
                () = tokio::time::sleep_until(until) => true,
            };
            let now = Instant::now();
            if timed_out && (now >= self.ends || now >= bookmark) {
                bookmark = now + BOOKMARKS;
                self.over = now >= self.ends;
                if let Some(line) = self.bookmark() {
                    return Some(Ok(line));
                }
            }
        }
        None
    }

    fn step(&mut self) -> Step {
        let mut world = self.wire.shared.lock();
        let world = &mut *world;
        let (network, server) = (&world.network, &*self.wire.server);
        match network.process(self.wire.process) {
            Process::Dead => return Step::Stalled,
            Process::Suspended => {
                self.suspended = true;
                return Step::Stalled;
            }
            Process::Running if std::mem::take(&mut self.suspended) => {
                let pause = Duration::from_millis(world.random.below(RESUMING));
                return Step::Sleep(Instant::now() + pause);
            }
            Process::Running => {}
        }
        if network.resets(server) != self.resets {
            return Step::Broken;
        }
        if !network.answers(server) || network.requests_cut.contains_key(server) {
            return Step::Stalled;
        }
        let Some(api) = world.servers.get(server) else { return Step::Broken };
        let (id, now) = (self.resource.id(), world.now());
        loop {
            let entry = match api.logged_after(self.version, &id) {
                Ok(None) => return Step::Wait,
                Ok(Some(entry)) => entry,
                Err(_) => {
                    self.over = true;
                    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                        "status": "Failure", "reason": "Expired", "code": 410,
                        "message": "too old resource version"});
                    return Step::Yield(json!({"type": "ERROR", "object": status}));
                }
            };
            let visible = entry.at + network.lag(server, &id);
            if visible > now {
                return Step::Sleep(world.instant(visible));
            }
            self.version = entry.version;
            if let Some(event) = selected_event(entry, &self.selector) {
                return Step::Yield(json!({"type": event, "object": entry.object}));
            }
        }
    }

    /// A bookmark at the newest version that this watch has certainly passed.
    fn bookmark(&self) -> Option<Value> {
        let world = self.wire.shared.lock();
        let api = world.servers.get(&*self.wire.server)?;
        if api.logged_after(self.version, &self.resource.id()).ok()?.is_some() {
            return None;
        }
        let metadata =
            json!({"resourceVersion": api.revision().to_string(), "creationTimestamp": null});
        Some(json!({"type": "BOOKMARK", "object": {"kind": self.resource.kind,
            "apiVersion": self.resource.api_version(), "metadata": metadata}}))
    }
}
