//! HorizontalPodAutoscalers: as many pods as their load asks for.
//!
//! The load is what the pods say it is: that of the requests they get, or the one they were told to
//! report.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fields::{condition, list, matches, news, number, text, time};
use super::replicas::is_ready;
use super::world::{Change, Key, World};

/// How long a lower number must have been enough before pods go.
const CALM: Duration = Duration::from_secs(30);
/// Loads this close to the target are good enough.
const TOLERANCE: f64 = 0.1;

/// What autoscalers remember.
#[derive(Default)]
pub(super) struct Autoscalers {
    /// The sizes that were right lately.
    lately: HashMap<Key, Vec<(Instant, i64)>>,
}

impl Autoscalers {
    /// Sizes what autoscalers keep, by the load of pods, in percent.
    pub(super) fn reconcile(
        &mut self,
        world: &World,
        load: impl Fn(&Value) -> Option<f64>,
        moment: Instant,
        now: Timestamp,
        changes: &mut Vec<Change>,
    ) {
        self.lately.retain(|key, _| world.get("HorizontalPodAutoscaler", &key.0, &key.1).is_some());
        for (key, scaler) in world.all("HorizontalPodAutoscaler") {
            let kind = match text(scaler, "/spec/scaleTargetRef/kind") {
                "Deployment" => "Deployment",
                "ReplicaSet" => "ReplicaSet",
                "StatefulSet" => "StatefulSet",
                _ => continue,
            };
            let name = text(scaler, "/spec/scaleTargetRef/name");
            let Some(target) = world.get(kind, &key.0, name) else { continue };
            let pods = world.within("Pod", &key.0).filter(|it| is_ready(it));
            let pods =
                pods.filter(|it| matches(&target["spec"]["selector"], &it["metadata"]["labels"]));
            let loads: Vec<f64> = pods.filter_map(&load).collect();
            let size = number(target, "/spec/replicas").unwrap_or(1);
            let average = average(&loads);
            let wanted = self.wanted(key, scaler, size, average, moment);
            if wanted != size {
                let target = (key.0.clone(), name.to_owned());
                changes.push(Change::Patch(kind, target, json!({"spec": {"replicas": wanted}})));
            }
            changes.extend(status(key, scaler, size, wanted, average, now));
        }
    }

    fn wanted(
        &mut self,
        key: &Key,
        scaler: &Value,
        size: i64,
        average: Option<f64>,
        moment: Instant,
    ) -> i64 {
        let least = number(scaler, "/spec/minReplicas").unwrap_or(1);
        let most = number(scaler, "/spec/maxReplicas").unwrap_or(least).max(least);
        let lately = self.lately.entry(key.clone()).or_default();
        let right = average.map_or(size, |average| right_size(size, average, target(scaler)));
        lately.retain(|(when, _)| moment - *when < CALM);
        lately.push((moment, right));
        let highest = lately.iter().map(|(_, size)| *size).max().unwrap_or(right);
        // Up at once; down only to what has been enough for a while.
        if right > size { right } else { highest.min(size) }.clamp(least, most)
    }
}

fn average(loads: &[f64]) -> Option<f64> {
    (!loads.is_empty()).then(|| loads.iter().sum::<f64>() / loads.len() as f64)
}

/// The load in percent that an autoscaler aims at.
fn target(scaler: &Value) -> f64 {
    let metrics = list(scaler, "/spec/metrics").iter();
    let aims = metrics.filter_map(|it| number(it, "/resource/target/averageUtilization"));
    aims.min().unwrap_or(80) as f64
}

fn right_size(size: i64, average: f64, target: f64) -> i64 {
    let ratio = average / target.max(1.0);
    if (ratio - 1.0).abs() <= TOLERANCE {
        return size;
    }
    (size as f64 * ratio).ceil().clamp(0.0, 10_000.0) as i64
}

fn status(
    key: &Key,
    scaler: &Value,
    size: i64,
    wanted: i64,
    average: Option<f64>,
    now: Timestamp,
) -> Option<Change> {
    let able = average.is_some();
    let (reason, message) = match able {
        true => ("ValidMetricFound", "the HPA was able to calculate a replica count"),
        false => ("FailedGetResourceMetric", "no pod that is ready has reported a load"),
    };
    let mut status = json!({
        "currentReplicas": size, "desiredReplicas": wanted,
        "conditions": [
            condition("AbleToScale", true, "ReadyForNewScale", "recommended size matches current size"),
            condition("ScalingActive", able, reason, message),
        ],
    });
    if let Some(average) = average {
        status["currentMetrics"] = json!([{"type": "Resource", "resource": {"name": "cpu",
            "current": {"averageUtilization": average.round() as i64,
                "averageValue": format!("{}m", (average * 10.0).round() as i64)}}}]);
    }
    if wanted != size {
        status["lastScaleTime"] = json!(time(now));
    }
    Some(Change::Status("HorizontalPodAutoscaler", key.clone(), news(scaler, status, now)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_come_at_once_and_go_when_it_has_been_calm() {
        let mut scalers = Autoscalers::default();
        let key = ("default".to_owned(), "web".to_owned());
        let scaler = json!({"spec": {"minReplicas": 2, "maxReplicas": 6, "metrics": [
            {"resource": {"target": {"averageUtilization": 50}}}]}});
        let start = Instant::now();
        for (second, size, load, wanted) in [
            (0, 2, Some(50.0), 2),
            (1, 2, Some(54.0), 2),
            (2, 2, Some(100.0), 4),
            (3, 4, Some(400.0), 6),
            (4, 6, Some(0.0), 6),
            (5, 6, None, 6),
            (40, 6, Some(0.0), 2),
        ] {
            let moment = start + Duration::from_secs(second);
            let found = scalers.wanted(&key, &scaler, size, load, moment);
            assert_eq!(found, wanted, "after {second} s");
        }
    }
}
