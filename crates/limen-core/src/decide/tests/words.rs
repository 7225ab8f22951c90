//! What people read when they ask why a request goes where it goes.

use super::*;
use crate::global::{Capacity, HeaderMatch, Residency};

/// A question about three clusters, asked from Berlin.
struct Asked {
    backend: Backend,
    rules: TrafficRules,
    client: Vec<&'static str>,
    demand: f64,
}

fn asked() -> Asked {
    let mut backend = backend();
    for (target, region) in backend.targets.iter_mut().zip(["asia", "eu-west", "us"]) {
        target.locality.region = Some(region.to_owned());
        target.ready_endpoints = Some(3);
    }
    Asked { backend, rules: TrafficRules::default(), client: Vec::new(), demand: 0.0 }
}

impl Asked {
    /// The steps as `limen explain` shows them, in one line each.
    fn said(&self) -> Vec<String> {
        let plan = Plan::new(&self.backend, &self.rules, &berlin());
        let sight = |target: usize| readiness(&self.backend.targets[target], OwnKnowledge::None);
        let allowed: Vec<_> =
            self.backend.targets.iter().map(|target| capacity(target, &self.rules)).collect();
        let explained = explain(&Question {
            backend: &self.backend,
            rules: &self.rules,
            plan: &plan,
            sight: &sight,
            client: &self.client,
            allowed: &allowed,
            demand: self.demand,
        });
        let line = |step: &Step| {
            let dropped = step
                .dropped
                .iter()
                .map(|dropped| format!(" | drops {}: {}", dropped.cluster, dropped.reason));
            let dropped: String = dropped.collect();
            format!("{}: {} | keeps {}{dropped}", step.rule, step.detail, step.kept.join(", "))
        };
        explained.steps.iter().map(line).collect()
    }
}

const ALL_READY: &str =
    "readiness: only clusters that are ready are used | keeps tokyo, paris, york";

#[test]
fn without_any_policy_the_nearest_is_named() {
    let nearest = "locality: nearest first; no cluster has a limit | keeps paris \
                   | drops york: nearer clusters have room | drops tokyo: nearer clusters have room";
    assert_eq!(asked().said(), [ALL_READY, nearest]);
}

#[test]
fn a_cluster_that_is_not_ready_is_dropped_with_what_is_wrong_with_it() {
    let mut one = asked();
    one.backend.targets[0].drained_percent = 100;
    one.backend.targets[1].ready_endpoints = Some(0);
    let said = one.said();
    assert_eq!(
        said[0],
        "readiness: only clusters that are ready are used | keeps york \
         | drops tokyo: it is drained | drops paris: it has no ready pods"
    );
    one.backend.targets[1].ready_endpoints = Some(3);
    one.backend.targets[1].verdicts.edge = Verdict::Unhealthy;
    assert!(one.said()[0].contains("drops paris: it does not answer"), "{:?}", one.said());
    one.backend.targets[1].addresses.clear();
    assert!(one.said()[0].contains("drops paris: it has no way in"), "{:?}", one.said());
}

#[test]
fn what_is_fallen_back_to_is_said_with_the_reason() {
    let mut one = asked();
    for target in &mut one.backend.targets {
        target.ready_endpoints = Some(0);
    }
    one.backend.targets[2].ready_endpoints = Some(3);
    one.backend.targets[2].drained_percent = 100;
    assert_eq!(
        one.said()[0],
        "readiness: no cluster is ready (tokyo has no ready pods, paris has no ready pods, \
         york is drained), so those that are drained are used all the same | keeps york \
         | drops tokyo: it has no ready pods | drops paris: it has no ready pods"
    );
}

#[test]
fn clusters_of_weight_0_serve_when_no_weighted_one_is_as_ready() {
    let mut one = asked();
    let clusters = [("paris".to_owned(), 100), ("york".to_owned(), 0)].into();
    one.rules.split = Some(Split { clusters, ..Split::default() });
    assert_eq!(
        one.said()[1],
        "split: clusters have the weights paris 100, york 0 | keeps paris \
         | drops tokyo: the weights give it nothing | drops york: the weights give it nothing"
    );
    one.backend.targets[1].drained_percent = 100;
    assert_eq!(
        one.said()[..2],
        [
            "readiness: only clusters that are ready are used | keeps tokyo, york \
             | drops paris: it is drained",
            "split: clusters have the weights paris 100, york 0; no cluster that has a weight is \
             left, so those of weight 0 serve | keeps tokyo, york",
        ]
    );
}

#[test]
fn strict_weights_are_named_as_the_reason_why_a_ready_cluster_gets_nothing() {
    let mut one = asked();
    let clusters = [("paris".to_owned(), 100), ("york".to_owned(), 0)].into();
    one.rules.split = Some(Split { clusters, ..Split::default() });
    one.rules.strict = true;
    one.backend.targets[1].drained_percent = 100;
    assert_eq!(
        one.said()[0],
        "readiness: no cluster is ready (paris is drained), so those that are drained are used \
         all the same | keeps paris | drops tokyo: it is ready, and the strict weights give it \
         nothing | drops york: it is ready, and the strict weights give it nothing"
    );
}

#[test]
fn groups_and_headers_are_named() {
    let mut one = asked();
    let groups = [("v1".to_owned(), 90), ("v2".to_owned(), 10)].into();
    let canary = HeaderMatch {
        header: Some("x-canary".into()),
        value: Some("yes".into()),
        group: "v2".into(),
        ..HeaderMatch::default()
    };
    one.rules.split = Some(Split { groups, matches: vec![canary.clone()], ..Split::default() });
    one.backend.targets.truncate(2);
    one.backend.targets[0].group = Some("v1".into());
    one.backend.targets[1].group = Some("v2".into());
    one.backend.targets[1].cluster = "tokyo".into();
    assert_eq!(
        one.said()[1],
        "split: version groups have the weights v1 90, v2 10; requests with the header \
         x-canary=yes go to v2 whatever the weights | keeps tokyo (v1), tokyo (v2)"
    );
    one.rules.split = Some(Split { matches: vec![canary], ..Split::default() });
    assert!(one.said()[1].starts_with("split: requests with the header x-canary=yes go to v2"));
}

#[test]
fn room_is_said_in_requests() {
    let mut one = asked();
    for (target, room) in one.backend.targets.iter_mut().zip([100.0, 30.0, 1.0]) {
        target.capacity = Capacity { requests_per_second: Some(room) };
    }
    let locality = |one: &Asked| one.said().pop().unwrap();
    let room = "paris for 30 requests/s, york for 1 request/s, tokyo for 100 requests/s";
    assert!(
        locality(&one).starts_with(&format!(
            "locality: nearest first; no requests come in at the moment, and there is room in {room} |"
        )),
        "{}",
        locality(&one)
    );
    one.demand = 50.0;
    assert_eq!(
        locality(&one),
        format!(
            "locality: nearest first; 50 requests/s come in, and there is room in {room} | keeps paris, york, tokyo"
        )
    );
    one.demand = 0.4;
    assert!(locality(&one).contains("; less than 1 request/s come in"), "{}", locality(&one));
    one.demand = 500.0;
    assert!(
        locality(&one).contains("that is too little, so that clusters get more than they should"),
        "{}",
        locality(&one)
    );
}

#[test]
fn an_order_is_not_called_nearness() {
    let mut one = asked();
    one.rules.failover = vec!["york".into(), "paris".into()];
    let said = one.said().pop().unwrap();
    let start = "failover: in the order of the policy; no cluster has a limit | keeps york";
    assert!(said.starts_with(start), "{said}");
    assert!(said.contains("drops paris: clusters before it have room"), "{said}");
}

#[test]
fn whom_nobody_may_serve_is_told_so_once() {
    let mut one = asked();
    one.client = vec!["de", "DE"];
    one.rules.residency = vec![Residency { allow: vec!["moon".into()], ..Residency::default() }];
    one.backend.targets[0].locality.region = None;
    assert_eq!(
        one.said(),
        ["residency: the client is in de, DE | keeps  \
          | drops tokyo: its region is not known, so that it may not serve this client \
          | drops paris: eu-west may not serve this client \
          | drops york: us may not serve this client"]
    );
}
