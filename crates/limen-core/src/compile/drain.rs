//! Taking traffic away from a cluster: how much by now, and whether the others can bear it.

use std::collections::BTreeMap;

use super::is_ready;
use crate::global::{Backend, Global, Target};

/// A drain goes on in steps of this many percent, so that it is not written every second.
const STEP: u8 = 5;

/// The share, in percent, that a drain has taken away by now. `schedule` is when it began and how
/// many seconds it takes.
pub fn drained_percent(drain: bool, schedule: Option<(i64, u32)>, now: i64) -> u8 {
    let (true, Some((started, over))) = (drain, schedule) else {
        return if drain { 100 } else { 0 };
    };
    let passed = now.saturating_sub(started).max(0);
    if over == 0 || passed >= i64::from(over) {
        return 100;
    }
    let percent = passed.saturating_mul(100) / i64::from(over);
    let percent = u8::try_from(percent).unwrap_or(100);
    // The first step is taken at once: what is asked for can be seen to happen.
    (percent / STEP * STEP).max(STEP)
}

/// What becomes of a cluster that is to be drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextDrain {
    /// This schedule, as [`drained_percent`] has it; without one all traffic goes at once.
    Schedule(Option<(i64, u32)>),
    /// All traffic is gone already, and stays away.
    AlreadyGone,
    /// A drain is under way and ends no later than was asked for; it goes on as it is.
    EndsSooner {
        /// In how many seconds.
        seconds: u32,
    },
}

/// What becomes of a cluster that is to be drained in `over` seconds, and that may be drained
/// already or be about to. It never gives traffic back: a drain that is under way can only get
/// faster, from where it is.
pub fn next_drain(drain: bool, schedule: Option<(i64, u32)>, over: u32, now: i64) -> NextDrain {
    if drain && drained_percent(drain, schedule, now) == 100 {
        return NextDrain::AlreadyGone;
    }
    let (true, Some((started, whole))) = (drain, schedule) else {
        return NextDrain::Schedule((over > 0).then_some((now, over)));
    };
    let passed = u32::try_from(now.saturating_sub(started)).unwrap_or(0);
    let left = whole.saturating_sub(passed);
    if over >= left {
        return NextDrain::EndsSooner { seconds: left };
    }
    if over == 0 {
        return NextDrain::Schedule(None);
    }
    // As if it had gone on at the new pace from the start; rounded up, so that no percent is lost.
    let whole = (u64::from(over) * u64::from(whole)).div_ceil(u64::from(left));
    let whole = u32::try_from(whole).unwrap_or(u32::MAX);
    NextDrain::Schedule(Some((now - i64::from(whole - over), whole)))
}

/// Why a cluster should not be drained.
#[derive(Clone, Debug, PartialEq)]
pub struct Objection {
    /// The GlobalIngress, as namespace/name.
    pub global: String,
    /// The backend.
    pub backend: String,
    /// What would be wrong.
    pub reason: Reason,
}

/// What would be wrong after a drain.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// Too few clusters.
    TooFew {
        /// Those that could still serve.
        left: Vec<String>,
        /// How many there must be.
        keep: usize,
    },
    /// Too little room.
    TooLittle {
        /// Requests in a second that clients want.
        demand: f64,
        /// Requests in a second that the others can take.
        capacity: f64,
        /// The others.
        left: Vec<String>,
    },
}

impl std::fmt::Display for Objection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}): ", self.global, self.backend)?;
        let names = |left: &[String]| match left {
            [] => "none".to_owned(),
            left => left.join(", "),
        };
        match &self.reason {
            Reason::TooFew { left, keep } => {
                write!(f, "{} of {keep} clusters would be left ({})", left.len(), names(left))
            }
            Reason::TooLittle { demand, capacity, left } => write!(
                f,
                "clients want {demand:.0} requests/s and the others can take {capacity:.0} ({})",
                names(left)
            ),
        }
    }
}

/// What speaks against draining a cluster: backends that it serves and that would be left with
/// fewer than `keep` clusters, or with less room than clients want. `demand` is in requests in a
/// second over all edges, by GlobalIngress and backend.
pub fn objections<'a>(
    globals: impl Iterator<Item = (String, &'a Global)>,
    cluster: &str,
    keep: usize,
    demand: &BTreeMap<(String, String), f64>,
) -> Vec<Objection> {
    let mut found = Vec::new();
    for (name, global) in globals {
        for backend in &global.backends {
            if !backend.targets.iter().any(|target| target.cluster == cluster && is_ready(target)) {
                continue;
            }
            let wanted = demand.get(&(name.clone(), backend.name.clone())).copied();
            if let Some(reason) = objection(global, backend, cluster, keep, wanted) {
                let (global, backend) = (name.clone(), backend.name.clone());
                found.push(Objection { global, backend, reason });
            }
        }
    }
    found
}

fn objection(
    global: &Global,
    backend: &Backend,
    cluster: &str,
    keep: usize,
    demand: Option<f64>,
) -> Option<Reason> {
    let others: Vec<&Target> = backend
        .targets
        .iter()
        .filter(|target| target.cluster != cluster && target.drained_percent < 100)
        .filter(|target| is_ready(target) && gets_something(global, target))
        .collect();
    let mut left: Vec<String> = others.iter().map(|target| target.cluster.clone()).collect();
    left.dedup();
    if left.len() < keep {
        return Some(Reason::TooFew { left, keep });
    }
    // A cluster that can take as much as comes has room for everything.
    let room: Option<f64> = others.iter().map(|target| target.capacity.requests_per_second).sum();
    match (demand, room) {
        (Some(demand), Some(capacity)) if demand > capacity => {
            Some(Reason::TooLittle { demand, capacity, left })
        }
        _ => None,
    }
}

/// Whether the weights leave a target anything at all.
fn gets_something(global: &Global, target: &Target) -> bool {
    let Some(split) = &global.traffic.split else { return true };
    let clusters = split.clusters.is_empty()
        || split.clusters.get(&target.cluster).is_some_and(|weight| *weight > 0);
    let groups = split.groups.is_empty()
        || target.group.as_ref().and_then(|group| split.groups.get(group)).is_some_and(|w| *w > 0);
    clusters && groups
}
