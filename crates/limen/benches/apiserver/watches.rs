//! Many watches of the same objects: how long after a change each of them knows of it.
//!
//! Changes come at a fixed pace, whatever the server makes of them, and the time of each counts from
//! when it was due: a server that falls behind is not asked less.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Scale;
use crate::client::Client;
use crate::report::{median, ratio, row, table};
use crate::requests::{config_map, make_namespace, name};
use crate::subject::Subject;

/// The time between two changes.
const PACE: Duration = Duration::from_millis(10);
const WRITERS: usize = 8;

#[derive(Default)]
struct Samples {
    p50: Vec<f64>,
    p99: Vec<f64>,
    cpu: Vec<f64>,
}

pub(crate) async fn run(scale: Scale, subjects: &[Subject; 2]) -> Result<()> {
    let mut samples: [Samples; 2] = Default::default();
    for round in 0..scale.rounds {
        for (subject, samples) in subjects.iter().zip(&mut samples) {
            samples.measure(scale, subject, round).await?;
        }
    }
    table(
        &format!(
            "{} watches while {} objects change, one every {} ms",
            scale.watchers,
            scale.changes,
            PACE.as_millis()
        ),
        &["", "limen", "kube-apiserver", "limen / kube-apiserver"],
    );
    let [limen, real] = samples;
    let show = |label: &str, unit: &str, mut limen: Vec<f64>, mut real: Vec<f64>| {
        let (limen, real) = (median(&mut limen), median(&mut real));
        row(&[
            label.to_owned(),
            format!("{limen:.1} {unit}"),
            format!("{real:.1} {unit}"),
            ratio(limen / real),
        ]);
    };
    show("p50 from write to delivery", "ms", limen.p50, real.p50);
    show("p99 from write to delivery", "ms", limen.p99, real.p99);
    show("CPU for each delivery, with etcd", "µs", limen.cpu, real.cpu);
    Ok(())
}

impl Samples {
    async fn measure(&mut self, scale: Scale, subject: &Subject, round: usize) -> Result<()> {
        let namespace = format!("watches-{round}");
        make_namespace(subject, &namespace).await?;
        let path: Arc<str> = format!("/api/v1/namespaces/{namespace}/configmaps").into();
        let mut client = Client::connect(&subject.target).await?;
        for n in 0..scale.changes {
            client.send(Method::POST, &path, config_map(&name(n), n)).await?;
        }
        let listed: serde_json::Value =
            serde_json::from_slice(&client.get(&format!("{path}?limit=1")).await?)?;
        let version =
            listed["metadata"]["resourceVersion"].as_str().context("a list is of a time")?;
        let watch_path = format!("{path}?watch=true&resourceVersion={version}");
        let mut watchers = JoinSet::new();
        let mut opened = Vec::new();
        for _ in 0..scale.watchers {
            let mut client = Client::connect(&subject.target).await?;
            opened.push(client.open(Method::GET, &watch_path, Bytes::new()).await?);
        }

        let cpu = subject.cpu_seconds()?;
        let start = Instant::now() + PACE;
        for watch in opened {
            watchers.spawn(follow(watch, start, scale.changes));
        }
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let mut client = Client::connect(&subject.target).await?;
            let path = path.clone();
            writers.spawn(async move {
                for n in (writer..scale.changes).step_by(WRITERS) {
                    let (path, body) = (format!("{path}/{}", name(n)), config_map(&name(n), n));
                    // A different number, so that it is a change.
                    let body = String::from_utf8(body.to_vec())?
                        .replace(&number_text(n), &number_text(CHANGED + n));
                    tokio::time::sleep_until(start + PACE * n as u32).await;
                    client.send(Method::PUT, &path, body.into()).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(finished) = writers.join_next().await {
            finished??;
        }
        let mut latencies = Vec::new();
        while let Some(finished) = watchers.join_next().await {
            latencies.extend(finished??);
        }
        latencies.sort_unstable();
        let at =
            |part: f64| latencies[(latencies.len() as f64 * part) as usize].as_secs_f64() * 1e3;
        self.p50.push(at(0.50));
        self.p99.push(at(0.99));
        self.cpu.push((subject.cpu_seconds()? - cpu) * 1e6 / latencies.len() as f64);
        Ok(())
    }
}

/// What is added to the number of an object when it is changed.
const CHANGED: usize = 1_000_000;
const NUMBER: &[u8] = b"\"number\":\"";

fn number_text(number: usize) -> String {
    format!("\"number\":\"{number:08}\"")
}

/// Reads a watch until it has shown `changes` changes, and returns how old each was.
async fn follow(
    mut watch: hyper::body::Incoming,
    start: Instant,
    changes: usize,
) -> Result<Vec<Duration>> {
    let mut latencies = Vec::with_capacity(changes);
    let mut line = Vec::new();
    while latencies.len() < changes {
        let frame = watch.frame().await.context("a watch goes on")??;
        let arrived = Instant::now();
        let Ok(data) = frame.into_data() else { continue };
        let mut rest = &data[..];
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let n = number_in(&line)?;
            ensure!(n >= CHANGED, "a watch shows what was before it");
            latencies.push(arrived.saturating_duration_since(start + PACE * (n - CHANGED) as u32));
            line.clear();
        }
        line.extend_from_slice(rest);
    }
    Ok(latencies)
}

fn number_in(event: &[u8]) -> Result<usize> {
    let at = event.windows(NUMBER.len()).position(|window| window == NUMBER);
    let digits = at.map(|at| &event[at + NUMBER.len()..at + NUMBER.len() + 8]);
    let digits = digits.with_context(|| String::from_utf8_lossy(event).into_owned())?;
    Ok(std::str::from_utf8(digits)?.parse()?)
}
