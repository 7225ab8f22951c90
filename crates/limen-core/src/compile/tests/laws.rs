//! What always holds.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Member, NextDrain, ObservedKind, Policy, compile, drained_percent, next_drain};
use super::{digest, leaf, root, service, slice};
use crate::global::Global;

/// One fact about one member.
type Fact = (usize, ObservedKind, Value);

fn facts(ready: &[u8; 3]) -> Vec<Fact> {
    let mut all = Vec::new();
    for (index, ready) in ready.iter().enumerate() {
        let addresses: Vec<String> = (0..*ready).map(|at| format!("10.{index}.0.{at}")).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let half = addresses.len() / 2;
        all.push((index, ObservedKind::Service, service("web", &json!({}))));
        all.push((index, ObservedKind::Slice, slice("web-1", "web", "IPv4", &addresses[..half])));
        all.push((index, ObservedKind::Slice, slice("web-2", "web", "IPv4", &addresses[half..])));
        all.push((index, ObservedKind::Ingress, leaf(Some(&format!("192.0.2.{index}")))));
    }
    all
}

/// Learns facts one after the other, compiling after each as a hub would.
fn learn(facts: &[Fact]) -> Option<Global> {
    let mut members = super::members([
        ("c0", Member::default()),
        ("c1", Member::default()),
        ("c2", Member::default()),
    ]);
    for member in members.values_mut() {
        for kind in
            [ObservedKind::Service, ObservedKind::Slice, ObservedKind::Ingress, ObservedKind::Node]
        {
            member.state(kind, Vec::new());
        }
    }
    let mut global = None;
    for (index, kind, object) in facts {
        let (key, digest) = digest(*kind, object);
        members.get_mut(format!("c{index}").as_str()).unwrap().changed(key, digest);
        let compiled = compile(&root(), &Policy::default(), None, &members, global.as_ref(), 1);
        global = compiled.global;
    }
    global
}

proptest! {
    #[test]
    fn any_order_of_observations_gives_the_same_result(
        ready in any::<[u8; 3]>().prop_map(|ready| ready.map(|count| count % 5)),
        order in Just((0..12).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        let facts = facts(&ready);
        let shuffled: Vec<Fact> = order.iter().map(|at| facts[*at].clone()).collect();
        prop_assert_eq!(learn(&facts), learn(&shuffled));
    }

    #[test]
    fn what_is_the_same_is_news_to_nobody(ready in 0u8..5) {
        let mut member = Member::default();
        for (_, kind, object) in facts(&[ready, 0, 0]).into_iter().take(4) {
            let (key, first) = digest(kind, &object);
            prop_assert_eq!(member.changed(key.clone(), first.clone()).len(), 1);
            prop_assert_eq!(member.changed(key, first), vec![]);
        }
    }

    #[test]
    fn a_drain_never_goes_back(over in 0u32..10_000, one in 0i64..20_000, other in 0i64..20_000) {
        let (early, late) = (one.min(other), one.max(other));
        let at = |now| drained_percent(true, Some((0, over)), now);
        prop_assert!(at(early) <= at(late));
        prop_assert_eq!(at(i64::from(over)), 100);
        prop_assert_eq!(drained_percent(false, Some((0, over)), late), 0);
    }

    #[test]
    fn a_drain_that_is_asked_for_again_gives_nothing_back(
        first in 0u32..10_000, again in 0u32..10_000, now in -100i64..12_000, later in 0i64..12_000,
    ) {
        let before = Some((0, first));
        let after = match next_drain(true, before, again, now) {
            NextDrain::Schedule(after) => after,
            NextDrain::AlreadyGone => {
                prop_assert_eq!(drained_percent(true, before, now), 100);
                before
            }
            NextDrain::EndsSooner { seconds } => {
                prop_assert!(seconds <= again);
                before
            }
        };
        for time in [now, now + later] {
            let (old, new) = (drained_percent(true, before, time), drained_percent(true, after, time));
            prop_assert!(new >= old, "{new} in place of {old} percent");
        }
        if now >= 0 {
            prop_assert_eq!(drained_percent(true, after, now + i64::from(again)), 100);
        }
    }

    #[test]
    fn a_first_drain_takes_the_time_that_was_asked_for(over in 0u32..10_000, now in 0i64..10_000) {
        let NextDrain::Schedule(schedule) = next_drain(false, None, over, now) else {
            return Err(TestCaseError::fail("it is not drained yet"));
        };
        prop_assert_eq!(schedule, (over > 0).then_some((now, over)));
        // Being drained all at once is being drained: a slower way cannot undo it.
        prop_assert_eq!(next_drain(true, None, over, now), NextDrain::AlreadyGone);
    }
}
