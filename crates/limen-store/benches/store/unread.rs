//! Watches that nobody reads: what they do to writers and to memory.
//!
//! Rounds alternate between writers alone and writers with such watches open, over one store whose
//! keys are written again and again. The ratio is the median of the rounds' own ratios.

use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use limen_store::{Watch, WatchFrom};

use crate::Scale;
use crate::report::{median, ratio, row, table};
use crate::subject::{Subject, resident_megabytes};
use crate::watches::write;

/// A round is short, so there are more of them than elsewhere.
const FACTOR: usize = 3;

pub(crate) async fn run(scale: Scale) -> Result<()> {
    let subject = Subject::redb()?;
    // The first rounds fill caches and the window, which would count against one side only.
    for round in 0..2 {
        write(&subject.store, scale, round).await?;
    }
    let (mut alone, mut beside, mut grown) = (Vec::new(), Vec::new(), Vec::new());
    let mut ratios = Vec::new();
    for round in 0..scale.rounds * FACTOR {
        let mut rates = [0.0; 2];
        // Each goes first as often as the other, since the store grows from round to round.
        for unread in [round % 2, 1 - round % 2] {
            let memory = resident_megabytes("self")?;
            let watches = open(&subject, unread * scale.watchers).await?;
            let start = Instant::now();
            write(&subject.store, scale, 2 * round + unread).await?;
            rates[unread] = scale.events as f64 / start.elapsed().as_secs_f64();
            if !watches.is_empty() {
                grown.push(resident_megabytes("self")? - memory);
            }
        }
        alone.push(rates[0]);
        beside.push(rates[1]);
        ratios.push(rates[1] / rates[0]);
    }
    table(
        &format!("{} watches that nobody reads, over {} writes", scale.watchers, scale.events),
        &["limen writes/s without them", "with them", "ratio (median of rounds)", "memory grown"],
    );
    row(&[
        format!("{:.0}", median(&mut alone)),
        format!("{:.0}", median(&mut beside)),
        ratio(median(&mut ratios)),
        format!("{:.1} MB", median(&mut grown)),
    ]);
    Ok(())
}

async fn open(subject: &Subject, count: usize) -> Result<Vec<Watch>> {
    let mut watches = Vec::new();
    for _ in 0..count {
        let after = subject.store.revision().await?;
        let from = WatchFrom { prefix: Bytes::from_static(b"watched/"), after, progress: None };
        watches.push(subject.store.watch(from).await?);
    }
    Ok(watches)
}
