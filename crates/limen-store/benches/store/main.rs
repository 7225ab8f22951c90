//! The file store beside a real etcd, on the same disk, in one run.
//!
//! Rates are medians of rounds that alternate between the two, so that a slow minute of the machine
//! hits both; memory and start are one run each. etcd is driven through `EtcdStore` over loopback,
//! which is how a hub would use it; CPU time counts both sides of that connection.
//!
//! `just bench-store` runs it; `just bench-store quick` is a short run for a look. Parts can be
//! named, and the rounds and writers set: `just bench-store writes writers=256 rounds=9`.

mod memory;
mod report;
mod subject;
mod unread;
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

/// What was asked for on the command line: some of the parts, or all of them if none is named.
struct Request(Vec<String>);

impl Request {
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|argument| argument == name)
    }

    fn wants(&self, part: &str) -> bool {
        const PARTS: [&str; 4] = ["writes", "memory", "watches", "unread"];
        self.has(part) || !PARTS.iter().any(|part| self.has(part))
    }

    fn number(&self, name: &str) -> Result<Option<usize>> {
        let value = self.0.iter().find_map(|argument| argument.strip_prefix(name));
        Ok(value.and_then(|value| value.strip_prefix('=')).map(str::parse).transpose()?)
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let request = Request(std::env::args().skip(1).collect());
    if let Some(n) = request.0.iter().position(|argument| argument == memory::CHILD) {
        return memory::run_child(&request.0[n + 1..]).await;
    }
    let mut scale = if request.has("quick") { QUICK } else { FULL };
    scale.rounds = request.number("rounds")?.unwrap_or(scale.rounds);
    let writers = request.number("writers")?.map_or(vec![1, 16, 256], |writers| vec![writers]);

    report::machine();
    if request.wants("writes") {
        writes::run(scale, &writers).await?;
    }
    if request.wants("memory") {
        memory::run(scale).await?;
    }
    if request.wants("watches") {
        watches::run(scale).await?;
    }
    if request.wants("unread") {
        unread::run(scale).await?;
    }
    Ok(())
}
