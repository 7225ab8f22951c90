//! A hub that federates: how fast roots reach members, and what that costs.
//!
//! The hub is the `limen` binary as a process of its own, so that its CPU time and memory are its
//! own. Members are Limen's API servers in this process, durable like the hub, or real Kubernetes
//! control planes. All of them share the machine.
//!
//! `just bench-federation` runs it; the names `burst`, `one`, `grow`, `real` and `wide` choose parts,
//! and `--plot FILE` makes `grow` draw what it found. `wide` takes ten minutes and some gigabytes,
//! and runs only if it is named.

mod plot;
#[path = "../apiserver/process.rs"]
mod process;
#[path = "../../../limen-store/benches/store/report.rs"]
#[allow(dead_code, reason = "other benchmarks use the rest of it")]
mod report;
mod rig;
mod settle;

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::StreamExt;
use limen_sync::ObjectApi;
use limen_testbed::ControlPlane;

use crate::plot::Point;
use crate::process::{cpu_seconds, resident_megabytes};
use crate::report::{row, table};
use crate::rig::{Rig, ingress};
use crate::settle::{revision, settle};

/// As in the binary, so that members run on what hubs run on.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let all = !["burst", "one", "grow", "real", "wide"].into_iter().any(has);
    report::machine();
    if all || has("burst") {
        burst().await?;
    }
    if all || has("one") {
        one_more().await?;
    }
    if all || has("grow") {
        let plot = arguments.iter().position(|argument| argument == "--plot");
        let file = plot.and_then(|at| arguments.get(at + 1));
        let points = grow().await?;
        if let Some(file) = file {
            std::fs::write(file, plot::svg(&points))?;
            println!("\nThe plot is in {file}.");
        }
    }
    if all || has("real") {
        real().await?;
    }
    if has("wide") {
        wide().await?;
    }
    Ok(())
}

/// Creates roots and waits until every member holds all of them; leaves in a second.
async fn spread(rig: &mut Rig, prefix: &str, roots: usize) -> Result<f64> {
    let start = Instant::now();
    let hub = rig.hub.clone();
    let mut creates = futures::stream::iter((0..roots).map(|n| {
        let (hub, name) = (hub.clone(), format!("{prefix}-{n}"));
        async move { hub.create(&rig::ingress_kind(), &ingress(&name)).await }
    }))
    .buffer_unordered(16);
    while let Some(created) = creates.next().await {
        created?;
    }
    drop(creates);
    rig.all_hold(prefix, roots).await;
    Ok(rig::rate(roots * rig.members(), start.elapsed()))
}

async fn burst() -> Result<()> {
    let mut rig = Rig::in_process(10).await?;
    let (before, first) = (cpu_seconds(rig.process)?, revision(&rig.hub).await?);
    let rate = spread(&mut rig, "burst", 1000).await?;
    settle(&rig.hub).await?;
    let cpu = (cpu_seconds(rig.process)? - before) / 10_000.0;
    let writes = (revision(&rig.hub).await? - first) / 1000;
    let columns = ["leaves/s", "CPU of the hub for a leaf", "writes to the hub for a root"];
    table("1,000 Ingresses to 10 members", &columns);
    row(&[format!("{rate:.0}"), format!("{:.0} µs", cpu * 1e6), writes.to_string()]);
    at_rest(&rig, "10 members x 1,000 roots").await
}

/// After how long the hub remarks, once, that these roots lead to a Service that nobody has.
const REMARKED: Duration = Duration::from_secs(32);

/// What a hub costs that has nothing to do.
async fn at_rest(rig: &Rig, what: &str) -> Result<()> {
    tokio::time::sleep(REMARKED).await;
    settle(&rig.hub).await?;
    let (cpu, before) = (cpu_seconds(rig.process)?, revision(&rig.hub).await?);
    let span = Duration::from_secs(20);
    tokio::time::sleep(span).await;
    let cpu = (cpu_seconds(rig.process)? - cpu) / span.as_secs_f64();
    let writes = revision(&rig.hub).await? - before;
    table(&format!("At rest, {what}"), &["writes in 20 s", "share of a core", "resident memory"]);
    row(&[
        writes.to_string(),
        format!("{:.1} %", cpu * 100.0),
        format!("{:.0} MB", resident_megabytes(rig.process)?),
    ]);
    Ok(())
}

/// One new Ingress while nothing else happens, written to the hub or to each member: milliseconds
/// until all members hold it.
async fn one(rig: &mut Rig, name: &str, to: &[ObjectApi]) -> Result<f64> {
    let start = Instant::now();
    let (kind, object) = (rig::ingress_kind(), ingress(name));
    futures::future::try_join_all(to.iter().map(|api| api.create(&kind, &object))).await?;
    rig.all_hold(name, 1).await;
    let taken = start.elapsed().as_secs_f64() * 1e3;
    tokio::time::sleep(Duration::from_millis(200)).await;
    Ok(taken)
}

/// The middle of some times, and the longest but one in a hundred.
fn p50_and_p99(mut taken: Vec<f64>) -> (f64, f64) {
    taken.sort_by(f64::total_cmp);
    (taken[taken.len() / 2], taken[taken.len() * 99 / 100])
}

async fn one_more() -> Result<()> {
    let mut rig = Rig::in_process(100).await?;
    spread(&mut rig, "before", 100).await?;
    settle(&rig.hub).await?;
    let (hub, mut taken) = ([rig.hub.clone()], Vec::new());
    for n in 0..100 {
        taken.push(one(&mut rig, &format!("new-{n}"), &hub).await?);
    }
    let (p50, p99) = p50_and_p99(taken);
    let columns = ["p50 until all 100 hold it", "p99", "Karmada's published p50", "its p99"];
    table("One new Ingress, 100 members with 100 roots at rest", &columns);
    row(&[format!("{p50:.0} ms"), format!("{p99:.0} ms"), "706 ms".into(), "1298 ms".into()]);
    at_rest(&rig, "100 members x 200 roots").await
}

/// How long growth is followed: what is not measured by then is left out, and said.
const GROWTH: Duration = Duration::from_secs(400);

/// How rate and memory grow with members and roots.
async fn grow() -> Result<Vec<Point>> {
    let deadline = tokio::time::Instant::now() + GROWTH;
    let columns = ["members", "roots", "leaves/s", "resident memory of the hub"];
    table("Growth", &columns);
    let mut points = Vec::new();
    for (members, steps) in
        [(10, [100, 400, 500, 1000].as_slice()), (50, &[100, 400]), (100, &[100, 400, 500])]
    {
        let mut rig = Rig::in_process(members).await?;
        let mut roots = 0;
        for (index, step) in steps.iter().enumerate() {
            let prefix = format!("step{index}x");
            let spreading = spread(&mut rig, &prefix, *step);
            let Ok(rate) = tokio::time::timeout_at(deadline, spreading).await else {
                println!(
                    "\nStopped after {} s: what is larger was not measured.",
                    GROWTH.as_secs()
                );
                return Ok(points);
            };
            let rate = rate?;
            roots += step;
            settle(&rig.hub).await?;
            let memory = resident_megabytes(rig.process)?;
            points.push(Point { members, roots, rate, megabytes: memory });
            let cells = [
                members.to_string(),
                roots.to_string(),
                format!("{rate:.0}"),
                format!("{memory:.0} MB"),
            ];
            row(&cells);
        }
        at_rest(&rig, &format!("{members} members x {roots} roots")).await?;
    }
    Ok(points)
}

/// A large federation: what a leaf takes in memory, and what a restart takes.
async fn wide() -> Result<()> {
    const MEMBERS: usize = 200;
    let columns = ["roots", "leaves/s", "resident memory of the hub", "for each leaf since joined"];
    let mut rig = Rig::in_process(MEMBERS).await?;
    let joined = resident_megabytes(rig.process)?;
    table(&format!("{MEMBERS} members, {joined:.0} MB without roots"), &columns);
    let (mut roots, mut last) = (0, 0.0);
    for step in [500, 500, 1000] {
        let rate = spread(&mut rig, &format!("wide{roots}x"), step).await?;
        roots += step;
        settle(&rig.hub).await?;
        last = resident_megabytes(rig.process)?;
        let leaf = (last - joined) * 1024.0 / rig::count(roots * MEMBERS);
        row(&[
            roots.to_string(),
            format!("{rate:.0}"),
            format!("{last:.0} MB"),
            format!("{leaf:.2} KB"),
        ]);
    }
    at_rest(&rig, &format!("{MEMBERS} members x {roots} roots")).await?;
    let start = Instant::now();
    rig.restart().await?;
    let ready = start.elapsed();
    let hub = [rig.hub.clone()];
    one(&mut rig, "after-restart", &hub).await?;
    let first = start.elapsed();
    settle(&rig.hub).await?;
    let memory = resident_megabytes(rig.process)?;
    table(
        "Started again",
        &["until it answers", "until a new Ingress is in all members", "CPU", "resident memory"],
    );
    row(&[
        format!("{:.2} s", ready.as_secs_f64()),
        format!("{:.1} s", first.as_secs_f64()),
        format!("{:.0} s", cpu_seconds(rig.process)?),
        format!("{memory:.0} MB, before it {last:.0} MB"),
    ]);
    Ok(())
}

/// How long a small durable write to the disk takes by itself: every leaf waits for several.
async fn disk() -> Result<(f64, f64)> {
    let mut file = tempfile::tempfile()?;
    let mut taken = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        file.write_all(&[0x5a; 4096])?;
        file.sync_data()?;
        taken.push(start.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(p50_and_p99(taken))
}

async fn real() -> Result<()> {
    let mut planes = Vec::new();
    for _ in 0..3 {
        planes.push(ControlPlane::start().await?);
    }
    let mut rig = Rig::real(&planes).await?;
    let (hub, members) = ([rig.hub.clone()], rig.direct.clone());
    let (mut taken, mut directly) = (Vec::new(), Vec::new());
    for n in 0..200 {
        taken.push(one(&mut rig, &format!("one-{n}"), &hub).await?);
        directly.push(one(&mut rig, &format!("direct-{n}"), &members).await?);
    }
    let ((p50, p99), (direct_p50, direct_p99)) = (p50_and_p99(taken), p50_and_p99(directly));
    let (sync_p50, sync_p99) = disk().await?;
    let rate = spread(&mut rig, "burst", 300).await?;
    let columns = ["", "Limen", "Karmada, as measured before", "Karmada, tuned"];
    table("Three real Kubernetes members", &columns);
    row(&["one Ingress, p50".into(), format!("{p50:.0} ms"), "745 ms".into(), "200 ms".into()]);
    row(&["one Ingress, p99".into(), format!("{p99:.0} ms"), "850 ms".into(), "400 ms".into()]);
    row(&["burst of 300, leaves/s".into(), format!("{rate:.0}"), "5".into(), "17".into()]);
    println!(
        "\nThe same Ingress written by a client straight into all three members at once: p50 \
         {direct_p50:.0} ms, p99 {direct_p99:.0} ms."
    );
    println!(
        "One write of 4 KB to this disk, synced: p50 {sync_p50:.1} ms, p99 {sync_p99:.1} ms. An \
         Ingress waits for two on the hub and one in each member."
    );
    Ok(())
}
