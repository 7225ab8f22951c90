//! One prober: asks its question again and again, and keeps the verdict.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use limen_core::health::Thresholds;

use super::pace::{Counted, Pace};
use super::{Health, Verdict, probe};
use crate::upstream::{milliseconds, random};

/// How many results in a row, of which kind.
#[derive(Debug, Default)]
pub(super) struct Streak {
    good: u32,
    bad: u32,
    /// When the last good ones began, as many as make a target healthy.
    began: VecDeque<u64>,
}

impl Streak {
    /// A probe began at this moment. When the first of enough good ones in a row began.
    fn remember(&mut self, good: bool, began: u64, thresholds: Thresholds) -> u64 {
        let enough = usize::try_from(thresholds.successes).unwrap_or(usize::MAX);
        if !good {
            self.began.clear();
            return 0;
        }
        self.began.push_back(began);
        while self.began.len() > enough {
            self.began.pop_front();
        }
        self.began.front().copied().filter(|_| self.began.len() == enough).unwrap_or(0)
    }

    /// The new verdict, if this result changes it. The first good one decides by itself: until
    /// then nobody knows anything.
    pub(super) fn add(
        &mut self,
        good: bool,
        now: Verdict,
        thresholds: Thresholds,
    ) -> Option<Verdict> {
        if good {
            (self.good, self.bad) = (self.good.saturating_add(1), 0);
        } else {
            (self.good, self.bad) = (0, self.bad.saturating_add(1));
        }
        match now {
            Verdict::Unknown if good => Some(Verdict::Healthy),
            Verdict::Unknown | Verdict::Healthy if self.bad >= thresholds.failures => {
                Some(Verdict::Unhealthy)
            }
            Verdict::Unhealthy if self.good >= thresholds.successes => Some(Verdict::Healthy),
            _ => None,
        }
    }

    /// Whether the last result speaks against the verdict.
    fn contradicts(&self, now: Verdict) -> bool {
        match now {
            Verdict::Unknown | Verdict::Healthy => self.bad > 0,
            Verdict::Unhealthy => self.good > 0,
        }
    }
}

/// Probes for as long as somebody wants to know.
pub(crate) async fn keep_probing(health: Weak<Health>, pace: Arc<Pace>) {
    let usual = health.upgrade().is_some_and(|health| health.question.usual);
    let _counted = usual.then(|| Counted::new(&pace));
    let mut streak = Streak::default();
    let mut first = true;
    loop {
        let Some(health) = health.upgrade() else { return };
        ask(&health, &pace, &mut streak).await;
        let (interval, soon) = pace.interval(&health.question);
        let (hurry, since) = (health.hurry.clone(), Instant::now());
        let in_doubt = streak.contradicts(health.verdict());
        let in_doubt = in_doubt || health.waiting.load(Ordering::Relaxed) > 0;
        drop(health);
        tokio::time::sleep(soon.min(interval)).await;
        if !usual || in_doubt {
            continue;
        }
        // Those that start together are spread out over the whole of the first interval.
        let interval = if std::mem::take(&mut first) { part_of(interval) } else { interval };
        tokio::select! {
            () = tokio::time::sleep_until((since + interval).into()) => {}
            () = hurry.notified() => {}
        }
    }
}

fn part_of(interval: Duration) -> Duration {
    let milliseconds = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX).max(1);
    Duration::from_millis(random() % milliseconds)
}

/// Asks once, and keeps what comes of it.
async fn ask(health: &Health, pace: &Pace, streak: &mut Streak) {
    let question = &health.question;
    let patience = Duration::from_millis(u64::from(question.timeout));
    let turn = pace.turn(question).await;
    let began = milliseconds(Instant::now());
    let outcome = match tokio::time::timeout(patience, probe::probe(health)).await {
        Ok(outcome) => outcome,
        Err(_) => Err("no answer in time".to_owned()),
    };
    drop(turn);
    let well_since = streak.remember(outcome.is_ok(), began, question.thresholds());
    health.well_since.store(well_since, Ordering::Relaxed);
    if let Some(verdict) = streak.add(outcome.is_ok(), health.verdict(), question.thresholds()) {
        health.decide(verdict, outcome.err().unwrap_or_default());
    }
    health.asked.store(true, Ordering::Relaxed);
    health.news.notify_waiters();
}
