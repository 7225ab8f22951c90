//! Why a request goes where it goes, rule by rule.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choice::Sight;
use super::plan::Plan;
use super::readiness::Readiness;
use super::waterfall::{Claim, divide};
use crate::global::{Backend, TrafficRules};

/// What is asked.
pub struct Question<'a, S> {
    /// The backend that the request is for.
    pub backend: &'a Backend,
    /// How its traffic is shared.
    pub rules: &'a TrafficRules,
    /// The plan of the edge that the request comes to.
    pub plan: &'a Plan,
    /// What that edge sees.
    pub sight: &'a S,
    /// Where the client is: regions, countries.
    pub client: &'a [&'a str],
    /// By target: requests in a second that the edge may send there.
    pub allowed: &'a [Option<f64>],
    /// Requests in a second that come to the edge for this backend.
    pub demand: f64,
}

/// Why a request goes where it goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The rules in the order in which they apply.
    pub steps: Vec<Step>,
    /// The share of such requests that each cluster gets, most first.
    pub odds: Vec<Odds>,
    /// Where most of them go; nothing if there is nowhere to go.
    pub cluster: Option<String>,
}

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// What it is called.
    pub rule: String,
    /// What it says here.
    pub detail: String,
    /// The clusters that it kept.
    pub kept: Vec<String>,
    /// The clusters that it dropped.
    pub dropped: Vec<Dropped>,
}

/// A cluster that a rule dropped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dropped {
    /// The cluster.
    pub cluster: String,
    /// Why.
    pub reason: String,
}

/// The share of requests that a cluster gets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Odds {
    /// The cluster.
    pub cluster: String,
    /// The version group there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Between 0 and 1.
    pub share: f64,
}

/// Why requests go where they go. The odds are those that [`Plan::decide`] keeps to.
pub fn explain<S: Sight>(question: &Question<'_, S>) -> Explanation {
    let residency = question.plan.residency(question.client);
    let all: Vec<usize> = (0..question.plan.targets()).collect();
    let mut steps = Vec::new();
    let allowed = by_residency(question, all, residency, &mut steps);
    let ready = by_readiness(question, allowed, &mut steps);
    let weighed = by_split(question, ready, &mut steps);
    let shares = shares(question, residency);
    by_locality(question, &weighed, &shares, &mut steps);
    let odds = |(target, share): (usize, f64)| {
        let target = &question.backend.targets[target];
        Odds { cluster: target.cluster.clone(), group: target.group.clone(), share }
    };
    let mut odds: Vec<Odds> =
        shares.into_iter().enumerate().filter(|(_, share)| *share > 0.0).map(odds).collect();
    odds.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.cluster.cmp(&b.cluster)));
    let cluster = odds.first().map(|odds| odds.cluster.clone());
    Explanation { steps, odds, cluster }
}

/// By target: the share of requests that it gets. They sum to one, or to nothing if there is
/// nowhere to go.
fn shares<S: Sight>(question: &Question<'_, S>, residency: u64) -> Vec<f64> {
    let demand = if question.demand > 0.0 { question.demand } else { 1e-6 };
    let claim = Claim { plan: question.plan, residency, demand };
    let division = divide(&[claim], question.allowed, question.sight);
    let both = division.expected[0].iter().zip(&division.crowded[0]);
    both.map(|(expected, crowded)| (expected + crowded) / demand).collect()
}

fn keep<S>(
    question: &Question<'_, S>,
    rule: &str,
    detail: String,
    candidates: Vec<usize>,
    steps: &mut Vec<Step>,
    reason: impl Fn(usize) -> Option<String>,
) -> Vec<usize> {
    let cluster = |target: usize| question.backend.targets[target].cluster.clone();
    let mut step = Step { rule: rule.to_owned(), detail, ..Step::default() };
    let mut kept = Vec::new();
    for target in candidates {
        match reason(target) {
            None => {
                step.kept.push(cluster(target));
                kept.push(target);
            }
            Some(reason) => step.dropped.push(Dropped { cluster: cluster(target), reason }),
        }
    }
    steps.push(step);
    kept
}

fn by_residency<S>(
    question: &Question<'_, S>,
    candidates: Vec<usize>,
    residency: u64,
    steps: &mut Vec<Step>,
) -> Vec<usize> {
    if !question.plan.has_residency() {
        return candidates;
    }
    let place = if question.client.is_empty() {
        "nobody knows where the client is".to_owned()
    } else {
        format!("the client is in {}", question.client.join(", "))
    };
    keep(question, "residency", place, candidates, steps, |target| {
        let region = question.backend.targets[target].locality.region.as_deref();
        (!question.plan.allows(target, residency))
            .then(|| format!("its region {} may not serve this client", region.unwrap_or("?")))
    })
}

fn by_readiness<S: Sight>(
    question: &Question<'_, S>,
    candidates: Vec<usize>,
    steps: &mut Vec<Step>,
) -> Vec<usize> {
    let has_weight = |target: &&usize| question.plan.has_weight(**target);
    let states =
        candidates.iter().filter(has_weight).map(|target| question.sight.readiness(*target));
    let best = states.min().unwrap_or(Readiness::Ready);
    let detail = match best {
        Readiness::Ready => "ready clusters are used".to_owned(),
        _ => format!("nothing is ready, so that what is {} is fallen back to", best.name()),
    };
    keep(question, "readiness", detail, candidates, steps, |target| {
        let found = question.sight.readiness(target);
        (found != best).then(|| format!("it is {}", found.name()))
    })
}

fn by_split<S>(
    question: &Question<'_, S>,
    candidates: Vec<usize>,
    steps: &mut Vec<Step>,
) -> Vec<usize> {
    let Some(split) = &question.rules.split else { return candidates };
    let named = |(name, weight): (&String, &u32)| format!("{name} {weight}");
    let weights: Vec<String> = split.groups.iter().chain(&split.clusters).map(named).collect();
    let detail = format!("weights: {}", weights.join(", "));
    keep(question, "split", detail, candidates, steps, |target| {
        (!question.plan.has_weight(target)).then(|| "the split gives it nothing".to_owned())
    })
}

fn by_locality<S>(
    question: &Question<'_, S>,
    candidates: &[usize],
    shares: &[f64],
    steps: &mut Vec<Step>,
) {
    let ordered = question.plan.preferred().filter(|(target, _)| candidates.contains(target));
    let ordered: Vec<(usize, u16)> = ordered.collect();
    let rule = if question.rules.failover.is_empty() { "locality" } else { "failover order" };
    let wanted = question.demand;
    let detail = format!("nearest first, while there is room for {wanted:.0} requests/s");
    let order = ordered.iter().map(|(target, _)| *target).collect();
    keep(question, rule, detail, order, steps, |target| {
        if shares[target] > 0.0 {
            return None;
        }
        let full = question.allowed[target].is_some_and(|allowed| allowed <= 0.0);
        Some(if full { "it has no room" } else { "nearer ones have room" }.to_owned())
    });
}
