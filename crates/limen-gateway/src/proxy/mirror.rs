//! Requests that go to a second place as well, whose answers nobody sees.
//!
//! Only requests without a body are mirrored: a body is passed on as it comes and is gone then. A
//! mirror that is slow must not cost anything, so each worker has only so many under way.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use http::{HeaderValue, Request};
use http_body_util::BodyExt;

use super::choose::{address, is_mirrored};
use super::forward::for_http2;
use crate::snapshot::Backend;
use crate::upstream::{OutBody, Outstanding, lease, milliseconds};
use limen_core::decide::Readiness;
use limen_core::global::Protocol;

/// Mirrored requests that one worker has under way at most.
const MOST: usize = 64;

thread_local!(static UNDER_WAY: Cell<usize> = const { Cell::new(0) });

/// One that is under way.
struct Turn;

impl Turn {
    fn new() -> Option<Self> {
        let count = UNDER_WAY.get();
        (count < MOST).then(|| {
            UNDER_WAY.set(count + 1);
            Self
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        UNDER_WAY.set(UNDER_WAY.get() - 1);
    }
}

/// Sends a copy of a request to where it is to be mirrored, if it is this one's turn.
pub(super) fn mirror(backend: &Arc<Backend>, host: &str, copy: impl FnOnce() -> Request<OutBody>) {
    let Some(rule) = &backend.rules.mirror else { return };
    if !is_mirrored(backend, rule.percent) {
        return;
    }
    let now = milliseconds(Instant::now());
    let fits = |index: &usize| {
        let state = &backend.targets[*index];
        rule.group.as_ref().is_none_or(|group| state.target.group.as_ref() == Some(group))
            && rule.cluster.as_ref().is_none_or(|cluster| state.target.cluster == *cluster)
            && state.readiness(now) == Readiness::Ready
    };
    let target = backend.plan.preferred().map(|(index, _)| index).find(fits);
    let (Some(target), Some(turn)) = (target, Turn::new()) else { return };
    let Some(address) = address(backend, target, None, &[], now) else { return };
    backend.targets[target].metrics.mirrored.add(1);
    let (backend, host, mut request) = (backend.clone(), host.to_owned(), copy());
    request.headers_mut().insert("x-limen-mirrored", HeaderValue::from_static("true"));
    tokio::spawn(async move {
        let _turn = turn;
        let outstanding = Outstanding::new(address);
        let endpoint = &outstanding.address().endpoint;
        let rules = &backend.rules;
        let asked = async {
            let leased = lease(endpoint, &host, rules.connect, rules.max_connections).await;
            let Ok(mut lease) = leased else { return };
            let (mut head, body) = request.into_parts();
            if lease.sender().is_http2() {
                for_http2(&mut head, endpoint.protocol == Protocol::Https);
            }
            let answer = lease.sender().send(Request::from_parts(head, body)).await;
            let Ok(answer) = answer else { return };
            let mut body = answer.into_body();
            loop {
                match body.frame().await {
                    Some(Ok(_)) => {}
                    Some(Err(_)) => return,
                    // The connection can be used again once the answer is read to its end.
                    None => return lease.give_back(rules.idle),
                }
            }
        };
        // Nobody waits for it, and nobody hears of it.
        let _ = tokio::time::timeout(rules.response, asked).await;
    });
}
