//! The two ways that Limen is compared with: DNS servers with health checks, whose answers clients
//! keep for a while.

use super::outcome::Sent;
use super::scenario::Scenario;
use super::world::World;

/// Every cluster in turn.
pub(super) fn in_turn(
    scenario: &Scenario,
    world: &World,
    demand: &[f64],
    now: f64,
    part: f64,
    sent: &mut Sent,
) {
    let known = believed(scenario, world, now);
    let all: f64 = known.iter().sum();
    for (edge, demand) in demand.iter().enumerate() {
        for (index, weight) in known.iter().enumerate() {
            // When nothing is left, the last answers stay in use.
            let share = if all > 0.0 { weight / all } else { 1.0 / known.len() as f64 };
            sent.to[edge][index] += demand * part * share;
        }
    }
}

/// The nearest cluster that is believed to be up.
pub(super) fn nearest(
    scenario: &Scenario,
    world: &World,
    demand: &[f64],
    now: f64,
    part: f64,
    distance: &impl Fn(usize, usize) -> f64,
    sent: &mut Sent,
) {
    let known = believed(scenario, world, now);
    for (edge, demand) in demand.iter().enumerate() {
        let mut order: Vec<usize> = (0..known.len()).collect();
        order.sort_by(|a, b| distance(edge, *a).total_cmp(&distance(edge, *b)));
        let mut left = demand * part;
        for index in &order {
            let here = left * known[*index];
            sent.to[edge][*index] += here;
            left -= here;
        }
        // When nothing is left, the last answers stay in use.
        if let Some(first) = order.first() {
            sent.to[edge][*first] += left;
        }
    }
}

/// By cluster: the part of clients that believe it to be up.
fn believed(scenario: &Scenario, world: &World, now: f64) -> Vec<f64> {
    let times = &scenario.dns;
    let part = |index: usize| {
        let late = world.not_heard(index, now, times.detect_seconds, times.ttl_seconds);
        if world.clusters[index].down { late } else { 1.0 - late }
    };
    (0..world.clusters.len()).map(part).collect()
}
