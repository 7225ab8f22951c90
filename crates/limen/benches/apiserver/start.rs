//! What a server costs before anybody has asked it for anything.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::Scale;
use crate::client::Client;
use crate::process::resident_megabytes;
use crate::report::{median, ratio, row, table};
use crate::subject::Subject;

/// How long a server is left alone before its memory is looked at.
const SETTLED: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Samples {
    milliseconds: Vec<f64>,
    megabytes: Vec<f64>,
    /// With etcd, where there is one.
    all_megabytes: Vec<f64>,
}

pub(crate) async fn run(scale: Scale) -> Result<()> {
    let mut limen = Samples::default();
    let mut real = Samples::default();
    for _ in 0..scale.starts {
        let start = Instant::now();
        limen.look_at(&Subject::limen().await?, start).await?;
        let start = Instant::now();
        real.look_at(&Subject::real().await?, start).await?;
    }
    table("Started and empty", &["", "limen", "kube-apiserver", "limen / kube-apiserver"]);
    show("from nothing to an answered /readyz", "ms", limen.milliseconds, real.milliseconds);
    show("resident memory", "MB", limen.megabytes, real.megabytes);
    show("resident memory with etcd", "MB", limen.all_megabytes, real.all_megabytes);
    Ok(())
}

impl Samples {
    async fn look_at(&mut self, subject: &Subject, start: Instant) -> Result<()> {
        Client::connect(&subject.target).await?.get("/readyz").await?;
        self.milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(SETTLED).await;
        let processes = subject.processes();
        let each = processes.into_iter().map(resident_megabytes).collect::<Result<Vec<_>>>()?;
        self.megabytes.push(each[0]);
        self.all_megabytes.push(each.iter().sum());
        Ok(())
    }
}

fn show(label: &str, unit: &str, mut limen: Vec<f64>, mut real: Vec<f64>) {
    let (limen, real) = (median(&mut limen), median(&mut real));
    row(&[
        label.to_owned(),
        format!("{limen:.0} {unit}"),
        format!("{real:.0} {unit}"),
        ratio(limen / real),
    ]);
}
