//! A whole cluster is lost, under load.

use std::time::Duration;

use limen_playground::Trouble;
use serde_json::json;

use crate::clients::{Crowd, none_failed};
use crate::world::{BERLIN, OHIO, PARIS, World, eventually};

const PAUSE: Duration = Duration::from_millis(200);

/// Waits until a number of answers has come in a row during which no attempt was made there.
async fn nothing_goes_to(world: &World, crowd: &Crowd, member: &str) {
    let mut before = world.failed_attempts(member).await;
    eventually("no more attempts", async || {
        crowd.next(60).await;
        let now = world.failed_attempts(member).await;
        let still = now == before;
        before = now;
        (still, format!("{now} attempts at {member}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_loses_power_takes_no_request_with_it() {
    let mut world = World::start().await;
    let gateway = world.gateway(|_| {}).await;
    let crowd = Crowd::gather(&[gateway], 8, PAUSE);
    crowd.settled(60, BERLIN).await;

    world.member(BERLIN).trouble(Trouble::Kill).await.unwrap();
    crowd.settled(60, PARIS).await;
    nothing_goes_to(&world, &crowd, BERLIN).await;
    // The next one goes too: the last is far away, and better than none.
    world.member(PARIS).trouble(Trouble::Kill).await.unwrap();
    crowd.settled(60, OHIO).await;

    world.member(PARIS).trouble(Trouble::Restore).await.unwrap();
    crowd.settled(60, PARIS).await;
    world.member(BERLIN).trouble(Trouble::Restore).await.unwrap();
    crowd.settled(60, BERLIN).await;
    none_failed(&crowd.disperse().await);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_falls_silent_is_left_alone_and_one_without_hub_is_not() {
    let mut world = World::start().await;
    // Ways in are probed; who waits for an answer for so long is sent elsewhere. The order is
    // given, as what a busy machine measures says little about distances.
    world
        .policy(json!({"failover": [BERLIN, PARIS, OHIO], "healthCheck": {"kind": "Tcp"},
            "timeouts": {"responseMilliseconds": 2000}}))
        .await;
    world.compiled(|global| global["spec"]["traffic"]["failover"][2] == OHIO).await;
    let gateway = world.gateway(|_| {}).await;
    let crowd = Crowd::gather(&[gateway], 8, PAUSE);
    crowd.settled(60, BERLIN).await;

    // Packets vanish: no connection is refused, and none is answered.
    world.member(BERLIN).trouble(Trouble::PartitionClients).await.unwrap();
    crowd.settled(60, PARIS).await;
    nothing_goes_to(&world, &crowd, BERLIN).await;
    world.member(BERLIN).trouble(Trouble::Restore).await.unwrap();
    crowd.settled(60, BERLIN).await;

    // An API that nobody reaches says nothing about the pods behind it.
    let unhealthy = |global: &serde_json::Value| {
        let verdict = |target: &serde_json::Value| target["verdicts"]["api"] == "Unhealthy";
        crate::world::targets(global).any(verdict)
    };
    world.member(BERLIN).trouble(Trouble::PartitionHub).await.unwrap();
    world.compiled(unhealthy).await;
    crowd.settled(60, BERLIN).await;
    none_failed(&crowd.disperse().await);
    world.stop().await;
}
