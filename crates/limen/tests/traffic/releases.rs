//! Versions side by side in two clusters: weights that are exact, and a switch there and back.

use serde_json::{Value, json};

use crate::clients::{Answer, Connection, count, none_failed};
use crate::world::{BERLIN, OHIO, PARIS, World, all_are_ready, eventually};

/// Version 1 is in one cluster and version 2 in another.
async fn two_versions() -> World {
    let world = World::start().await;
    world.run_version(PARIS, "zone-printer:v2").await;
    let mut direct = Connection::new(world.member(PARIS).ingress_address());
    eventually("the second cluster runs version 2", async || {
        let answers = direct.shop_times(4).await;
        let versions = count(answers.iter().map(Answer::version));
        (versions == [("v2", 4)].into(), format!("{versions:?}"))
    })
    .await;
    world.compiled(all_are_ready).await;
    world
}

fn groups(more: &Value) -> Value {
    let mut spec = json!({"groups": [{"name": "v1", "clusters": [BERLIN, OHIO]},
        {"name": "v2", "clusters": [PARIS]}]});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    spec
}

/// The second story that the project grew from.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_and_more_of_exactly_a_hundred_requests_get_the_new_version() {
    let mut world = two_versions().await;
    world.policy(groups(&json!({"weights": {"groups": {"v1": 90, "v2": 10}}}))).await;
    let gateway = world.gateway(|_| {}).await;
    let mut client = Connection::new(gateway);
    for (v1, v2) in [(90, 10), (50, 50), (0, 100)] {
        world.policy(groups(&json!({"weights": {"groups": {"v1": v1, "v2": v2}}}))).await;
        let expected: Vec<(&str, usize)> =
            [("v1", v1), ("v2", v2)].into_iter().filter(|(_, count)| *count > 0).collect();
        eventually("a hundred requests are shared as asked for", async || {
            let answers = client.shop_times(100).await;
            none_failed(&answers);
            let versions = count(answers.iter().map(Answer::version));
            (
                versions.iter().map(|(name, count)| (*name, *count)).eq(expected.iter().copied()),
                format!("{versions:?}"),
            )
        })
        .await;
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blue_and_green_are_switched_and_switched_back_at_once() {
    let mut world = two_versions().await;
    world.policy(groups(&json!({"activeGroup": "v1"}))).await;
    world
        .compiled(|global| global["spec"]["traffic"]["split"]["groups"] == json!({"v1": 100}))
        .await;
    let gateway = world.gateway(|_| {}).await;
    let mut client = Connection::new(gateway);
    let answers = client.shop_times(100).await;
    assert_eq!(count(answers.iter().map(Answer::version)), [("v1", 100)].into());

    for (before, after) in [("v1", "v2"), ("v2", "v1"), ("v1", "v2")] {
        world.policy(groups(&json!({"activeGroup": after}))).await;
        // One answer after the other, until the new version gives them.
        let mut answers = Vec::new();
        eventually("it is switched", async || {
            answers.push(client.shop().await);
            let last = answers[answers.len() - 1].version();
            (last == after, last.to_owned())
        })
        .await;
        answers.extend(client.shop_times(100).await);
        none_failed(&answers);
        let versions: Vec<&str> = answers.iter().map(Answer::version).collect();
        let switched = versions.iter().position(|version| *version == after).unwrap();
        // Nobody gets the old version once somebody got the new one.
        assert!(versions[..switched].iter().all(|version| *version == before), "{versions:?}");
        assert!(versions[switched..].iter().all(|version| *version == after), "{versions:?}");
    }
    world.stop().await;
}
