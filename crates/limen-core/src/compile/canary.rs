//! A canary, step by step: more of the traffic while it does well, none of it when it does not.
//!
//! ```text
//! steps 5, 25, 50:   5 ──► 25 ──► 50 ──► promoted (100)
//!                    └──────┴──────┴──► rolled back (0)
//! ```
//!
//! A step lasts for its time, and for as long as there is too little traffic to judge by. A canary
//! that fails is rolled back at once, and stays so until its policy is changed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::edge::EdgeReport;
use crate::global::is_default;

/// A group that gets more and more for as long as it does well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    /// The group on trial; the others share what it does not get.
    pub group: String,
    /// Its share in percent, step by step; after the last it gets everything.
    #[schemars(length(min = 1, max = 20), extend("x-kubernetes-list-type" = "set"))]
    pub steps: Vec<u8>,
    /// How long each step is watched.
    #[schemars(range(min = 1))]
    pub step_seconds: u32,
    /// The share of answers, in percent, that must not be 5xx.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub min_success_percent: Option<f64>,
    /// How slow one answer in a hundred may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_p99_milliseconds: Option<u32>,
    /// Answers that a step must have had before it is judged.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_requests: u64,
    /// How many parts in a hundred each of the other groups gets of what is left; without it they
    /// get the same.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub others: BTreeMap<String, u32>,
}

/// How far a canary is; kept in the status of its policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// What has become of it.
    pub phase: Phase,
    /// The step it is at, from 0.
    pub step: usize,
    /// Its share in percent.
    pub percent: u8,
    /// Since when, in seconds since 1970.
    pub since: i64,
    /// Why it is where it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// What has become of a canary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// It is being watched.
    #[default]
    Watching,
    /// It gets everything.
    Promoted,
    /// It gets nothing.
    RolledBack,
}

/// How a group has done lately, over all edges.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Answers since the step began; see [`super::Answers`].
    pub answers: u64,
    /// The share that was no 5xx, by the traffic of each edge.
    pub success_percent: Option<f64>,
    /// The slowest of the edges' figures.
    pub p99_milliseconds: Option<f64>,
}

impl Figures {
    /// What fresh reports say of a group of those GlobalIngresses that are meant, by namespace/name.
    pub fn of<'a>(
        answers: u64,
        reports: impl Iterator<Item = &'a EdgeReport>,
        is_meant: impl Fn(&str) -> bool,
        group: &str,
    ) -> Self {
        let mut figures = Self { answers, ..Self::default() };
        let (mut successes, mut weights) = (0.0, 0.0);
        let demand = reports.flat_map(|report| &report.demand);
        let sent = demand
            .filter(|demand| is_meant(&demand.global_ingress))
            .flat_map(|demand| &demand.clusters)
            .filter(|sent| sent.group.as_deref() == Some(group));
        for sent in sent {
            if let Some(success) = sent.success_percent {
                // An edge that sends next to nothing still has a say.
                let weight = sent.requests_per_second.max(0.001);
                successes += success * weight;
                weights += weight;
            }
            if let Some(p99) = sent.p99_milliseconds {
                let slowest = figures.p99_milliseconds.unwrap_or(0.0).max(p99);
                figures.p99_milliseconds = Some(slowest);
            }
        }
        figures.success_percent = (weights > 0.0).then(|| successes / weights);
        figures
    }
}

impl Trial {
    /// Whether its steps lead anywhere.
    pub(super) fn rises(&self) -> bool {
        let within = self.steps.iter().all(|step| (1..=100).contains(step));
        !self.steps.is_empty() && within && self.steps.windows(2).all(|pair| pair[0] < pair[1])
    }

    /// The weights of all groups when the one on trial has this share.
    pub(crate) fn weights<'a>(
        &self,
        groups: impl Iterator<Item = &'a String>,
        percent: u8,
    ) -> BTreeMap<String, u32> {
        let mut others: BTreeMap<String, u32> = self.others.clone();
        if others.is_empty() {
            others = groups.map(|name| (name.clone(), 1)).collect();
        }
        others.remove(&self.group);
        let all: u32 = others.values().sum();
        let (percent, all) = (u32::from(percent.min(100)), all.max(1));
        let mut weights: BTreeMap<String, u32> =
            others.into_iter().map(|(name, part)| (name, part * (100 - percent))).collect();
        weights.insert(self.group.clone(), percent * all);
        // The only group there is gets everything, whatever its share.
        if weights.values().all(|weight| *weight == 0) {
            weights.insert(self.group.clone(), 100);
        }
        weights
    }

    /// Where a canary begins.
    pub fn begin(&self, now: i64) -> Progress {
        let percent = self.steps.first().copied().unwrap_or(0);
        Progress { percent, since: now, ..Progress::default() }
    }

    /// Where it is next.
    #[must_use]
    pub fn next(&self, at: &Progress, figures: Figures, now: i64) -> Progress {
        if at.phase != Phase::Watching {
            return at.clone();
        }
        let answers = figures.answers;
        let enough = answers >= self.min_requests;
        let judged = answers > 0 && enough;
        if judged && let Some(failure) = self.failure(figures) {
            let message = format!("at {}%: {failure}", at.percent);
            let (phase, percent) = (Phase::RolledBack, 0);
            return Progress { phase, percent, since: now, message, ..at.clone() };
        }
        let gated = self.min_success_percent.is_some() || self.max_p99_milliseconds.is_some();
        if now - at.since < i64::from(self.step_seconds) {
            return at.clone();
        }
        if !enough || (gated && answers == 0) {
            let wanted = self.min_requests.max(1);
            let message = format!("waits for traffic: {answers} of {wanted} answers");
            return Progress { message, ..at.clone() };
        }
        let step = at.step + 1;
        let (phase, percent) = match self.steps.get(step) {
            Some(percent) => (Phase::Watching, *percent),
            None => (Phase::Promoted, 100),
        };
        let message = String::new();
        Progress { phase, step, percent, since: now, message }
    }

    fn failure(&self, figures: Figures) -> Option<String> {
        if let (Some(least), Some(found)) = (self.min_success_percent, figures.success_percent)
            && found < least
        {
            return Some(format!("{found:.1}% of answers are no errors, {least}% must be"));
        }
        if let (Some(most), Some(found)) = (self.max_p99_milliseconds, figures.p99_milliseconds)
            && found > f64::from(most)
        {
            return Some(format!("one answer in a hundred takes {found:.0} ms, {most} ms may be"));
        }
        None
    }
}
