//! `kill -9` of a writing process, a hundred times at random moments.
//!
//! The child writes as fast as it can from several tasks and says on its standard output what was
//! acknowledged. After each kill the parent opens the file: every acknowledged write must be
//! there, no transaction may be half there, and revisions must never have gone back.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limen_store::{Expect, Range, RedbOptions, RedbStore, Revision, Store, Txn, WriteOp};
use rand::RngExt;

const KILLS: usize = 100;
const TASKS: usize = 8;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("write") => write_for_ever(Path::new(&arguments[2])).await,
        // Asked for by tools that look for tests before they run them.
        Some("--list") => Ok(()),
        _ => {
            kill_and_check().await?;
            println!("test acknowledged_writes_survive_kill_9 ... ok\n\n1 passed, 0 failed");
            Ok(())
        }
    }
}

/// Each transaction sets both keys of a task to the same number, larger every time.
fn txn(task: usize, number: u64) -> Txn {
    let put = || WriteOp::Put { value: number.to_string().into(), ttl: None };
    Txn::default().and(format!("{task}/left"), Expect::Any, put()).and(
        format!("{task}/right"),
        Expect::Any,
        put(),
    )
}

async fn write_for_ever(path: &Path) -> Result<()> {
    // Folds after every few dozen writes: kills are to come before, during and after.
    let options = RedbOptions { delta_bytes: 4 << 10, ..RedbOptions::default() };
    let store = Arc::new(RedbStore::open(path, &options)?);
    let start = store.revision().await?.0;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                for number in start.. {
                    let revision = store.commit(txn(task, number)).await?;
                    // One write of one line: a kill leaves whole lines or nothing.
                    std::io::stdout()
                        .write_all(format!("{task} {number} {revision}\n").as_bytes())?;
                    if number % 50 == 0 {
                        store.compact(Revision(revision.0 - 20)).await?;
                    }
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

async fn kill_and_check() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store.redb");
    let mut acknowledged = [0; TASKS];
    let mut newest = Revision::FIRST;
    let mut writes = 0;
    for kill in 0..KILLS {
        let said = run_and_kill(&path)?;
        writes += said.lines().count();
        for line in said.lines() {
            let fields: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
            let [task, number, revision] = fields[..] else { anyhow::bail!("odd line {line:?}") };
            acknowledged[usize::try_from(task)?] = number;
            newest = newest.max(Revision(revision));
        }
        newest = check(&path, &acknowledged, newest)
            .await
            .with_context(|| format!("after kill {kill}"))?;
    }
    ensure!(
        writes > KILLS,
        "only {writes} writes were made: the kills came too early to mean much"
    );
    println!("{KILLS} kills, {writes} acknowledged writes, newest revision {newest}");
    Ok(())
}

fn run_and_kill(path: &Path) -> Result<String> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("write")
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = BufReader::new(child.stdout.take().context("piped above")?);
    let mut said = String::new();
    // Some children are killed while they open the file, the others while they write.
    if rand::random_bool(0.8) {
        output.read_line(&mut said)?;
    }
    std::thread::sleep(Duration::from_micros(rand::rng().random_range(0..40_000)));
    child.kill()?;
    output.read_to_string(&mut said)?;
    child.wait()?;
    Ok(said)
}

async fn check(path: &Path, acknowledged: &[u64], newest: Revision) -> Result<Revision> {
    let store = RedbStore::open(path, &RedbOptions::default())?;
    let revision = store.revision().await?;
    ensure!(revision >= newest, "revision {revision} is older than {newest}, which was seen");
    let page = store.range(Range::default()).await?;
    let number = |key: String| -> Result<Option<u64>> {
        let Some(entry) = page.entries.iter().find(|entry| entry.key == key) else {
            return Ok(None);
        };
        Ok(Some(std::str::from_utf8(&entry.value)?.parse()?))
    };
    for (task, &acknowledged) in acknowledged.iter().enumerate() {
        let (left, right) = (number(format!("{task}/left"))?, number(format!("{task}/right"))?);
        ensure!(left == right, "half a transaction of task {task}: {left:?} and {right:?}");
        ensure!(
            left.unwrap_or(0) >= acknowledged,
            "task {task} was told that {acknowledged} is written, and finds {left:?}"
        );
    }
    Ok(revision)
}
