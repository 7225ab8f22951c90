use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// An API with one lease, which compares resourceVersions.
#[derive(Clone, Default)]
struct LeaseApi {
    lease: Arc<Mutex<Option<Value>>>,
    /// Answers every request with this code, once it is set.
    failing: Arc<Mutex<Option<u16>>>,
    /// Requests that are never answered, before the others.
    unanswered: Arc<Mutex<u32>>,
    /// Time that a write takes to be answered.
    slow: Duration,
    written: Arc<Mutex<Option<Instant>>>,
}

impl LeaseApi {
    fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move { Ok::<_, std::io::Error>(api.answer(request).await) }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let write = *request.method() != Method::GET;
        let lost = {
            let mut unanswered = self.unanswered.lock().unwrap();
            let lost = *unanswered > 0;
            *unanswered = unanswered.saturating_sub(1);
            lost
        };
        if lost {
            return std::future::pending().await;
        }
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let (code, answer) = self.decide(write, &body);
        if write {
            tokio::time::sleep(self.slow).await;
        }
        Response::builder().status(code).body(Body::from(answer.to_string().into_bytes())).unwrap()
    }

    fn decide(&self, write: bool, body: &[u8]) -> (u16, Value) {
        let failure = |code: u16, reason: &str| {
            (
                code,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "reason": reason, "message": reason, "code": code}),
            )
        };
        if let Some(code) = *self.failing.lock().unwrap() {
            return failure(code, "ServiceUnavailable");
        }
        let mut lease = self.lease.lock().unwrap();
        if !write {
            return match &*lease {
                Some(lease) => (200, lease.clone()),
                None => failure(404, "NotFound"),
            };
        }
        let mut new: Value = serde_json::from_slice(body).unwrap();
        let version =
            |lease: &Value| lease["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        let before = lease.as_ref().and_then(version);
        if version(&new) != before {
            return failure(409, "Conflict");
        }
        let next = before.map_or(1, |version| version.parse::<u64>().unwrap() + 1);
        new["metadata"]["resourceVersion"] = json!(next.to_string());
        *lease = Some(new.clone());
        *self.written.lock().unwrap() = Some(Instant::now());
        (200, new)
    }

    fn election(&self, identity: &str) -> Election {
        Election::new(self.client(), identity.to_owned())
    }

    /// A candidate in a hurry, so that the test does not wait for long.
    fn hasty(&self, identity: &str) -> Election {
        let mut election = self.election(identity);
        let [lasts, gives_up, renew] = [600, 400, 50].map(Duration::from_millis);
        election.terms = Terms { lasts, gives_up, renew };
        election
    }

    fn set_holder(&self, holder: &str) {
        let mut lease = self.lease.lock().unwrap();
        lease.as_mut().unwrap()["spec"]["holderIdentity"] = json!(holder);
    }
}

/// The lease that others read lasts from when the API wrote it, which is before its answer comes
/// and can be long before.
#[tokio::test]
async fn the_lead_lasts_from_the_request_and_not_from_the_answer() {
    let api = LeaseApi { slow: Duration::from_millis(50), ..LeaseApi::default() };
    let mut election = api.election("one");
    election.win().await;
    let written = api.written.lock().unwrap().expect("the lease was written");
    assert!(election.renewed <= written, "it would lead for longer than others wait");
    assert!(TERMS.gives_up < TERMS.lasts, "others must find that it has ended");
}

#[tokio::test]
async fn a_lead_that_cannot_be_renewed_is_not_said_to_be_anothers() {
    let taken = async {
        let api = LeaseApi::default();
        let mut election = api.hasty("one");
        election.win().await;
        api.set_holder("two");
        (election.keep().await, election.fence().allows())
    };
    let away = async {
        let api = LeaseApi::default();
        let mut election = api.hasty("one");
        election.win().await;
        *api.failing.lock().unwrap() = Some(503);
        (election.keep().await, election.fence().allows())
    };
    let (taken, away) = tokio::join!(taken, away);
    assert_eq!((taken, away), ((Lost::Taken, false), (Lost::NotRenewed, false)));
}

/// The leader does nothing at all after it has won, as a stopped process does.
#[tokio::test]
async fn a_paused_leader_finds_its_fence_closed_before_another_leads() {
    let api = LeaseApi::default();
    let (mut paused, mut rival) = (api.hasty("paused"), api.hasty("rival"));
    paused.win().await;
    let fence = paused.fence();
    rival.win().await;
    assert!(!fence.allows(), "two leaders could write at once");
    assert!(rival.epoch() > paused.epoch());
}

/// The answer to the last renewal arrives after the process was paused.
#[tokio::test]
async fn an_answer_that_comes_late_does_not_open_the_fence() {
    let api = LeaseApi { slow: Duration::from_millis(450), ..LeaseApi::default() };
    let mut election = api.hasty("one");
    assert!(!election.attempt(Claim::IfFree).await, "it was sent longer ago than a term lasts");
    assert!(!election.fence().allows());
}

#[tokio::test]
async fn a_leader_that_renews_keeps_its_fence_open_and_its_epoch() {
    let api = LeaseApi::default();
    let mut election = api.election("one");
    election.win().await;
    assert!(election.fence().allows());
    assert_eq!((election.epoch(), election.identity()), (1, "one"));
    assert!(election.attempt(Claim::Renewal).await);
    assert!(election.fence().allows());
    assert_eq!(election.epoch(), 1);
}

#[tokio::test]
async fn each_process_on_a_store_of_its_own_seizes_the_lease_with_a_new_epoch() {
    let api = LeaseApi::default();
    for epoch in 1..=3 {
        let mut election = api.election(&format!("process-{epoch}"));
        election.seize().await;
        assert_eq!(election.epoch(), epoch);
        assert!(election.fence().allows());
    }
}

#[tokio::test]
async fn the_fence_of_an_earlier_term_stays_closed_in_the_next() {
    let api = LeaseApi::default();
    let mut election = api.hasty("one");
    election.win().await;
    let first = election.fence();
    *api.failing.lock().unwrap() = Some(503);
    assert_eq!(election.keep().await, Lost::NotRenewed);
    *api.failing.lock().unwrap() = None;
    election.terms = TERMS;
    election.win().await;
    assert!(election.fence().allows());
    assert!(!first.allows(), "requests of the earlier term could still be sent");
}

#[tokio::test]
async fn a_candidate_whose_request_is_lost_asks_again() {
    let api = LeaseApi::default();
    *api.unanswered.lock().unwrap() = 1;
    for seizes in [false, true] {
        let mut candidate = api.hasty("one");
        let taken = async {
            match seizes {
                true => candidate.seize().await,
                false => candidate.win().await,
            }
        };
        let limit = Duration::from_secs(10);
        tokio::time::timeout(limit, taken).await.expect("the second request is answered");
        *api.unanswered.lock().unwrap() = 1;
    }
}
