//! How a story found the federation, and how it leaves it.

use anyhow::{Context, Result, bail};
use kube::api::{DeleteParams, Preconditions};
use limen_playground::Faults;
use serde_json::{Value, json};

use super::stage::{MADE, Stage, objects};
use crate::up::SAMPLE;

/// What stories change, as it was before.
#[derive(Default)]
pub(super) struct Before {
    clusters: Vec<ClusterBefore>,
    /// The part of the sample's Deployment that stories change.
    sample: Value,
}

struct ClusterBefore {
    name: String,
    faults: Faults,
    /// The part of its Cluster that stories change.
    drain: Value,
    /// The image of the sample there, if it could be seen.
    image: Option<String>,
}

impl Stage {
    /// Looks how everything is. `described` is what the admin says of the clusters.
    pub(super) async fn look(&self, described: &Value) -> Result<Before> {
        let mut clusters = Vec::new();
        for name in self.clusters() {
            let spec = self.get("federation", "Cluster", name).await?["spec"].clone();
            let drain = json!({"spec": {
                "drain": spec["drain"], "drainSchedule": spec["drainSchedule"]}});
            let own = described.as_array().into_iter().flatten().find(|one| one["name"] == **name);
            let faults = own.map(|own| serde_json::from_value(own["faults"].clone()));
            let faults = faults.transpose().context("cannot read what is wrong with a cluster")?;
            let faults: Faults = faults.unwrap_or_default();
            // One that something is wrong with may not answer for a long time.
            let leaf = match faults == Faults::default() {
                true => self.get(name, "Deployment", SAMPLE).await?,
                false => Value::Null,
            };
            let image = leaf["spec"]["template"]["spec"]["containers"][0]["image"].as_str();
            let (name, image) = (name.clone(), image.map(str::to_owned));
            clusters.push(ClusterBefore { name, faults, drain, image });
        }
        let spec = self.get("federation", "Deployment", SAMPLE).await?["spec"].clone();
        let containers = &spec["template"]["spec"]["containers"];
        let sample = json!({"spec": {"replicas": spec["replicas"],
            "template": {"spec": {"containers": containers}}}});
        Ok(Before { clusters, sample })
    }

    /// Leaves the federation as it was found, whatever has happened. What cannot be as it was is no
    /// reason to leave the rest.
    pub(crate) async fn tidy(&self) -> Result<()> {
        self.screen().clear();
        let mut failed = Vec::new();
        let mut note = |done: Result<()>| {
            if let Err(error) = done {
                failed.push(format!("{error:#}"));
            }
        };
        for cluster in &self.before.clusters {
            note(self.restore_faults(cluster).await);
            note(self.patch("Cluster", &cluster.name, cluster.drain.clone()).await);
        }
        for kind in ["TrafficPolicy", "Deployment", "PlacementPolicy"] {
            note(self.remove_made(kind).await);
        }
        note(self.patch("Deployment", SAMPLE, self.before.sample.clone()).await);
        note(self.until_as_before().await);
        match failed.is_empty() {
            true => Ok(()),
            false => bail!("the federation is not as it was before: {}", failed.join("; ")),
        }
    }

    async fn restore_faults(&self, cluster: &ClusterBefore) -> Result<()> {
        let ClusterBefore { name, faults, .. } = cluster;
        self.trouble(name, "restore").await?;
        if faults.slow_milliseconds > 0 {
            let body = json!({"milliseconds": faults.slow_milliseconds});
            self.trouble_with(name, "slow", Some(&body)).await?;
        }
        for (had, what) in [
            (faults.killed, "kill"),
            (faults.paused, "pause"),
            (faults.cut_off_from_hub, "partition-hub"),
            (faults.cut_off_from_clients, "partition-clients"),
        ] {
            if had {
                self.trouble(name, what).await?;
            }
        }
        Ok(())
    }

    /// Removes what a story has made of a kind.
    async fn remove_made(&self, kind: &str) -> Result<()> {
        let api = objects(self.hub.clone(), kind);
        let context = || format!("cannot remove the {kind} {MADE} from the hub");
        if let Some(made) = api.get_opt(MADE).await.with_context(context)? {
            let preconditions = Preconditions { uid: made.metadata.uid, resource_version: None };
            let how = DeleteParams::default().preconditions(preconditions);
            api.delete(MADE, &how).await.with_context(context)?;
        }
        Ok(())
    }

    async fn until_as_before(&self) -> Result<()> {
        self.until("everything is as it was", async || {
            for cluster in &self.before.clusters {
                let Some(image) = &cluster.image else { continue };
                let (done, found) = self.runs(&cluster.name, image).await?;
                if !done {
                    return Ok((false, found));
                }
            }
            Ok((true, String::new()))
        })
        .await
        .map(drop)
    }
}
