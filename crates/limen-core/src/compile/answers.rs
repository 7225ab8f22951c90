//! How many answers a group on trial has given, counted from what edges report.
//!
//! Edges count from when they started, leave out what is idle, fall silent and start anew. So each
//! of their counters is remembered by itself, and what counts is by how much it has grown.

use std::collections::{BTreeMap, BTreeSet};

use crate::edge::EdgeReport;

/// The answers of one group, since a step began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    group: String,
    /// Edges that were there at the last look; nothing before the first.
    edges: Option<BTreeSet<String>>,
    /// By edge, GlobalIngress, backend and cluster.
    counters: BTreeMap<[String; 4], Counter>,
    given: u64,
}

/// What an edge has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counter {
    answers: u64,
    /// Several targets of the cluster are in the group. Edges count them by themselves or all
    /// together, and do not say which they speak of: the highest figure is true of at least one.
    shared: bool,
}

impl Counter {
    fn and(self, answers: u64) -> Self {
        Self { answers: self.answers.max(answers), shared: true }
    }

    /// By how much it has grown, at least, since an earlier look at an edge.
    fn grown(self, before: Option<Self>, edge_is_new: bool) -> u64 {
        match before {
            None if edge_is_new => self.answers,
            // It was idle, and nobody knows what it had counted.
            None => 0,
            Some(before) if before.shared != self.shared => 0,
            Some(before) if before.answers <= self.answers => self.answers - before.answers,
            Some(_) if self.shared => 0,
            // An edge that has started anew counts from zero.
            Some(_) => self.answers,
        }
    }
}

impl Answers {
    /// Looks at the last report of every edge, by its name, however old. The first look at an edge
    /// tells from where to count; one that came later has counted nothing before.
    pub fn look<'a>(
        &mut self,
        reports: impl Iterator<Item = (&'a str, &'a EdgeReport)>,
        is_meant: impl Fn(&str) -> bool,
        group: &str,
    ) {
        if self.group != group {
            *self = Self { group: group.to_owned(), ..Self::default() };
        }
        let mut edges = BTreeSet::new();
        let mut counted: BTreeMap<[String; 4], Counter> = BTreeMap::new();
        for (edge, report) in reports {
            edges.insert(edge.to_owned());
            for demand in report.demand.iter().filter(|demand| is_meant(&demand.global_ingress)) {
                let sent = demand.clusters.iter();
                for sent in sent.filter(|sent| sent.group.as_deref() == Some(group)) {
                    let counter = [edge, &demand.global_ingress, &demand.backend, &sent.cluster];
                    counted
                        .entry(counter.map(str::to_owned))
                        .and_modify(|others| *others = others.and(sent.requests))
                        .or_insert(Counter { answers: sent.requests, shared: false });
                }
            }
        }
        for (key, counter) in counted {
            let edge_is_new = self.edges.as_ref().is_some_and(|known| !known.contains(&key[0]));
            let before = self.counters.insert(key, counter);
            self.given += counter.grown(before, edge_is_new);
        }
        self.counters.retain(|[edge, global, ..], _| edges.contains(edge) && is_meant(global));
        self.edges = Some(edges);
    }

    /// A step begins.
    pub fn begin_step(&mut self) {
        self.given = 0;
    }

    /// Answers since the step began.
    pub fn given(&self) -> u64 {
        self.given
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::{Demand, Sent};

    /// What an edge says of the group in some clusters.
    fn report(clusters: &[(&str, u64)]) -> EdgeReport {
        let sent = |(cluster, requests): &(&str, u64)| Sent {
            cluster: (*cluster).to_owned(),
            group: Some("v2".to_owned()),
            requests: *requests,
            ..Sent::default()
        };
        let demand = Demand {
            global_ingress: "shop/web".to_owned(),
            backend: "web:80".to_owned(),
            clusters: clusters.iter().map(sent).collect(),
            ..Demand::default()
        };
        EdgeReport { demand: vec![demand], ..EdgeReport::default() }
    }

    fn look(answers: &mut Answers, edges: &[(&str, &[(&str, u64)])]) -> u64 {
        let edges: Vec<_> = edges.iter().map(|(edge, sent)| (*edge, report(sent))).collect();
        let reports = edges.iter().map(|(edge, report)| (*edge, report));
        answers.look(reports, |global| global == "shop/web", "v2");
        answers.given()
    }

    #[test]
    fn what_edges_had_counted_before_does_not_count() {
        let mut answers = Answers::default();
        let edges: [(&str, &[_]); 2] = [("a", &[("c1", 10_000)]), ("b", &[("c1", 20_000)])];
        assert_eq!(look(&mut answers, &edges), 0);
        assert_eq!(look(&mut answers, &edges), 0, "nobody says anything new");
        let edges: [(&str, &[_]); 2] = [("a", &[("c1", 10_003)]), ("b", &[("c1", 20_004)])];
        assert_eq!(look(&mut answers, &edges), 7);
        answers.begin_step();
        assert_eq!(look(&mut answers, &edges), 0);
    }

    #[test]
    fn edges_that_start_anew_or_are_new_count_from_zero() {
        let mut answers = Answers::default();
        look(&mut answers, &[("a", &[("c1", 10_000)]), ("b", &[("c1", 20_000)])]);
        let given = look(&mut answers, &[("a", &[("c1", 5)]), ("b", &[("c1", 20_000)])]);
        assert_eq!(given, 5, "and the other does not start with it");
        let all: [(&str, &[_]); 3] =
            [("a", &[("c1", 8)]), ("b", &[("c1", 20_000)]), ("c", &[("c1", 2)])];
        assert_eq!(look(&mut answers, &all), 10);
    }

    #[test]
    fn what_an_edge_leaves_out_for_a_while_counts_on_from_where_it_was() {
        let mut answers = Answers::default();
        look(&mut answers, &[("a", &[("c1", 10_000), ("c2", 500)])]);
        assert_eq!(look(&mut answers, &[("a", &[("c2", 500)])]), 0, "c1 is idle");
        assert_eq!(look(&mut answers, &[("a", &[])]), 0);
        assert_eq!(look(&mut answers, &[("a", &[("c1", 10_001), ("c2", 500)])]), 1);
        // Whoever is gone for good is forgotten.
        assert_eq!(look(&mut answers, &[]), 1);
        assert!(answers.counters.is_empty() && answers.edges == Some(BTreeSet::new()));
    }

    #[test]
    fn what_an_edge_had_counted_before_it_spoke_of_it_does_not_count() {
        let mut answers = Answers::default();
        look(&mut answers, &[("a", &[])]);
        assert_eq!(look(&mut answers, &[("a", &[("c1", 10_000)])]), 0, "it was idle");
        assert_eq!(look(&mut answers, &[("a", &[("c1", 10_002)])]), 2);
        assert_eq!(look(&mut answers, &[("a", &[("c1", 10_002), ("c2", 700)])]), 2);
        let all: [(&str, &[_]); 2] = [("a", &[("c2", 701)]), ("b", &[("c2", 4)])];
        assert_eq!(look(&mut answers, &all), 7);
    }

    #[test]
    fn several_targets_of_one_cluster_do_not_count_each_others_answers() {
        let mut answers = Answers::default();
        for (sent, given) in [
            (vec![("c1", 1_000), ("c1", 10)], 0),
            (vec![("c1", 1_000), ("c1", 10)], 0),
            (vec![("c1", 1_003), ("c1", 10)], 3),
            // One of them is idle, and is back.
            (vec![("c1", 11)], 3),
            (vec![("c1", 12)], 4),
            (vec![("c1", 1_003), ("c1", 12)], 4),
            // The edge counts them together from here on.
            (vec![("c1", 12), ("c1", 12)], 4),
            (vec![("c1", 14), ("c1", 14)], 6),
        ] {
            assert_eq!(look(&mut answers, &[("a", &sent)]), given, "{sent:?}");
        }
    }
}
