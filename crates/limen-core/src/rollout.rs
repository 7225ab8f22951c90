//! Waves: which members may get a change already.
//!
//! A change goes to the members of the first wave; once each of them has the new revision applied,
//! observed and available, to those of the second, and so on. Members that no wave names come last. A
//! member that is away is skipped; a wave without a single finished member is not done, so that a
//! change that every member refuses stays in the first wave.

use std::collections::BTreeMap;
use std::sync::Arc;

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
pub enum Progress {
    /// It holds the new revision, has observed it, and it is available.
    Done,
    /// It does not, yet or at all.
    NotDone,
    /// It cannot be reached.
    Away,
}

/// The wave that a member belongs to; members that no wave names are in one after the last.
pub fn wave_of(waves: &[Wave], name: &str, clusters: &Clusters) -> usize {
    let Some(facts) = clusters.get(name) else { return waves.len() };
    waves.iter().position(|wave| wave.clusters.selects(name, facts)).unwrap_or(waves.len())
}

/// The last wave that may get the change; `progress` has every member that the placement selects.
pub fn open_wave(
    waves: &[Wave],
    clusters: &Clusters,
    progress: &BTreeMap<Arc<str>, Progress>,
) -> usize {
    let is_done = |wave: usize| {
        let mut done = false;
        for (name, progress) in progress {
            if wave_of(waves, name, clusters) == wave {
                match progress {
                    Progress::Done => done = true,
                    Progress::NotDone => return false,
                    Progress::Away => {}
                }
            }
        }
        done
    };
    (0..waves.len()).find(|wave| !is_done(*wave)).unwrap_or(waves.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::ClusterFacts;

    #[test]
    fn a_wave_opens_when_each_member_before_it_has_the_change_available() {
        use Progress::{Away, Done, NotDone};
        let named = |names: &[&str]| Wave {
            clusters: Placement::Clusters(names.iter().map(|&name| name.to_owned()).collect()),
        };
        let waves = [named(&["a", "b"]), named(&["c"])];
        let clusters: Clusters =
            ["a", "b", "c", "d"].map(|name| (name.into(), ClusterFacts::default())).into();
        for (states, open) in [
            ([NotDone, NotDone, NotDone, NotDone], 0),
            ([Done, NotDone, NotDone, NotDone], 0),
            ([Done, Done, NotDone, NotDone], 1),
            ([Done, Away, NotDone, NotDone], 1),
            ([Away, Away, NotDone, NotDone], 0),
            ([Done, Done, Done, NotDone], 2),
            ([NotDone, Done, Done, Done], 0),
        ] {
            let names = ["a", "b", "c", "d"].map(Arc::from);
            let progress = names.into_iter().zip(states).collect();
            assert_eq!(open_wave(&waves, &clusters, &progress), open, "{states:?}");
        }
        assert_eq!(wave_of(&waves, "d", &clusters), 2);
    }

    #[test]
    fn a_wave_that_selects_no_member_is_not_done() {
        let nobody = Wave { clusters: Placement::Clusters(vec!["x".to_owned()]) };
        let clusters: Clusters = [("a".into(), ClusterFacts::default())].into();
        let progress = [("a".into(), Progress::NotDone)].into();
        assert_eq!(open_wave(&[nobody], &clusters, &progress), 0);
    }
}
