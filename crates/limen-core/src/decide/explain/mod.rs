//! Why a request goes where it goes, rule by rule.

mod words;

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
    let Shares { shares, crowded } = Shares::of(question, residency);
    let mut left = by_residency(question, all, residency, &mut steps);
    // What is left to say about nothing is said by the rule that left nothing.
    if !left.is_empty() {
        left = by_readiness(question, left, &mut steps);
        left = by_split(question, left, &mut steps);
        by_locality(question, &left, (&shares, crowded), &mut steps);
    }
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
struct Shares {
    shares: Vec<f64>,
    /// Whether some go where there is no room.
    crowded: bool,
}

impl Shares {
    fn of<S: Sight>(question: &Question<'_, S>, residency: u64) -> Self {
        let demand = if question.demand > 0.0 { question.demand } else { 1e-6 };
        let claim = Claim { plan: question.plan, residency, demand };
        let division = divide(&[claim], question.allowed, question.sight);
        let both = division.expected[0].iter().zip(&division.crowded[0]);
        let shares = both.map(|(expected, crowded)| (expected + crowded) / demand).collect();
        let crowded = division.crowded[0].iter().sum::<f64>() > demand * 1e-6;
        Self { shares, crowded }
    }
}

/// What a target is called: its cluster, and its group where the cluster has several.
fn name_of<S>(question: &Question<'_, S>, target: usize) -> String {
    let targets = &question.backend.targets;
    let target = &targets[target];
    let alike = targets.iter().filter(|other| other.cluster == target.cluster).count();
    match &target.group {
        Some(group) if alike > 1 => format!("{} ({group})", target.cluster),
        _ => target.cluster.clone(),
    }
}

fn keep<S>(
    question: &Question<'_, S>,
    rule: &str,
    detail: String,
    candidates: Vec<usize>,
    steps: &mut Vec<Step>,
    reason: impl Fn(usize) -> Option<String>,
) -> Vec<usize> {
    let mut step = Step { rule: rule.to_owned(), detail, ..Step::default() };
    let mut kept = Vec::new();
    for target in candidates {
        let cluster = name_of(question, target);
        match reason(target) {
            None => {
                step.kept.push(cluster);
                kept.push(target);
            }
            Some(reason) => step.dropped.push(Dropped { cluster, reason }),
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
    let place = match question.client {
        [] => "nobody knows where the client is".to_owned(),
        places => format!("the client is in {}", places.join(", ")),
    };
    keep(question, "residency", place, candidates, steps, |target| {
        let region = question.backend.targets[target].locality.region.as_deref();
        (!question.plan.allows(target, residency)).then(|| match region {
            Some(region) => format!("{region} may not serve this client"),
            None => "its region is not known, so that it may not serve this client".to_owned(),
        })
    })
}

fn by_readiness<S: Sight>(
    question: &Question<'_, S>,
    candidates: Vec<usize>,
    steps: &mut Vec<Step>,
) -> Vec<usize> {
    let readiness = |target: usize| question.sight.readiness(target);
    let why = |target: usize| words::unready(&question.backend.targets[target], readiness(target));
    let eligible: Vec<usize> =
        candidates.iter().copied().filter(|target| question.plan.may_serve(*target)).collect();
    let best = eligible.iter().map(|target| readiness(*target)).min().unwrap_or(Readiness::Ready);
    let reasons =
        eligible.iter().map(|target| format!("{} {}", name_of(question, *target), why(*target)));
    let detail = words::fallen_back(best, reasons.collect());
    keep(question, "readiness", detail, candidates, steps, |target| {
        if readiness(target) == best {
            return None;
        }
        Some(match question.plan.may_serve(target) {
            true => format!("it {}", why(target)),
            false => format!("it {}, and the strict weights give it nothing", why(target)),
        })
    })
}

fn by_split<S>(
    question: &Question<'_, S>,
    candidates: Vec<usize>,
    steps: &mut Vec<Step>,
) -> Vec<usize> {
    let Some(mut detail) = question.rules.split.as_ref().and_then(words::split) else {
        return candidates;
    };
    let weighted = candidates.iter().any(|target| question.plan.has_weight(*target));
    if !weighted && !question.plan.strict {
        detail.push_str(words::WEIGHTLESS);
    }
    keep(question, "split", detail, candidates, steps, |target| {
        let serves = question.plan.has_weight(target) || !(weighted || question.plan.strict);
        (!serves).then(|| "the weights give it nothing".to_owned())
    })
}

fn by_locality<S>(
    question: &Question<'_, S>,
    candidates: &[usize],
    (shares, crowded): (&[f64], bool),
    steps: &mut Vec<Step>,
) {
    let order: Vec<usize> = question.plan.preferred().map(|(target, _)| target).collect();
    let order: Vec<usize> =
        order.into_iter().filter(|target| candidates.contains(target)).collect();
    let (rule, first, before) = match question.rules.failover.is_empty() {
        true => ("locality", "nearest first", "nearer clusters have room"),
        false => ("failover", "in the order of the policy", "clusters before it have room"),
    };
    let limits = order.iter().filter_map(|target| {
        let allowed = question.allowed[*target].filter(|allowed| allowed.is_finite())?;
        Some((name_of(question, *target), allowed))
    });
    let detail = words::room(first, question.demand, limits.collect(), crowded);
    keep(question, rule, detail, order, steps, |target| {
        if shares[target] > 0.0 {
            return None;
        }
        let full = question.allowed[target].is_some_and(|allowed| allowed <= 0.0);
        Some(if full { "it has no room" } else { before }.to_owned())
    });
}
