//! What many keys cost: resident memory, and the time to open them again.
//!
//! The file store runs in a child process for this, so that its memory is its own.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use futures::StreamExt;
use limen_store::{Range, Store, Txn};

use crate::Scale;
use crate::report::{ratio, row, table};
use crate::subject::{Subject, open_redb, resident_megabytes};
use crate::writes::{key, value};

pub(crate) const CHILD: &str = "--memory-child";

pub(crate) async fn run(scale: Scale) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let child = |step: &'static str| child(folder.path(), step, scale.keys);
    let filled = child("fill").await?;
    let opened = child("open").await?;
    let killed = child("kill").await?;
    let reopened = child("open").await?;

    let mut subject = Subject::etcd().await?;
    fill(subject.store.clone(), scale.keys).await?;
    let pid = |subject: &mut Subject| -> Result<String> {
        let etcd = subject.etcd_process().context("etcd runs")?;
        Ok(etcd.pid().context("etcd runs")?.to_string())
    };
    let etcd_filled = resident_megabytes(&pid(&mut subject)?)?;
    let start = Instant::now();
    subject.etcd_process().context("etcd runs")?.restart().await?;
    let etcd_restart = start.elapsed().as_secs_f64();
    list(&*subject.store).await?;
    let etcd_opened = resident_megabytes(&pid(&mut subject)?)?;

    table(&format!("{} keys of 2 KB", scale.keys), &["", "limen", "etcd", "limen / etcd"]);
    let memory = |label: &str, limen: f64, etcd: f64| {
        row(&[
            label.to_owned(),
            format!("{limen:.0} MB"),
            format!("{etcd:.0} MB"),
            ratio(limen / etcd),
        ]);
    };
    memory("resident after writing them", filled.megabytes, etcd_filled);
    memory("resident after a restart and one listing", opened.megabytes, etcd_opened);
    let time = |label: &str, limen: f64| {
        let etcd = format!("{:.0} ms (process start to ready)", etcd_restart * 1e3);
        row(&[label.to_owned(), format!("{:.1} ms", limen * 1e3), etcd, String::new()]);
    };
    time("open after a clean stop", opened.open_seconds);
    time("open after a stop that did not close the file", reopened.open_seconds);
    anyhow::ensure!(killed.open_seconds >= 0.0, "the child that stops short opens the store first");
    Ok(())
}

struct Reading {
    megabytes: f64,
    open_seconds: f64,
}

async fn child(folder: &Path, step: &str, keys: usize) -> Result<Reading> {
    let output = tokio::process::Command::new(std::env::current_exe()?)
        .arg(CHILD)
        .arg(folder)
        .args([step, &keys.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .await?;
    let said = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> =
        said.split_whitespace().map(str::parse).collect::<Result<_, _>>().context(said.clone())?;
    let [megabytes, open_seconds] = numbers[..] else { anyhow::bail!("odd answer {said:?}") };
    Ok(Reading { megabytes, open_seconds })
}

pub(crate) async fn run_child(arguments: &[String]) -> Result<()> {
    let [folder, step, keys, ..] = arguments else { anyhow::bail!("folder, step, keys") };
    let start = Instant::now();
    let store = Arc::new(open_redb(Path::new(folder))?);
    let open_seconds = start.elapsed().as_secs_f64();
    match step.as_str() {
        "fill" => fill(store.clone(), keys.parse()?).await?,
        "open" => list(&*store).await?,
        _ => store.commit(Txn::put("last", "write")).await.map(drop)?,
    }
    println!("{} {open_seconds}", resident_megabytes("self")?);
    if step == "kill" {
        // No destructor runs: the file is left as a killed process leaves it.
        std::process::exit(0);
    }
    Ok(())
}

async fn fill(store: Arc<dyn Store>, keys: usize) -> Result<()> {
    let writes = (0..keys as u64).map(|n| {
        let store = store.clone();
        async move { store.commit(Txn::create(key(n), value(n))).await.map(drop) }
    });
    let mut writes = futures::stream::iter(writes).buffer_unordered(256);
    while let Some(written) = writes.next().await {
        written?;
    }
    Ok(())
}

async fn list(store: &dyn Store) -> Result<()> {
    let mut range = Range { limit: Some(500), ..Range::default() };
    loop {
        let page = store.range(range.clone()).await?;
        range.after = page.entries.last().map(|entry| entry.key.clone());
        range.at = Some(page.revision);
        if !page.more {
            return Ok(());
        }
    }
}
