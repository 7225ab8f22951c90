//! Creating, getting and listing ConfigMaps of 1 KB.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::Method;
use tokio::task::JoinSet;

use crate::Scale;
use crate::client::Client;
use crate::report::{median, ratio, row, table};
use crate::subject::Subject;

/// Lists are big: a few clients at a time keep a server busy.
const LISTING_CLIENTS: usize = 4;

#[derive(Default)]
struct Samples {
    rate: Vec<f64>,
    cpu: Vec<f64>,
}

pub(crate) async fn run(scale: Scale, subjects: &[Subject; 2]) -> Result<()> {
    let labels = [
        format!("create, {} clients", scale.clients),
        format!("get, {} clients", scale.clients),
        format!("list of {}, {LISTING_CLIENTS} clients", scale.objects),
    ];
    let mut samples: [[Samples; 2]; 3] = Default::default();
    for round in 0..scale.rounds {
        for (n, subject) in subjects.iter().enumerate() {
            let namespace = format!("round-{round}");
            make_namespace(subject, &namespace).await?;
            let (clients, objects) = (scale.clients, scale.objects);
            let folder: Arc<str> = format!("/api/v1/namespaces/{namespace}/configmaps").into();

            let path = folder.clone();
            let create = move |n| (Method::POST, path.to_string(), config_map(&name(n), n));
            samples[0][n].measure(subject, clients, objects, create).await?;
            let path = folder.clone();
            let get = move |n| (Method::GET, format!("{path}/{}", name(n)), Bytes::new());
            samples[1][n].measure(subject, clients, objects, get).await?;
            check_list(subject, &folder, objects).await?;
            let list = move |_| (Method::GET, folder.to_string(), Bytes::new());
            samples[2][n].measure(subject, LISTING_CLIENTS, scale.lists, list).await?;
        }
    }
    table(
        &format!("{} ConfigMaps of 1 KB", scale.objects),
        &[
            "",
            "limen /s",
            "kube-apiserver /s",
            "ratio",
            "limen CPU µs each",
            "kube-apiserver and etcd CPU µs each",
            "ratio",
        ],
    );
    for (label, [mut limen, mut real]) in labels.into_iter().zip(samples) {
        let (limen_rate, real_rate) = (median(&mut limen.rate), median(&mut real.rate));
        let (limen_cpu, real_cpu) = (median(&mut limen.cpu), median(&mut real.cpu));
        row(&[
            label,
            format!("{limen_rate:.0}"),
            format!("{real_rate:.0}"),
            ratio(limen_rate / real_rate),
            format!("{limen_cpu:.0}"),
            format!("{real_cpu:.0}"),
            ratio(limen_cpu / real_cpu),
        ]);
    }
    Ok(())
}

impl Samples {
    /// Sends `count` requests through `clients` connections that are open already.
    async fn measure(
        &mut self,
        subject: &Subject,
        clients: usize,
        count: usize,
        request: impl Fn(usize) -> (Method, String, Bytes) + Clone + Send + 'static,
    ) -> Result<()> {
        let mut connections = Vec::new();
        for _ in 0..clients {
            connections.push(Client::connect(&subject.target).await?);
        }
        let requests: Arc<Vec<_>> = Arc::new((0..count).map(request).collect());
        let next = Arc::new(AtomicUsize::new(0));
        let cpu = subject.cpu_seconds()?;
        let start = Instant::now();
        let mut tasks = JoinSet::new();
        for mut client in connections {
            let (next, requests) = (next.clone(), requests.clone());
            tasks.spawn(async move {
                while let Some((method, path, body)) =
                    requests.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    client.send(method.clone(), path, body.clone()).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(finished) = tasks.join_next().await {
            finished??;
        }
        self.rate.push(count as f64 / start.elapsed().as_secs_f64());
        self.cpu.push((subject.cpu_seconds()? - cpu) * 1e6 / count as f64);
        Ok(())
    }
}

pub(crate) async fn make_namespace(subject: &Subject, name: &str) -> Result<()> {
    let mut client = Client::connect(&subject.target).await?;
    let body = serde_json::json!({"metadata": {"name": name}}).to_string().into();
    client.send(Method::POST, "/api/v1/namespaces", body).await?;
    Ok(())
}

/// A server that lists less is not faster.
async fn check_list(subject: &Subject, path: &str, objects: usize) -> Result<()> {
    let text = Client::connect(&subject.target).await?.get(path).await?;
    let list: serde_json::Value = serde_json::from_slice(&text)?;
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    let found = items.iter().filter(|item| item["data"]["payload"].is_string()).count();
    ensure!(found >= objects, "{found} of {objects} objects in the list");
    Ok(())
}

/// Names in no particular order, as names of objects are.
pub(crate) fn name(n: usize) -> String {
    format!("object-{:016x}", (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// A ConfigMap of 1 KB that carries a number.
pub(crate) fn config_map(name: &str, number: usize) -> Bytes {
    let mut state = number as u64 | 1;
    let payload: String = (0..900)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'a' + (state >> 56) as u8 % 26)
        })
        .collect();
    let object = serde_json::json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "bench"}},
        "data": {"number": format!("{number:08}"), "payload": payload},
    });
    object.to_string().into()
}
