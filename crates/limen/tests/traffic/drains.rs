//! Traffic is taken away from a cluster on purpose.

use std::time::Duration;

use limen_hub::{Drain, drain, undrain};
use limen_playground::Behaviour;
use serde_json::Value;

use crate::clients::{Connection, Crowd, none_failed};
use crate::world::{BERLIN, PARIS, World, eventually, targets};

fn drained(global: &Value) -> u64 {
    let berlin = targets(global).find(|target| target["cluster"] == BERLIN);
    berlin.and_then(|target| target["drainedPercent"].as_u64()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_is_gradual_lets_requests_finish_and_can_be_taken_back() {
    let mut world = World::start().await;
    let gateway = world.gateway(|_| {}).await;

    // A request that is still under way when nothing is sent there any more. It is the only one, so
    // that it is this one that has arrived.
    let slow = Behaviour { slow_milliseconds: 15_000, ..Behaviour::default() };
    let before = world.answered_by(BERLIN);
    world.behave(BERLIN, slow);
    let long = tokio::spawn(async move { Connection::new(gateway).shop().await });
    eventually("the slow request is under way", async || {
        let now = world.answered_by(BERLIN);
        (now > before, format!("{now}"))
    })
    .await;
    world.behave(BERLIN, Behaviour::default());
    // Less than two pods say that they can take, so that nobody is sent further away for that.
    let crowd = Crowd::gather(&[gateway], 8, Duration::from_millis(200));
    crowd.settled(60, BERLIN).await;

    let options = Drain {
        cluster: BERLIN.to_owned(),
        over_seconds: 4,
        keep: 1,
        force: false,
        dry_run: false,
    };
    let refused = drain(&world.hub, &Drain { keep: 3, ..options.clone() }).await.unwrap_err();
    assert!(refused.to_string().contains("2 of 3 clusters would be left"), "{refused}");
    drain(&world.hub, &options).await.unwrap();
    // On its way some go to the one, and some to the other.
    world.compiled(|global| (1..100).contains(&drained(global))).await;
    world.compiled(|global| drained(global) == 100).await;
    crowd.settled(60, PARIS).await;
    let before = world.answered_by(BERLIN);
    crowd.next(120).await;
    assert_eq!(world.answered_by(BERLIN), before, "requests went to a cluster that is drained");
    let long = long.await.unwrap();
    assert_eq!(long.cluster(), BERLIN);

    undrain(&world.hub, BERLIN).await.unwrap();
    crowd.settled(60, BERLIN).await;
    none_failed(&crowd.disperse().await);
    world.stop().await;
}
