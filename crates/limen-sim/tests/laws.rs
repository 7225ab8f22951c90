//! Laws of the hub, searched by the simulator.

use limen_sim::directed::DIRECTED;
use limen_sim::generate::generate;
use limen_sim::laws::Laws;
use limen_sim::run::run;
use limen_sim::trace::condensed;

/// Random histories that are searched.
const SEEDS: std::ops::Range<u64> = 1..41;

#[test]
fn a_fixed_set_of_seeds_breaks_no_law() {
    for seed in SEEDS {
        let outcome = run(&generate(seed), Laws::all());
        assert_eq!(outcome.violations, [], "seed {seed}");
    }
}

#[test]
fn no_directed_scenario_breaks_a_law() {
    let mut broken = Vec::new();
    for (name, laws, scenario) in DIRECTED {
        let outcome = run(&scenario(), Laws::new(laws.iter().copied()));
        if !outcome.violations.is_empty() {
            let trace = condensed(&outcome.trace).join("\n  ");
            broken.push(format!("{name}: {:#?}\n  {trace}", outcome.violations));
        }
    }
    assert!(broken.is_empty(), "{} scenarios:\n{}", broken.len(), broken.join("\n"));
}
