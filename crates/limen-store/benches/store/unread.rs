//! Watches that nobody reads: what they do to writers and to memory.
//!
//! Rounds alternate between writers alone and writers with such watches open, over one store whose
//! keys are written again and again.

use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use limen_store::WatchFrom;

use crate::Scale;
use crate::report::{median, ratio, row, table};
use crate::subject::{Subject, resident_megabytes};
use crate::watches::write;

pub(crate) async fn run(scale: Scale) -> Result<()> {
    let subject = Subject::redb()?;
    let rate = async |round| -> Result<f64> {
        let start = Instant::now();
        write(&subject.store, scale, round).await?;
        Ok(scale.events as f64 / start.elapsed().as_secs_f64())
    };
    // The first rounds fill caches and the window, which would count against one side only.
    rate(0).await?;
    rate(1).await?;
    let (mut alone, mut beside, mut grown) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=scale.rounds {
        alone.push(rate(2 * round).await?);
        let memory = resident_megabytes("self")?;
        let mut unread = Vec::new();
        for _ in 0..scale.watchers {
            let after = subject.store.revision().await?;
            let from = WatchFrom { prefix: Bytes::from_static(b"watched/"), after, progress: None };
            unread.push(subject.store.watch(from).await?);
        }
        beside.push(rate(2 * round + 1).await?);
        grown.push(resident_megabytes("self")? - memory);
    }
    let (alone, beside, grown) = (median(&mut alone), median(&mut beside), median(&mut grown));
    table(
        &format!("{} watches that nobody reads, over {} writes", scale.watchers, scale.events),
        &["limen writes/s without them", "with them", "ratio", "memory grown"],
    );
    row(&[
        format!("{alone:.0}"),
        format!("{beside:.0}"),
        ratio(beside / alone),
        format!("{grown:.1} MB"),
    ]);
    Ok(())
}
