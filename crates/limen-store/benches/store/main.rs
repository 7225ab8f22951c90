//! The file store beside a real etcd, on the same disk, in one run.
//!
//! Rates of writes and watches are medians of rounds that alternate between the two, so that a slow
//! minute of the machine hits both; memory, start and unread watches are one run each. etcd is driven through `EtcdStore` over loopback, which is how a hub
//! would use it; CPU time counts both sides of that connection.
//!
//! `just bench-store` runs it; `just bench-store quick` is a short run for a look.

mod memory;
mod report;
mod subject;
mod watches;
mod writes;

use anyhow::Result;

/// How much to do.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    pub(crate) keys: usize,
    pub(crate) watchers: usize,
    pub(crate) events: usize,
}

const FULL: Scale = Scale { rounds: 5, seconds: 3.0, keys: 100_000, watchers: 100, events: 10_000 };
const QUICK: Scale = Scale { rounds: 1, seconds: 1.0, keys: 10_000, watchers: 100, events: 1_000 };

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    if let Some(n) = arguments.iter().position(|argument| argument == memory::CHILD) {
        return memory::run_child(&arguments[n + 1..]).await;
    }
    let scale = if has("quick") { QUICK } else { FULL };

    report::machine();
    writes::run(scale).await?;
    memory::run(scale).await?;
    watches::run(scale).await?;
    Ok(())
}
