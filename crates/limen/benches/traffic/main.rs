//! From an observation to a decision: an endpoint of a member changes, and a gateway sends a
//! request elsewhere.
//!
//! Everything on the way is real: the member's API, over TLS, whose watch the hub follows; the
//! compile; the GlobalIngress in the hub's durable store; the gateway that watches it; and HTTP
//! requests through that gateway. All of it is in this process. `just bench-traffic` runs it with
//! 10,000 roots over 20 members; `--roots N` and `--members N` make it smaller, `--changes N` is
//! how many changes are measured.

#[path = "../../../limen-store/benches/store/report.rs"]
#[allow(dead_code, reason = "other benchmarks use the rest of it")]
mod report;
mod rig;
#[path = "../federation/settle.rs"]
mod settle;
mod upstream;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::report::{row, table};
use crate::rig::{Rig, Size};

/// Changes that are made before any is measured.
const WARM_UP: usize = 10;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, usual: usize| -> Result<usize> {
        let Some(at) = arguments.iter().position(|argument| argument == name) else {
            return Ok(usual);
        };
        let text = arguments.get(at + 1).with_context(|| format!("{name} needs a number"))?;
        text.parse().with_context(|| format!("{name} {text} is no number"))
    };
    let size = Size { roots: number("--roots", 10_000)?, members: number("--members", 20)? };
    let changes = number("--changes", 100)?;
    report::machine();
    let rig = Rig::start(size).await?;
    let (mut written, mut obeyed) = (Vec::new(), Vec::new());
    for change in 0..WARM_UP + changes {
        // Roots far from each other, so that nothing of one is left over for the next.
        let root = change * 617 % size.roots;
        let start = Instant::now();
        rig.ready(root, false).await?;
        // Looking at the hub costs time of its own, so it is done for every other change.
        if change % 2 == 0 {
            rig.until_answered(root, 1).await?;
            obeyed.push(start.elapsed());
        } else {
            rig.until_compiled(root, 0).await?;
            written.push(start.elapsed());
            rig.until_answered(root, 1).await?;
        }
        rig.ready(root, true).await?;
        rig.until_answered(root, 0).await?;
    }
    let Size { roots, members } = size;
    table(
        &format!("An endpoint of one of {roots} roots over {members} members changes"),
        &["until", "p50", "p99", "most", "over 100 ms"],
    );
    for (what, times) in [
        ("the GlobalIngress is written", &mut written),
        ("a gateway sends requests elsewhere", &mut obeyed),
    ] {
        times.drain(..WARM_UP / 2);
        times.sort();
        let at = |share: usize| milliseconds(times[(times.len() - 1) * share / 100]);
        let over = times.iter().filter(|time| **time > Duration::from_millis(100)).count();
        let over = format!("{over} of {}", times.len());
        row(&[what.to_owned(), at(50), at(99), at(100), over]);
    }
    rig.stop().await;
    Ok(())
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}
