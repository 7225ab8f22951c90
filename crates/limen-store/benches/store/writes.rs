//! Durable writes of 2 KB values by 1, 16 and 256 concurrent writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use limen_store::{Store, Txn};

use crate::Scale;
use crate::report::{median, ratio, row, table};
use crate::subject::Subject;

pub(crate) const VALUE: usize = 2048;

/// Rounds are many and short: other users of the disk then spoil some of them and not the median.
const FACTOR: usize = 3;

#[derive(Default)]
struct Samples {
    rate: Vec<f64>,
    cpu: Vec<f64>,
}

pub(crate) async fn run(scale: Scale, writers: &[usize]) -> Result<()> {
    table(
        "Durable writes, 2 KB values",
        &[
            "writers",
            "limen writes/s",
            "etcd writes/s",
            "ratio",
            "limen CPU µs/write",
            "etcd CPU µs/write",
            "ratio",
        ],
    );
    let subjects = [Subject::redb()?, Subject::etcd().await?];
    for &writers in writers {
        let mut samples = [Samples::default(), Samples::default()];
        for _ in 0..scale.rounds * FACTOR {
            for (subject, samples) in subjects.iter().zip(&mut samples) {
                let cpu = subject.cpu_seconds()?;
                let (writes, seconds) =
                    write_for(&subject.store, writers, scale.seconds / FACTOR as f64).await?;
                samples.rate.push(writes as f64 / seconds);
                samples.cpu.push((subject.cpu_seconds()? - cpu) * 1e6 / writes as f64);
            }
        }
        let [mut limen, mut etcd] = samples;
        let (limen_rate, etcd_rate) = (median(&mut limen.rate), median(&mut etcd.rate));
        let (limen_cpu, etcd_cpu) = (median(&mut limen.cpu), median(&mut etcd.cpu));
        row(&[
            writers.to_string(),
            format!("{limen_rate:.0}"),
            format!("{etcd_rate:.0}"),
            ratio(limen_rate / etcd_rate),
            format!("{limen_cpu:.0}"),
            format!("{etcd_cpu:.0}"),
            ratio(limen_cpu / etcd_cpu),
        ]);
    }
    Ok(())
}

async fn write_for(store: &Arc<dyn Store>, writers: usize, seconds: f64) -> Result<(u64, f64)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(seconds);
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut count = 0;
                while Instant::now() < end {
                    let n = NEXT.fetch_add(1, Ordering::Relaxed);
                    store.commit(Txn::create(key(n), value(n))).await?;
                    count += 1;
                }
                anyhow::Ok(count)
            })
        })
        .collect();
    let mut writes = 0;
    for task in tasks {
        writes += task.await??;
    }
    Ok((writes, start.elapsed().as_secs_f64()))
}

/// Keys in no particular order, as names of objects are.
pub(crate) fn key(n: u64) -> Bytes {
    let scattered = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    format!("/registry/configmaps/default/object-{scattered:016x}").into()
}

/// Values that do not compress to nothing.
pub(crate) fn value(n: u64) -> Bytes {
    let mut state = n | 1;
    let bytes = (0..VALUE).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    });
    bytes.collect()
}
