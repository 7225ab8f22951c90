//! `limen hub` beside a real kube-apiserver with its etcd, on the same disk, in one run.
//!
//! Both sync every write to disk and serve HTTP/1.1 over TLS to the same client, which knows itself
//! by a certificate, sends bytes that were made before and does not read what it is answered.
//! Rounds alternate between the two, so that a slow minute of the machine hits both, and figures are
//! medians of the rounds. CPU time is that of the servers only: of the hub on the one side, of
//! kube-apiserver and etcd on the other.
//!
//! `just bench-apiserver` runs it; `just bench-apiserver quick` is a short run for a look, and the
//! names `start`, `requests` and `watches` choose parts of it.

mod client;
mod process;
#[path = "../../../limen-store/benches/store/report.rs"]
mod report;
mod requests;
mod start;
mod subject;
mod watches;

use anyhow::Result;

use crate::subject::Subject;

/// How much to do.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) rounds: usize,
    pub(crate) starts: usize,
    pub(crate) clients: usize,
    pub(crate) objects: usize,
    pub(crate) lists: usize,
    pub(crate) watchers: usize,
    pub(crate) changes: usize,
}

const FULL: Scale = Scale {
    rounds: 5,
    starts: 5,
    clients: 32,
    objects: 5_000,
    lists: 40,
    watchers: 100,
    changes: 1_000,
};
const QUICK: Scale = Scale { rounds: 1, starts: 1, ..FULL };

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let scale = if has("quick") { QUICK } else { FULL };
    let all = !["start", "requests", "watches"].into_iter().any(has);

    report::machine();
    if all || has("start") {
        start::run(scale).await?;
    }
    let subjects = [Subject::limen().await?, Subject::real().await?];
    if all || has("requests") {
        requests::run(scale, &subjects).await?;
    }
    if all || has("watches") {
        watches::run(scale, &subjects).await?;
    }
    Ok(())
}
