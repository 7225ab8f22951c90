//! A cluster gets more than it can take, through two gateways.

use std::time::{Duration, Instant};

use limen_playground::Behaviour;
use serde_json::json;

use crate::clients::{Answer, Crowd, count, none_failed};
use crate::world::{BERLIN, OHIO, PARIS, PODS, World, eventually, targets};

/// Requests in a second that a pod is said to take.
const EACH: f64 = 20.0;
const CAPACITY: f64 = EACH * PODS as f64;

/// Requests in a second that the pods of a member got over some time.
async fn rate(world: &World, member: &str, time: Duration) -> f64 {
    let (start, before) = (Instant::now(), world.answered_by(member));
    tokio::time::sleep(time).await;
    (world.answered_by(member) - before) as f64 / start.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_much_for_a_cluster_goes_to_the_next_nearest_and_comes_back() {
    let mut world = World::start().await;
    // Pods that say how busy they are know better than the policy; these say nothing of the kind.
    let idle = Behaviour { load_percent: Some(0), ..Behaviour::default() };
    for member in [BERLIN, PARIS, OHIO] {
        world.behave(member, idle);
    }
    world.policy(json!({"capacity": {"requestsPerEndpoint": EACH}})).await;
    world.compiled(|global| global["spec"]["traffic"]["requestsPerEndpoint"] == EACH).await;
    let gateways = [world.gateway(|_| {}).await, world.gateway(|_| {}).await];

    // Half of what the nearest can take: all of it goes there.
    let calm = Crowd::gather(&gateways, 4, Duration::from_millis(200));
    calm.settled(40, BERLIN).await;

    // More than it can take, half of it at each gateway, and less than it and the next can take.
    let rush = Crowd::gather(&gateways, 8, Duration::from_millis(200));
    let window = Duration::from_secs(3);
    eventually("the nearest gets what it can take, and the next all the rest", async || {
        rush.told();
        let near = rate(&world, BERLIN, window).await;
        let answers = rush.told();
        none_failed(&answers);
        let clusters = count(answers.iter().map(Answer::cluster));
        let fits = (CAPACITY * 0.75..=CAPACITY * 1.1).contains(&near)
            && clusters.contains_key(PARIS)
            && !clusters.contains_key(OHIO);
        (fits, format!("{near:.1} of {CAPACITY} requests/s; {clusters:?}"))
    })
    .await;

    // More pods, more room, without anybody saying so.
    world.scale(PODS * 3).await;
    world.compiled(|global| targets(global).all(|it| it["readyEndpoints"] == PODS * 3)).await;
    rush.settled(60, BERLIN).await;
    none_failed(&rush.disperse().await);
    none_failed(&calm.disperse().await);
    world.stop().await;
}
