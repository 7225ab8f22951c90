//! A seed replays to the byte.

use limen_sim::generate::generate;
use limen_sim::laws::Laws;
use limen_sim::run::run;

#[test]
fn the_same_seed_gives_the_same_trace_twice() {
    for seed in 1..4 {
        let scenario = generate(seed);
        let (first, second) = (run(&scenario, Laws::all()), run(&scenario, Laws::all()));
        let differs = first.trace.iter().zip(&second.trace).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!((first.digest, first.requests), (second.digest, second.requests), "seed {seed}");
        assert!(first.requests > 100, "seed {seed}: {}", first.requests);
    }
}
