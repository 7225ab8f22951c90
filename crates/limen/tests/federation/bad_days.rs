//! Processes that are killed, that hang, and that have no room left.

use std::time::Duration;

use kube::api::PostParams;

use crate::processes::{ApiServer, config_map, eventually, eventually_holds};

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}-{n}")).collect()
}

async fn create(hub: &ApiServer, names: &[String], value: &str) {
    let maps = hub.config_maps().await;
    for name in names {
        maps.create(&PostParams::default(), &config_map(name, value)).await.unwrap();
    }
}

/// Waits until `limen clusters` says so of the first member.
async fn eventually_is(hub: &ApiServer, verdict: &str) {
    eventually("the verdict on a", async || {
        let said = hub.limen(&["clusters"]).out();
        let line = said.lines().find(|line| line.starts_with("a ")).unwrap_or_default();
        (line.split_whitespace().nth(1) == Some(verdict), said)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_killed_delays_no_other_and_catches_up() {
    let (hub, mut a, b) = (ApiServer::hub(), ApiServer::member(), ApiServer::member());
    hub.join(&[&a, &b]).await;
    let (here, there) = (a.config_maps().await, b.config_maps().await);
    let before = names("before", 3);
    create(&hub, &before, "x").await;
    eventually_holds(&here, &before).await;

    a.kill();
    let after = names("after", 3);
    create(&hub, &after, "x").await;
    eventually_holds(&there, &after).await;
    eventually_is(&hub, "Unhealthy").await;
    a.start_again();
    eventually_holds(&here, &after).await;
    eventually_holds(&here, &before).await;
    eventually_is(&hub, "Healthy").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_hangs_delays_no_other_and_catches_up() {
    let (hub, a, b) = (ApiServer::hub(), ApiServer::member(), ApiServer::member());
    hub.join(&[&a, &b]).await;
    let (here, there) = (a.config_maps().await, b.config_maps().await);
    let before = names("before", 3);
    create(&hub, &before, "x").await;
    eventually_holds(&here, &before).await;

    a.signal("-STOP");
    let after = names("after", 3);
    create(&hub, &after, "x").await;
    eventually_holds(&there, &after).await;
    eventually_is(&hub, "Unhealthy").await;
    // What is deleted meanwhile is gone when it goes on.
    let maps = hub.config_maps().await;
    maps.delete("before-0", &Default::default()).await.unwrap();
    a.signal("-CONT");
    eventually_holds(&here, &after).await;
    eventually("the leaf is gone", async || {
        let leaf = here.get_opt("before-0").await.unwrap();
        (leaf.is_none(), format!("{leaf:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_that_is_killed_in_mid_rollout_goes_on_where_it_was() {
    let (mut hub, a, b) = (ApiServer::hub(), ApiServer::member(), ApiServer::member());
    hub.join(&[&a, &b]).await;
    let (here, there) = (a.config_maps().await, b.config_maps().await);
    let all = names("root", 60);
    create(&hub, &all, "x").await;
    // Some leaves are there, and perhaps some are not.
    eventually_holds(&here, &all[..1]).await;
    hub.kill();
    let version = here.get("root-0").await.unwrap().metadata.resource_version;
    hub.start_again();
    for maps in [&here, &there] {
        eventually_holds(maps, &all).await;
    }
    let now = here.get("root-0").await.unwrap().metadata.resource_version;
    assert_eq!(now, version, "what was done is not done again");
}

/// A limit on the size of files stands for a full disk: writes fail in the same place, and only
/// for this process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_without_room_says_so_and_catches_up_when_it_has_some() {
    let (hub, mut a, b) = (ApiServer::hub(), ApiServer::member(), ApiServer::member());
    hub.join(&[&a, &b]).await;
    let (here, there) = (a.config_maps().await, b.config_maps().await);
    let small = names("small", 1);
    create(&hub, &small, "x").await;
    eventually_holds(&here, &small).await;

    a.stop();
    a.start_with_little_room(a.store_size());
    let large = names("large", 20);
    create(&hub, &large, &"x".repeat(500 << 10)).await;
    eventually_holds(&there, &large).await;
    eventually("somebody is told", async || {
        let mut said = String::new();
        for name in &large {
            said = hub.limen(&["status", &format!("configmap/{name}")]).out();
            let line = said.lines().find(|line| line.contains("─ a ")).unwrap_or_default();
            if line.contains("Failed") {
                return (true, said);
            }
        }
        (false, said)
    })
    .await;
    eventually("the other one is fine", async || {
        let said = hub.limen(&["status", &format!("configmap/{}", large[19])]).all();
        let line = said.lines().find(|line| line.contains("─ b ")).unwrap_or_default();
        (line.contains("Synced"), said)
    })
    .await;

    a.kill();
    a.start_again();
    eventually_holds(&here, &large).await;
    eventually_holds(&here, &small).await;
    tokio::time::timeout(Duration::from_secs(120), eventually_is(&hub, "Healthy")).await.unwrap();
}
