//! Making calls, on whichever endpoint takes them.
//!
//! One endpoint is preferred, and all calls go to it until one fails there; then the next endpoint
//! is. tonic's own balancing is not used because it hands calls to endpoints that are down, in
//! turn. Each endpoint has one connection, which tonic makes anew when it is needed and broken.
//!
//! Every call requires that the endpoint knows a leader: one that is cut off from the others says
//! so at once, instead of keeping the call or falling silent on a watch.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::EtcdOptions;
use super::failure::{Failure, Outcome};
use super::wire::Call;
use crate::Result;

pub(super) struct Endpoints {
    all: Vec<Endpoint>,
    /// Which of them calls go to.
    preferred: AtomicUsize,
    call_timeout: Duration,
}

struct Endpoint {
    url: String,
    grpc: Grpc<Channel>,
}

/// Which failed calls are made again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// All but those that etcd refused: the request does no harm when it is carried out twice.
    Freely,
    /// Only those that certainly were not carried out.
    Undone,
}

/// How often each endpoint is tried: it may have come back, or a leader may have been found.
const ROUNDS: usize = 3;
const PAUSE: Duration = Duration::from_millis(100);

impl Endpoints {
    pub(super) fn new(options: &EtcdOptions) -> Result<Self> {
        let all = options.to_endpoints()?.into_iter().map(|(url, endpoint)| {
            // Pages and batches are bounded by what is asked for, not by tonic's 4 MiB.
            let grpc = Grpc::new(endpoint.connect_lazy()).max_decoding_message_size(usize::MAX);
            Endpoint { url, grpc }
        });
        Ok(Self {
            all: all.collect(),
            preferred: AtomicUsize::new(0),
            call_timeout: options.call_timeout,
        })
    }

    pub(super) fn call_timeout(&self) -> Duration {
        self.call_timeout
    }

    /// Makes one call and waits for its answer.
    pub(super) async fn call<C: Call>(
        &self,
        request: C,
        repeat: Repeat,
    ) -> Result<C::Answer, Failure> {
        self.try_each(repeat, |mut grpc| {
            let request = requiring_leader(request.clone());
            async move {
                grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
                let method = PathAndQuery::from_static(C::METHOD);
                Ok(grpc.unary(request, method, ProstCodec::default()).await?.into_inner())
            }
        })
        .await
    }

    /// Opens a stream of requests and answers, with the first request and the first answer.
    pub(super) async fn open<C: Call>(&self, first: C) -> Result<Stream<C>, Failure> {
        self.try_each(Repeat::Freely, |mut grpc| {
            let first = first.clone();
            async move {
                let (requests, receiver) = mpsc::channel(2);
                requests.try_send(first).expect("the channel is new");
                let receiver = requiring_leader(ReceiverStream::new(receiver));
                grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
                let method = PathAndQuery::from_static(C::METHOD);
                let answers = grpc.streaming(receiver, method, ProstCodec::default()).await?;
                let mut answers = answers.into_inner();
                let closed = || Status::unavailable("the stream was closed");
                let first = answers.message().await?.ok_or_else(closed)?;
                Ok(Stream { requests, answers, first })
            }
        })
        .await
    }

    async fn try_each<T, F>(
        &self,
        repeat: Repeat,
        attempt: impl Fn(Grpc<Channel>) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Status>> + Send,
    {
        let deadline = Instant::now() + self.call_timeout;
        let mut attempts = 0;
        let mut told = BTreeMap::new();
        loop {
            let index = self.preferred.load(Ordering::Relaxed);
            let endpoint = &self.all[index];
            let left = deadline.saturating_duration_since(Instant::now());
            // What can be repeated leaves time for that.
            let patience = if repeat == Repeat::Freely { left / 2 } else { left };
            let status = match timeout(patience, attempt(endpoint.grpc.clone())).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded("it did not answer in time"),
            };
            attempts += 1;

            let failure = Failure::new(&endpoint.url, status);
            let outcome = failure.outcome();
            if outcome.may_pass() {
                self.prefer_another_than(index);
            }
            let again = match repeat {
                Repeat::Freely => outcome.may_pass(),
                Repeat::Undone => outcome == Outcome::Undone,
            };
            let late = deadline.saturating_duration_since(Instant::now()) < self.call_timeout / 16;
            if !again || late || attempts >= ROUNDS * self.all.len() {
                told.remove(&index);
                return Err(failure.after(told.into_values()));
            }
            told.insert(index, failure.to_string());
            if attempts % self.all.len() == 0 {
                sleep(PAUSE).await;
            }
        }
    }

    fn prefer_another_than(&self, failed: usize) {
        let next = (failed + 1) % self.all.len();
        // If it fails, another call has found out already.
        let _ = self.preferred.compare_exchange(failed, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Two directions that are open until one side drops them.
pub(super) struct Stream<C: Call> {
    pub(super) requests: mpsc::Sender<C>,
    pub(super) answers: Streaming<C::Answer>,
    pub(super) first: C::Answer,
}

fn requiring_leader<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    request
}
