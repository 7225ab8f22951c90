//! How much of every target's capacity each edge may use.
//!
//! Every edge knows what the clients of every edge want (their reports say so) and where every
//! edge is. So each computes the same division by itself, and nobody counts requests centrally:
//!
//! ```text
//! what edge 1 wants ─┐                       ┌─► what edge 1 may send to a, b, c
//! what edge 2 wants ─┼─ nearest tier first ──┼─► what edge 2 may send to a, b, c
//! capacities        ─┘                       └─► what nobody has room for
//! ```

use super::choice::Sight;
use super::plan::Plan;
use super::readiness::Readiness;

/// What the clients of one edge want of one backend.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    /// The edge's plan for the backend.
    pub plan: &'a Plan,
    /// The residency rules that hold for most of its clients.
    pub residency: u64,
    /// Requests in a second.
    pub demand: f64,
}

/// A division of the capacities of one backend's targets among edges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Division {
    /// By edge and target: requests in a second that are expected to go there, within capacity.
    pub expected: Vec<Vec<f64>>,
    /// By edge and target: requests in a second that go there beyond capacity, as there is no room
    /// anywhere.
    pub crowded: Vec<Vec<f64>>,
    /// By edge and target: requests in a second that may go there. What nobody is expected to need
    /// is divided too, so that more can come before anybody has computed again.
    pub allowed: Vec<Vec<f64>>,
    /// By edge and target: the part of clients that the target has room for, of those that are
    /// left when all nearer targets are full.
    pub open: Vec<Vec<f64>>,
}

/// What one edge wants of one list of targets, nearest first.
struct Stream<'a> {
    edge: usize,
    plan: &'a Plan,
    /// The candidates, nearest first.
    targets: Vec<usize>,
    left: f64,
    reached: Vec<f64>,
}

/// Divides capacities. The order of claims does not matter; `sight` is asked only for readiness.
pub fn divide(claims: &[Claim<'_>], capacity: &[Option<f64>], sight: &impl Sight) -> Division {
    let none = || vec![vec![0.0; capacity.len()]; claims.len()];
    let mut division =
        Division { expected: none(), crowded: none(), allowed: none(), open: none() };
    let mut room: Vec<f64> = capacity.iter().map(|room| room.unwrap_or(f64::INFINITY)).collect();
    let mut streams: Vec<Stream<'_>> = Vec::new();
    for (edge, claim) in claims.iter().enumerate() {
        for (demand, targets) in lists(claim, sight) {
            let reached = vec![0.0; capacity.len()];
            streams.push(Stream { edge, plan: claim.plan, targets, left: demand, reached });
        }
    }
    let tiers = claims.iter().map(|claim| claim.plan.targets()).max().unwrap_or(0);
    for tier in 0..tiers {
        let members: Vec<Vec<usize>> =
            streams.iter().map(|stream| nth_tier(stream, tier)).collect();
        for (stream, members) in streams.iter_mut().zip(&members) {
            for target in members {
                stream.reached[*target] = stream.left;
            }
        }
        let held: Vec<f64> =
            streams.iter().zip(&members).map(|(stream, tier)| held_back(stream, tier)).collect();
        for (stream, held) in streams.iter_mut().zip(&held) {
            stream.left -= held;
        }
        fill(&mut streams, &members, &mut room, &mut division.expected);
        for (stream, held) in streams.iter_mut().zip(&held) {
            stream.left += held;
        }
    }
    for stream in &streams {
        crowd(stream, &mut division.crowded[stream.edge]);
    }
    open(&streams, &mut division);
    spare(claims, capacity, &room, &mut division);
    division
}

/// The candidates of a claim as streams, at the best readiness that anything has: one for each
/// share of the split, or one for all targets of weight 0 where no weighted one is as ready.
fn lists(claim: &Claim<'_>, sight: &impl Sight) -> Vec<(f64, Vec<usize>)> {
    let plan = claim.plan;
    let demand = if claim.demand.is_finite() { claim.demand.max(0.0) } else { 0.0 };
    for level in Readiness::ALL {
        let candidates = |list: &[u16]| -> Vec<usize> {
            let all = list.iter().map(|index| usize::from(*index));
            let fit = |target: &usize| {
                plan.allows(*target, claim.residency) && sight.readiness(*target) == level
            };
            all.filter(fit).collect()
        };
        let lists: Vec<(f64, Vec<usize>)> = if plan.shares.is_empty() {
            vec![(1.0, candidates(&plan.order))]
        } else {
            let of = |(weight, list): &(u32, Vec<u16>)| (f64::from(*weight), candidates(list));
            plan.shares.iter().map(of).collect()
        };
        let open = lists.into_iter().filter(|(weight, list)| *weight > 0.0 && !list.is_empty());
        let open: Vec<_> = open.collect();
        let total: f64 = open.iter().map(|(weight, _)| weight).sum();
        if total > 0.0 {
            return open.into_iter().map(|(w, list)| (demand * w / total, list)).collect();
        }
        let weightless = if plan.strict { Vec::new() } else { candidates(&plan.order) };
        if !weightless.is_empty() {
            return vec![(demand, weightless)];
        }
    }
    Vec::new()
}

fn nth_tier(stream: &Stream<'_>, tier: usize) -> Vec<usize> {
    let tier_of = |target: usize| stream.plan.targets[target].tier;
    let mut tiers = stream.targets.chunk_by(|a, b| tier_of(*a) == tier_of(*b));
    tiers.nth(tier).map(<[usize]>::to_vec).unwrap_or_default()
}

/// What partial drains keep away from a tier: what every target of it would turn away.
fn held_back(stream: &Stream<'_>, tier: &[usize]) -> f64 {
    if tier.is_empty() {
        return 0.0;
    }
    let drained = |target: &usize| match stream.plan.targets[*target].drained_percent {
        // Who is a candidate although all is drained is fallen back to.
        100.. => 0.0,
        percent => f64::from(percent) / 100.0,
    };
    stream.left * tier.iter().map(drained).product::<f64>()
}

/// Gives streams what there is in their tiers. Each turn satisfies a stream or fills a target, so
/// there are not many.
fn fill(
    streams: &mut [Stream<'_>],
    members: &[Vec<usize>],
    room: &mut [f64],
    expected: &mut [Vec<f64>],
) {
    for _ in 0..=streams.len() + room.len() {
        let mut asked = vec![0.0; room.len()];
        let mut asks: Vec<(usize, usize, f64)> = Vec::new();
        for (index, (stream, members)) in streams.iter().zip(members).enumerate() {
            if stream.left <= 0.0 {
                continue;
            }
            let weight = |target: usize| match room[target] > 0.0 {
                true => {
                    let preference = &stream.plan.targets[target];
                    let kept = 100_u8.saturating_sub(preference.drained_percent).max(1);
                    f64::from(preference.weight) * f64::from(kept)
                }
                false => 0.0,
            };
            let total: f64 = members.iter().map(|target| weight(*target)).sum();
            for target in members.iter().filter(|_| total > 0.0) {
                let ask = stream.left * weight(*target) / total;
                asked[*target] += ask;
                asks.push((index, *target, ask));
            }
        }
        if asks.is_empty() {
            return;
        }
        let mut filled = vec![false; room.len()];
        for (index, target, ask) in asks {
            let part = (room[target] / asked[target]).min(1.0);
            let given = if asked[target] > 0.0 { ask * part } else { 0.0 };
            expected[streams[index].edge][target] += given;
            streams[index].left -= given;
            if streams[index].left < 1e-9 {
                streams[index].left = 0.0;
            }
            filled[target] |= part < 1.0;
        }
        for (target, asked) in asked.iter().enumerate() {
            room[target] = if filled[target] { 0.0 } else { (room[target] - asked).max(0.0) };
        }
    }
}

/// What has no room anywhere goes to all, by their size.
fn crowd(stream: &Stream<'_>, crowded: &mut [f64]) {
    let size = |target: usize| f64::from(stream.plan.targets[target].size);
    let total: f64 = stream.targets.iter().map(|target| size(*target)).sum();
    for target in stream.targets.iter().filter(|_| stream.left > 0.0) {
        crowded[*target] += stream.left * size(*target) / total;
    }
}

fn open(streams: &[Stream<'_>], division: &mut Division) {
    for stream in streams {
        for target in &stream.targets {
            let expected = division.expected[stream.edge][*target];
            let reached = stream.reached[*target];
            let open = if reached > 0.0 { (expected / reached).min(1.0) } else { 0.0 };
            let slot = &mut division.open[stream.edge][*target];
            *slot = slot.max(if reached > 0.0 { open } else { 1.0 });
        }
    }
    for stream in streams {
        // Of a tier of several each gets a part; what counts is whether the tier as a whole had
        // room for all that reached it.
        let tier_of = |target: usize| stream.plan.targets[target].tier;
        for tier in stream.targets.chunk_by(|a, b| tier_of(*a) == tier_of(*b)) {
            let given: f64 =
                tier.iter().map(|target| division.expected[stream.edge][*target]).sum();
            let reached = tier.first().map_or(0.0, |target| stream.reached[*target]);
            for target in tier.iter().filter(|_| given + 1e-9 >= reached) {
                division.open[stream.edge][*target] = 1.0;
            }
        }
    }
}

/// Divides what is left over: half of it evenly, half by what everybody wants.
fn spare(claims: &[Claim<'_>], capacity: &[Option<f64>], room: &[f64], division: &mut Division) {
    let total: f64 = claims.iter().map(|claim| claim.demand.max(0.0)).sum();
    let even = 1.0 / claims.len() as f64;
    for (edge, claim) in claims.iter().enumerate() {
        let wanted = if total > 0.0 { claim.demand.max(0.0) / total } else { even };
        for (target, capacity) in capacity.iter().enumerate() {
            division.allowed[edge][target] = match capacity {
                None => f64::INFINITY,
                Some(_) => division.expected[edge][target] + room[target] * (even + wanted) / 2.0,
            };
        }
    }
}
