//! Which cluster a member is: the uid of its kube-system namespace, not its name or endpoint.

/// Identity of a member, as its Cluster object records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded<'a> {
    /// Name of the Cluster object.
    pub name: &'a str,
    /// Whether the cluster was found under this name before; of two for one cluster, that one has it.
    pub confirmed: bool,
    /// When it was created; the older one has it otherwise.
    pub created: &'a str,
    /// The uid that it stands for.
    pub uid: Option<&'a str>,
}

/// Whether a member may be written to, as far as its identity goes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Identity {
    /// It is the cluster that it was, or is seen for the first time.
    #[error("the same cluster")]
    Known,
    /// Another cluster answers at its endpoint.
    #[error(
        "another cluster answers at its endpoint (kube-system uid {found}, expected {known}); nothing is written to it; limen join --move if the cluster was replaced"
    )]
    Changed {
        /// The recorded uid.
        known: String,
        /// The uid that was found.
        found: String,
    },
    /// Another Cluster object stands for the same cluster.
    #[error(
        "it is the same cluster as {0}; nothing is written under this name; limen unjoin one of the two"
    )]
    Twin(String),
    /// It is the hub itself.
    #[error("it is the hub itself; nothing is written to it; limen unjoin it")]
    Hub,
    /// Its uid could not be read.
    #[error(
        "its namespace kube-system cannot be read, so it is not known which cluster it is; run limen join again"
    )]
    Unknown,
}

/// Judges the uid that a member shows. `others` are all other Cluster objects.
pub fn identify<'a>(
    member: &Recorded<'_>,
    found: Option<&str>,
    hub_uid: &str,
    mut others: impl Iterator<Item = Recorded<'a>>,
) -> Identity {
    let Some(found) = found else { return Identity::Unknown };
    if found == hub_uid {
        return Identity::Hub;
    }
    if let Some(known) = member.uid.filter(|known| *known != found) {
        return Identity::Changed { known: known.to_owned(), found: found.to_owned() };
    }
    let senior = |other: &Recorded<'_>| {
        let mine = (member.uid.is_none(), !member.confirmed, member.created, member.name);
        other.uid == Some(found) && (false, !other.confirmed, other.created, other.name) < mine
    };
    match others.find(senior) {
        Some(other) => Identity::Twin(other.name.to_owned()),
        None => Identity::Known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(
        name: &'static str,
        created: &'static str,
        uid: Option<&'static str>,
    ) -> Recorded<'static> {
        Recorded { name, confirmed: false, created, uid }
    }

    /// The clock of the hub may have been set back before the younger one joined.
    #[test]
    fn a_name_that_a_cluster_was_found_under_stays_with_it() {
        let had = Recorded { confirmed: true, ..cluster("a", "2026-01-02", Some("u")) };
        let new = cluster("b", "2026-01-01", Some("u"));
        let judged = |one: &Recorded<'_>, other: &Recorded<'static>| {
            identify(one, Some("u"), "hub", std::iter::once(other.clone()))
        };
        assert_eq!(judged(&had, &new), Identity::Known);
        assert_eq!(judged(&new, &had), Identity::Twin("a".to_owned()));
    }

    #[test]
    fn a_member_is_known_by_its_uid_and_one_cluster_has_one_name() {
        let (old, new) = ("2026-01-01", "2026-01-02");
        for (member, found, others, expected) in [
            (cluster("a", old, None), Some("u1"), vec![], Identity::Known),
            (cluster("a", old, Some("u1")), Some("u1"), vec![], Identity::Known),
            (cluster("a", old, Some("u1")), None, vec![], Identity::Unknown),
            (cluster("a", old, None), Some("hub"), vec![], Identity::Hub),
            (
                cluster("a", old, Some("u1")),
                Some("u2"),
                vec![],
                Identity::Changed { known: "u1".to_owned(), found: "u2".to_owned() },
            ),
            (
                cluster("b", new, None),
                Some("u1"),
                vec![cluster("a", old, Some("u1"))],
                Identity::Twin("a".to_owned()),
            ),
            (
                cluster("b", old, None),
                Some("u1"),
                vec![cluster("a", new, Some("u1"))],
                Identity::Twin("a".to_owned()),
            ),
            (
                cluster("a", old, Some("u1")),
                Some("u1"),
                vec![cluster("b", new, Some("u1")), cluster("c", old, None)],
                Identity::Known,
            ),
        ] {
            assert_eq!(identify(&member, found, "hub", others.into_iter()), expected, "{member:?}");
        }
    }

    #[test]
    fn of_all_names_for_one_cluster_exactly_one_may_write() {
        let all = [
            cluster("a", "2026-01-02", Some("u")),
            cluster("b", "2026-01-01", Some("u")),
            cluster("c", "2026-01-01", Some("u")),
        ];
        let known = |at: usize| {
            let others = all.iter().enumerate().filter(|(other, _)| *other != at);
            let others = others.map(|(_, other)| other.clone());
            identify(&all[at], Some("u"), "hub", others) == Identity::Known
        };
        assert_eq!((0..3).filter(|at| known(*at)).collect::<Vec<_>>(), [1]);
    }
}
