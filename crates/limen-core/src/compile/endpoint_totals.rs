//! Whether clusters have anything ready, over all roots, kept up to date root by root: what one
//! root changes costs the same however many others there are.

use std::collections::BTreeMap;

use crate::global::{Global, Target, Verdict};

/// How many targets of each cluster have ready endpoints, and how many have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointTotals(BTreeMap<String, Counts>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    ready: usize,
    empty: usize,
}

impl Counts {
    fn of(&mut self, verdict: Verdict) -> Option<&mut usize> {
        match verdict {
            Verdict::Healthy => Some(&mut self.ready),
            Verdict::Unhealthy => Some(&mut self.empty),
            Verdict::Unknown => None,
        }
    }

    fn verdict(self) -> Verdict {
        match (self.ready, self.empty) {
            (0, 0) => Verdict::Unknown,
            (0, _) => Verdict::Unhealthy,
            _ => Verdict::Healthy,
        }
    }
}

impl EndpointTotals {
    /// A root compiles to something else than before. Whether that changes the verdict on any
    /// cluster.
    pub fn replace(&mut self, before: Option<&Global>, after: Option<&Global>) -> bool {
        let touched = targets(before).chain(targets(after));
        let verdicts: BTreeMap<&str, Verdict> =
            touched.map(|at| (at.cluster.as_str(), self.verdict(&at.cluster))).collect();
        for target in targets(after) {
            let counts = self.0.entry(target.cluster.clone()).or_default();
            if let Some(count) = counts.of(target.verdicts.endpoints) {
                *count += 1;
            }
        }
        for target in targets(before) {
            let Some(counts) = self.0.get_mut(&target.cluster) else { continue };
            if let Some(count) = counts.of(target.verdicts.endpoints) {
                *count = count.saturating_sub(1);
            }
            if *counts == Counts::default() {
                self.0.remove(&target.cluster);
            }
        }
        verdicts.into_iter().any(|(cluster, verdict)| self.verdict(cluster) != verdict)
    }

    /// Whether a cluster has ready endpoints of any root.
    pub fn verdict(&self, cluster: &str) -> Verdict {
        self.0.get(cluster).copied().unwrap_or_default().verdict()
    }
}

fn targets(global: Option<&Global>) -> impl Iterator<Item = &Target> {
    global.into_iter().flat_map(|global| &global.backends).flat_map(|backend| &backend.targets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::global::{Backend, Verdicts};

    fn global(endpoints: &[(u8, Verdict)]) -> Global {
        let target = |(cluster, verdict): &(u8, Verdict)| Target {
            cluster: format!("c{cluster}"),
            verdicts: Verdicts { endpoints: *verdict, ..Verdicts::default() },
            ..Target::default()
        };
        let targets = endpoints.iter().map(target).collect();
        let backend = Backend { name: "web:80".to_owned(), targets };
        Global { backends: vec![backend], ..Global::default() }
    }

    #[test]
    fn one_ready_endpoint_is_enough_and_the_last_one_counts() {
        let (ready, empty) = (global(&[(1, Verdict::Healthy)]), global(&[(1, Verdict::Unhealthy)]));
        let mut tally = EndpointTotals::default();
        assert_eq!(tally.verdict("c1"), Verdict::Unknown);
        assert!(tally.replace(None, Some(&empty)));
        assert_eq!(tally.verdict("c1"), Verdict::Unhealthy);
        assert!(tally.replace(None, Some(&ready)));
        assert!(!tally.replace(None, Some(&ready)), "another one changes nothing");
        assert!(!tally.replace(Some(&ready), Some(&empty)));
        assert_eq!(tally.verdict("c1"), Verdict::Healthy);
        assert!(tally.replace(Some(&ready), Some(&empty)));
        assert_eq!(tally.verdict("c1"), Verdict::Unhealthy);
    }

    fn some_global() -> impl Strategy<Value = Option<Vec<(u8, Verdict)>>> {
        let verdict =
            prop_oneof![Just(Verdict::Healthy), Just(Verdict::Unhealthy), Just(Verdict::Unknown)];
        proptest::option::of(proptest::collection::vec((0..4u8, verdict), 0..5))
    }

    proptest! {
        #[test]
        fn root_by_root_is_as_good_as_from_scratch(
            changes in proptest::collection::vec((0..5usize, some_global()), 1..40)
        ) {
            let mut roots: [Option<Global>; 5] = Default::default();
            let mut tally = EndpointTotals::default();
            for (root, after) in changes {
                let after = after.map(|endpoints| global(&endpoints));
                let clusters = || (0..4).map(|number| format!("c{number}"));
                let before: Vec<Verdict> = clusters().map(|name| tally.verdict(&name)).collect();
                let news = tally.replace(roots[root].as_ref(), after.as_ref());
                roots[root] = after;
                let mut scratch = EndpointTotals::default();
                for root in roots.iter().flatten() {
                    scratch.replace(None, Some(root));
                }
                let now: Vec<Verdict> = clusters().map(|name| tally.verdict(&name)).collect();
                let expected: Vec<Verdict> =
                    clusters().map(|name| scratch.verdict(&name)).collect();
                prop_assert_eq!(&now, &expected);
                prop_assert_eq!(news, before != now);
            }
        }
    }
}
