//! The stories.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::crowd::Told;
use super::stage::{MADE, Stage};
use crate::up::SAMPLE;

/// Clients of an ordinary story, and how often each asks in a second.
const CLIENTS: usize = 8;
const RATE: f64 = 6.0;
/// Requests in a second that the sample's pods say are all they can take.
const POD_TAKES: f64 = limen_playground::POD_TAKES;

/// All answers are of one version, and good.
fn only(version: &str) -> impl Fn(&Told) -> bool {
    move |told| told.failed == 0 && told.versions.get(version).copied() == Some(told.answered())
}

/// The region that is nearest dies under load.
pub(super) async fn failover(stage: &Stage) -> Result<()> {
    let nearest = stage.nearest();
    let crowd = stage.crowd(CLIENTS, RATE);
    stage.say(&format!("{CLIENTS} clients ask the gateway, near {nearest}"));
    stage.settled(&crowd, "the nearest cluster answers", |told| told.share(nearest) == 100).await?;
    stage.say(&format!("{nearest} loses power"));
    crowd.told();
    stage.trouble(nearest, "kill").await?;
    tokio::time::sleep(stage.moment()).await;
    let told = crowd.told();
    stage.say(&told.summary());
    stage.check(told.failed == 0, "no client noticed", &told.summary())?;
    let told = crowd.listen(stage.moment()).await;
    stage.say(&told.summary());
    let elsewhere = told.answered() > 0 && told.share(nearest) == 0 && told.failed == 0;
    stage.check(elsewhere, "other clusters answer everybody", &told.summary())?;
    stage.say(&format!("{nearest} comes back"));
    crowd.told();
    stage.trouble(nearest, "restore").await?;
    stage
        .settled(&crowd, "clients are back where they were", |told| told.share(nearest) == 100)
        .await?;
    crowd.disperse().await;
    Ok(())
}

/// A cluster is emptied of traffic on purpose.
pub(super) async fn drain(stage: &Stage) -> Result<()> {
    let nearest = stage.nearest();
    let crowd = stage.crowd(CLIENTS, RATE);
    stage.settled(&crowd, "the nearest cluster answers", |told| told.share(nearest) == 100).await?;
    stage.say(&format!("{nearest} is to be drained: kubectl patch cluster {nearest} --type=merge -p '{{\"spec\":{{\"drain\":true}}}}'"));
    stage.patch("Cluster", nearest, json!({"spec": {"drain": true}})).await?;
    let mut failed = 0;
    stage
        .until("nobody is sent there any more", async || {
            let told = crowd.listen(Duration::from_millis(500)).await;
            failed += told.failed;
            Ok((told.answered() > 0 && told.share(nearest) == 0, told.summary()))
        })
        .await?;
    stage.check(failed == 0, "no client noticed", &format!("{failed} that failed"))?;
    stage.say(&format!("{nearest} may have clients again"));
    stage.patch("Cluster", nearest, json!({"spec": {"drain": false}})).await?;
    stage
        .settled(&crowd, "clients are back where they were", |told| told.share(nearest) == 100)
        .await?;
    crowd.disperse().await;
    Ok(())
}

/// A cluster dies, misses a change, and comes back.
pub(super) async fn rejoin(stage: &Stage) -> Result<()> {
    let nearest = stage.nearest();
    let crowd = stage.crowd(CLIENTS, RATE);
    stage.settled(&crowd, "the nearest cluster answers", |told| told.share(nearest) == 100).await?;
    stage.say(&format!("{nearest} loses power"));
    stage.trouble(nearest, "kill").await?;
    stage.settled(&crowd, "other clusters answer", |told| told.share(nearest) == 0).await?;
    stage.say("version 2 is rolled out in the meantime");
    stage.image("zone-printer:v2").await?;
    stage.settled(&crowd, "the others have version 2", only("v2")).await?;
    stage.say(&format!("{nearest} comes back, with version 1 in its store"));
    stage.trouble(nearest, "restore").await?;
    let caught_up = |told: &Told| told.share(nearest) == 100 && only("v2")(told);
    stage.settled(&crowd, "it has version 2 and its clients", caught_up).await?;
    crowd.disperse().await;
    Ok(())
}

/// The hub loses every cluster, and traffic goes on.
pub(super) async fn split_brain(stage: &Stage) -> Result<()> {
    let nearest = stage.nearest();
    let crowd = stage.crowd(CLIENTS, RATE);
    stage.settled(&crowd, "the nearest cluster answers", |told| told.share(nearest) == 100).await?;
    stage.say("the hub loses every cluster");
    crowd.told();
    for cluster in stage.clusters() {
        stage.trouble(cluster, "partition-hub").await?;
    }
    stage
        .until("the hub knows it", async || {
            let mut found = Vec::new();
            for cluster in stage.clusters() {
                let object = stage.get("federation", "Cluster", cluster).await?;
                found.push(object["status"]["verdicts"]["api"]["verdict"].to_string());
            }
            Ok((found.iter().all(|it| it == "\"Unhealthy\""), found.join(", ")))
        })
        .await?;
    stage.say("somebody asks the hub for three pods in each cluster");
    stage.patch("Deployment", SAMPLE, json!({"spec": {"replicas": 3}})).await?;
    tokio::time::sleep(2 * stage.moment()).await;
    let told = crowd.told();
    stage.say(&told.summary());
    stage.check(told.failed == 0, "clients are served without the hub", &told.summary())?;
    stage.settled(&crowd, "the nearest cluster answers", |told| told.share(nearest) == 100).await?;
    let leaf = stage.get(nearest, "Deployment", SAMPLE).await?;
    let replicas = leaf["spec"]["replicas"].to_string();
    stage.check(replicas == "2", "the clusters know nothing of it", &replicas)?;
    stage.say("the cable is mended");
    for cluster in stage.clusters() {
        stage.trouble(cluster, "restore").await?;
    }
    stage
        .until("every cluster has three pods", async || {
            let mut found = Vec::new();
            for cluster in stage.clusters() {
                let object = stage.get(cluster, "Deployment", SAMPLE).await?;
                found.push(object["status"]["readyReplicas"].to_string());
            }
            Ok((found.iter().all(|it| it == "3"), found.join(", ")))
        })
        .await?;
    crowd.disperse().await;
    Ok(())
}

/// A region gets more than it can take.
pub(super) async fn overflow(stage: &Stage) -> Result<()> {
    let (nearest, next) = (stage.nearest(), stage.clusters()[1].as_str());
    let mut crowd = stage.crowd(CLIENTS, RATE);
    stage.settled(&crowd, "the nearest cluster answers", |told| told.share(nearest) == 100).await?;
    let pods = crate::up::PODS;
    stage.say(&format!(
        "there are {pods} pods; each can take {POD_TAKES} requests in a second, and says with every answer how busy it is"
    ));
    stage.say("four times as many requests come, 200 in a second");
    let rush = crowd.gather(19, 8.0);
    let half = |told: &Told| told.failed == 0 && (30..=70).contains(&told.share(nearest));
    stage
        .settled(&crowd, "what is too much goes to the next nearest", |told| {
            half(told) && told.share(next) >= 25
        })
        .await?;
    let told = crowd.listen(2 * stage.moment()).await;
    stage.say(&told.summary());
    stage.check(half(&told), "the nearest has as much as it can take", &told.summary())?;
    stage.say("the rush is over");
    rush.iter().for_each(tokio::task::AbortHandle::abort);
    stage
        .settled(&crowd, "clients are back where they were", |told| told.share(nearest) == 100)
        .await?;
    crowd.disperse().await;
    Ok(())
}

/// A new version is broken, and is rolled back.
pub(super) async fn canary(stage: &Stage) -> Result<()> {
    let Some((trial, others)) = stage.clusters().split_last() else { return Ok(()) };
    let crowd = stage.crowd(CLIENTS, RATE);
    stage.settled(&crowd, "everybody gets version 1", only("v1")).await?;
    stage.say(&format!("{trial} gets version 2, which is broken"));
    let image = json!({"path": "/spec/template/spec/containers/0/image",
        "value": "zone-printer:v2-broken"});
    let placement = json!({
        "apiVersion": "limen.dev/v1alpha1", "kind": "PlacementPolicy",
        "metadata": {"name": MADE, "namespace": "default"},
        "spec": {
            "roots": [{"kind": "Deployment", "name": SAMPLE}],
            "placement": {"clusterSelector": {}},
            "overrides": [{"clusterName": trial, "clusterOverrides": [image]}],
        },
    });
    stage.apply("PlacementPolicy", placement).await?;
    stage
        .until("it runs there", async || stage.runs(trial, "zone-printer:v2-broken").await)
        .await?;
    stage.say(
        "it is to get 20 % of all requests, then 50 %, as long as 95 % of its answers are good",
    );
    let policy = json!({
        "apiVersion": "limen.dev/v1alpha1", "kind": "TrafficPolicy",
        "metadata": {"name": MADE, "namespace": "default"},
        "spec": {
            "targetRef": {"kind": "Ingress", "name": SAMPLE},
            "groups": [{"name": "v1", "clusters": others}, {"name": "v2", "clusters": [trial]}],
            "canary": {"group": "v2", "steps": [20, 50], "stepSeconds": 5,
                "minSuccessPercent": 95.0, "minRequests": 20},
        },
    });
    crowd.told();
    stage.apply("TrafficPolicy", policy).await?;
    stage
        .until("the hub rolls it back", async || {
            let policy = stage.get("federation", "TrafficPolicy", MADE).await?;
            let canary = &policy["status"]["canary"];
            Ok((canary["phase"] == "RolledBack", canary.to_string()))
        })
        .await?;
    let policy = stage.get("federation", "TrafficPolicy", MADE).await?;
    stage.say(policy["status"]["canary"]["message"].as_str().unwrap_or_default());
    let told = crowd.told();
    stage.say(&told.summary());
    let tried = told.failed > 0 && told.failed < told.answered() / 4;
    stage.check(tried, "a few clients met it, most did not", &told.summary())?;
    stage.settled(&crowd, "everybody gets version 1", only("v1")).await?;
    let told = crowd.listen(stage.moment()).await;
    stage.check(told.failed == 0, "and it stays so", &told.summary())?;
    crowd.disperse().await;
    Ok(())
}
