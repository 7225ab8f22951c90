//! Waves: which members may get a change already.
//!
//! A change goes to the members of the first wave; once all of them hold it and are well, to those
//! of the second, and so on. Members that no wave names come last. A member that holds nothing yet
//! waits like the others, so that a bad first version stays in the first wave.

use std::collections::BTreeMap;

use crate::federated::Placement;
use crate::placement::Clusters;

/// Members that get a change together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wave {
    /// Which members.
    pub clusters: Placement,
}

/// How far a member is with a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// It holds the leaf as it shall be.
    pub applied: bool,
    /// Its leaf says that it is well.
    pub healthy: bool,
}

/// The wave that a member belongs to; members that no wave names are in one after the last.
pub fn wave_of(waves: &[Wave], name: &str, clusters: &Clusters) -> usize {
    let Some(facts) = clusters.get(name) else { return waves.len() };
    waves.iter().position(|wave| wave.clusters.selects(name, facts)).unwrap_or(waves.len())
}

/// The last wave that may get the change; `progress` has the members that the plan has leaves for.
pub fn open_wave(
    waves: &[Wave],
    clusters: &Clusters,
    progress: &BTreeMap<String, Progress>,
) -> usize {
    progress
        .iter()
        .filter(|(_, progress)| !(progress.applied && progress.healthy))
        .map(|(name, _)| wave_of(waves, name, clusters))
        .min()
        .unwrap_or(waves.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::ClusterFacts;

    #[test]
    fn a_wave_opens_when_all_before_it_hold_the_change_and_are_well() {
        let named = |name: &str| Wave { clusters: Placement::Clusters(vec![name.to_owned()]) };
        let waves = [named("a"), named("b")];
        let clusters: Clusters =
            ["a", "b", "c"].map(|name| (name.to_owned(), ClusterFacts::default())).into();
        let well = Progress { applied: true, healthy: true };
        let sick = Progress { applied: true, healthy: false };
        let waiting = Progress { applied: false, healthy: true };
        for (states, open) in [
            ([waiting, waiting, waiting], 0),
            ([sick, waiting, waiting], 0),
            ([well, waiting, waiting], 1),
            ([well, well, waiting], 2),
            ([well, well, well], 2),
            ([well, sick, well], 1),
        ] {
            let names = ["a", "b", "c"].map(str::to_owned);
            let progress = names.into_iter().zip(states).collect();
            assert_eq!(open_wave(&waves, &clusters, &progress), open, "{states:?}");
        }
        assert_eq!(wave_of(&waves, "c", &clusters), 2);
    }
}
