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
    /// By edge, GlobalIngress, backend and cluster; nothing before the first look.
    counters: Option<BTreeMap<[String; 4], u64>>,
    given: u64,
}

impl Answers {
    /// Looks at the last report of every edge, by its name, however old. The first look tells from
    /// where to count.
    pub fn look<'a>(
        &mut self,
        reports: impl Iterator<Item = (&'a str, &'a EdgeReport)>,
        is_meant: impl Fn(&str) -> bool,
        group: &str,
    ) {
        if self.group != group {
            *self = Self { group: group.to_owned(), ..Self::default() };
        }
        let first = self.counters.is_none();
        let counters = self.counters.get_or_insert_default();
        let mut edges = BTreeSet::new();
        for (edge, report) in reports {
            edges.insert(edge);
            for demand in report.demand.iter().filter(|demand| is_meant(&demand.global_ingress)) {
                let sent = demand.clusters.iter();
                for sent in sent.filter(|sent| sent.group.as_deref() == Some(group)) {
                    let counter = [edge, &demand.global_ingress, &demand.backend, &sent.cluster];
                    let before = counters.insert(counter.map(str::to_owned), sent.requests);
                    // An edge that has started anew counts from zero.
                    let before = before.filter(|before| *before <= sent.requests).unwrap_or(0);
                    if !first {
                        self.given += sent.requests - before;
                    }
                }
            }
        }
        counters.retain(|[edge, global, ..], _| edges.contains(edge.as_str()) && is_meant(global));
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
        assert_eq!(answers.counters, Some(BTreeMap::new()));
    }
}
