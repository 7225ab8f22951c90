//! `limen hub` beside a real kube-apiserver with its etcd, on the same disk, in one run.
//!
//! Both sync every write to disk and serve HTTP/1.1 over TLS to the same client, which knows itself
//! by a certificate, sends bytes that were made before and does not read what it is answered.
//! Rounds alternate between the two, so that a slow minute of the machine hits both, and figures are
//! medians of the rounds. CPU time is that of the servers only: of the hub on the one side, of
//! kube-apiserver and etcd on the other.
//!
//! `just bench-apiserver` runs it; `just bench-apiserver quick` is a short run for a look.

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
    let quick = std::env::args().any(|argument| argument == "quick");
    let scale = if quick { QUICK } else { FULL };

    report::machine();
    start::run(scale).await?;
    let subjects = [Subject::limen().await?, Subject::real().await?];
    requests::run(scale, &subjects).await?;
    watches::run(scale, &subjects).await
}
