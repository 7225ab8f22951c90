//! Which members a root is placed in, and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::federated::Placement;
use crate::selector::Labels;

/// What placement needs to know of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    /// What selectors match.
    pub labels: Labels,
}

/// The members, by name.
pub type Clusters = BTreeMap<Arc<str>, ClusterFacts>;

/// Whether one member is selected, and why or why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Whether the root belongs there.
    pub selected: bool,
    /// The rule that said so, for people.
    pub reason: String,
}

impl Placement {
    /// Whether a member is selected.
    pub fn selects(&self, name: &str, facts: &ClusterFacts) -> bool {
        match self {
            Self::Clusters(names) => names.iter().any(|listed| listed == name),
            Self::Selector(selector) => selector.matches(&facts.labels),
            Self::Nowhere => false,
        }
    }

    /// Why a member is or is not selected.
    pub fn explain(&self, name: &str, facts: &ClusterFacts) -> Selection {
        let selected = self.selects(name, facts);
        let reason = match self {
            Self::Clusters(names) if selected => format!("named among {}", names.join(", ")),
            Self::Clusters(names) if names.is_empty() => {
                "the list of clusters is empty, which selects none".to_owned()
            }
            Self::Clusters(names) => format!("not named among {}", names.join(", ")),
            Self::Selector(selector) => match selector.unmet(&facts.labels) {
                Some(requirement) => {
                    let has = facts.labels.get(&requirement.key).map_or_else(
                        || format!("has no label {}", requirement.key),
                        |value| format!("has {}={value}", requirement.key),
                    );
                    format!("{requirement} is required, and the cluster {has}")
                }
                None if selector.0.is_empty() => "every cluster is selected".to_owned(),
                None => {
                    let all: Vec<_> = selector.0.iter().map(ToString::to_string).collect();
                    format!("its labels match {}", all.join(", "))
                }
            },
            Self::Nowhere => {
                "the placement names neither clusters nor a clusterSelector, which selects none"
                    .to_owned()
            }
        };
        Selection { selected, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selector::{Operator, Requirement, Selector};

    #[test]
    fn every_selection_says_why() {
        let facts = ClusterFacts {
            labels: [("location".to_owned(), "asia".to_owned())].into_iter().collect(),
        };
        let europe = Placement::Selector(Selector(vec![Requirement {
            key: "location".to_owned(),
            operator: Operator::In(vec!["europe".to_owned()]),
        }]));
        let empty = Placement::Clusters(Vec::new());
        for (placement, selected, reason) in [
            (europe, false, "location=europe is required, and the cluster has location=asia"),
            (Placement::Selector(Selector::default()), true, "every cluster is selected"),
            (empty, false, "the list of clusters is empty, which selects none"),
            (Placement::Clusters(vec!["a".to_owned()]), true, "named among a"),
            (Placement::Clusters(vec!["b".to_owned()]), false, "not named among b"),
        ] {
            let reason = reason.to_owned();
            assert_eq!(placement.explain("a", &facts), Selection { selected, reason });
        }
    }
}
