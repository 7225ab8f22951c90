//! Admission to the federation: which cluster may join under which name.
//!
//! A cluster is known by the uid of its namespace kube-system. Names and addresses are what people
//! call it by, and may be wrong.

use std::fmt;

/// A cluster that asks to join.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its name on the hub.
    pub name: &'a str,
    /// Uid of its namespace kube-system.
    pub uid: &'a str,
    /// Address of its API.
    pub endpoint: &'a str,
    /// Hubs that claim it.
    pub claims: &'a [String],
}

/// A member that the hub knows.
#[derive(Clone, Debug, Default)]
pub struct Registered {
    /// Its name.
    pub name: String,
    /// Address of its API, if its credential does not say.
    pub endpoint: Option<String>,
    /// Uid that it was registered with, before uids that it was seen with; a member that has just
    /// moved may still be listed with the uid of the cluster before.
    pub uids: Vec<String>,
    /// Its object is being deleted.
    pub deleting: bool,
}

/// Consent of a person to what is refused otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Consent {
    /// The name may lead to another address or another cluster.
    pub moves: bool,
    /// Another hub may write to the same cluster.
    pub share: bool,
}

/// Reason for not admitting a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The cluster is the hub.
    Hub,
    /// The cluster is a member under another name.
    SameCluster {
        /// That name.
        name: String,
    },
    /// The member of this name is being deleted.
    Deleting,
    /// The member of this name has another address.
    OtherAddress {
        /// The registered address.
        known: String,
    },
    /// The member of this name is another cluster.
    OtherCluster {
        /// The registered uid.
        known: String,
    },
    /// Another hub claims the cluster.
    Claimed {
        /// That hub's id.
        hub: String,
    },
}

/// Whether a cluster may join the hub with this id.
pub fn admit(
    candidate: &Candidate<'_>,
    hub: &str,
    registered: &[Registered],
    consent: Consent,
) -> Result<(), Refusal> {
    if candidate.uid == hub {
        return Err(Refusal::Hub);
    }
    let is_candidate = |member: &&Registered| {
        member.name != candidate.name && member.uids.iter().any(|uid| uid == candidate.uid)
    };
    if let Some(same) = registered.iter().find(is_candidate) {
        return Err(Refusal::SameCluster { name: same.name.clone() });
    }
    if let Some(known) = registered.iter().find(|member| member.name == candidate.name) {
        admit_again(candidate, known, consent)?;
    }
    match candidate.claims.iter().find(|claim| *claim != hub) {
        Some(other) if !consent.share => Err(Refusal::Claimed { hub: other.clone() }),
        _ => Ok(()),
    }
}

fn admit_again(
    candidate: &Candidate<'_>,
    known: &Registered,
    consent: Consent,
) -> Result<(), Refusal> {
    if known.deleting {
        return Err(Refusal::Deleting);
    }
    if consent.moves {
        return Ok(());
    }
    let plain = |endpoint: &str| endpoint.trim_end_matches('/').to_owned();
    let address = known.endpoint.as_deref().map(plain);
    if let Some(known) = address.filter(|address| *address != plain(candidate.endpoint)) {
        return Err(Refusal::OtherAddress { known });
    }
    match known.uids.first().filter(|uid| *uid != candidate.uid) {
        Some(other) => Err(Refusal::OtherCluster { known: other.clone() }),
        None => Ok(()),
    }
}

/// Account of a hub in its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountName(String);

impl AccountName {
    /// Account of members that joined before accounts were named by hub.
    pub const SHARED: &str = "limen-hub";

    /// The account of the hub with this id.
    pub fn of_hub(hub: &str) -> Self {
        let short: String = hub.chars().take(8).collect();
        Self(format!("{}-{short}", Self::SHARED))
    }

    /// The account that a token's subject names, if it is one that a hub has in its members.
    pub fn of_subject(subject: &str, namespace: &str) -> Option<Self> {
        let account = subject.strip_prefix("system:serviceaccount:")?;
        let account = account.strip_prefix(namespace)?.strip_prefix(':')?;
        let own = account.strip_prefix(Self::SHARED)?;
        let ours = own.is_empty() || own.strip_prefix('-').is_some_and(|short| !short.is_empty());
        ours.then(|| Self(account.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Evidence about the account [`AccountName::SHARED`] in a member.
#[derive(Clone, Copy, Debug)]
pub struct SharedAccount<'a> {
    /// Account of the credential that this hub had before it joined again.
    pub used: Option<&'a AccountName>,
    /// Subjects of its ClusterRoleBinding, each as `namespace/name`; anything but a service account
    /// as an empty string.
    pub bound: &'a [String],
    /// The same for the only subject that this hub ever bound.
    pub own: &'a str,
    /// Another hub claims the member, or has leaves there.
    pub other_hubs: bool,
}

/// Whether the shared account belongs to this hub alone, so that it may be deleted.
pub fn is_own_account(account: &SharedAccount<'_>) -> bool {
    let used = account.used.is_some_and(|used| used.as_str() == AccountName::SHARED);
    let bound = matches!(account.bound, [only] if only == account.own);
    used && bound && !account.other_hubs
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUB: &str = "0000aaaa-hub";

    fn registered(name: &str, endpoint: &str, uids: &[&str]) -> Registered {
        Registered {
            name: name.to_owned(),
            endpoint: Some(endpoint.to_owned()),
            uids: uids.iter().map(|&uid| uid.to_owned()).collect(),
            deleting: false,
        }
    }

    fn ask(name: &str, uid: &str, endpoint: &str, consent: Consent) -> Result<(), Refusal> {
        let known = [
            registered("a", "https://a", &["uid-a"]),
            registered("b", "https://b/", &["uid-b", "uid-of-old-b"]),
            registered("new", "https://new", &[]),
            Registered { deleting: true, ..registered("going", "https://going", &["uid-g"]) },
        ];
        admit(&Candidate { name, uid, endpoint, claims: &[] }, HUB, &known, consent)
    }

    #[test]
    fn a_cluster_joins_under_one_name_and_never_as_the_hub() {
        let no = Consent::default();
        let all = Consent { moves: true, share: true };
        let same = |name: &str| Err(Refusal::SameCluster { name: name.to_owned() });
        let address = |known: &str| Err(Refusal::OtherAddress { known: known.to_owned() });
        let cluster = |known: &str| Err(Refusal::OtherCluster { known: known.to_owned() });
        let cases = [
            ("c", "uid-c", "https://c", no, Ok(())),
            ("a", "uid-a", "https://a", no, Ok(())),
            ("b", "uid-b", "https://b", no, Ok(())),
            ("new", "uid-n", "https://new", no, Ok(())),
            ("b", "uid-of-old-b", "https://b", no, cluster("uid-b")),
            ("c", "uid-of-old-b", "https://c", no, same("b")),
            ("c", HUB, "https://c", no, Err(Refusal::Hub)),
            ("c", HUB, "https://c", all, Err(Refusal::Hub)),
            ("c", "uid-a", "https://c", no, same("a")),
            ("c", "uid-a", "https://c", all, same("a")),
            ("b", "uid-a", "https://a", all, same("a")),
            ("a", "uid-a", "https://elsewhere", no, address("https://a")),
            ("a", "uid-a", "https://elsewhere", all, Ok(())),
            ("a", "uid-x", "https://a", no, cluster("uid-a")),
            ("a", "uid-x", "https://a", all, Ok(())),
            ("going", "uid-g", "https://going", all, Err(Refusal::Deleting)),
        ];
        for (name, uid, endpoint, consent, expected) in cases {
            let found = ask(name, uid, endpoint, consent);
            assert_eq!(found, expected, "{name} {uid} {endpoint} {consent:?}");
        }
    }

    #[test]
    fn a_cluster_that_another_hub_claims_joins_only_if_it_may_be_shared() {
        let ask = |claims: &[&str], share: bool| {
            let claims: Vec<String> = claims.iter().map(|&claim| claim.to_owned()).collect();
            let candidate =
                Candidate { name: "a", uid: "a", endpoint: "https://a", claims: &claims };
            admit(&candidate, HUB, &[], Consent { moves: false, share })
        };
        let claimed = Err(Refusal::Claimed { hub: "other".to_owned() });
        assert_eq!(ask(&[], false), Ok(()));
        assert_eq!(ask(&[HUB], false), Ok(()));
        assert_eq!(ask(&[HUB, "other"], false), claimed);
        assert_eq!(ask(&["other"], false), claimed);
        assert_eq!(ask(&["other"], true), Ok(()));
    }

    #[test]
    fn accounts_are_named_by_hub_and_known_by_subject() {
        let own = AccountName::of_hub("1b2c3d4e-0000-0000");
        assert_eq!(own.as_str(), "limen-hub-1b2c3d4e");
        let subject = |name: &str| format!("system:serviceaccount:limen-system:{name}");
        for name in ["limen-hub", "limen-hub-1b2c3d4e"] {
            let found = AccountName::of_subject(&subject(name), "limen-system");
            assert_eq!(found.as_ref().map(AccountName::as_str), Some(name));
        }
        for other in ["limen-hub-", "limen-hubs", "limen", "default"] {
            assert_eq!(AccountName::of_subject(&subject(other), "limen-system"), None, "{other}");
        }
        let elsewhere = "system:serviceaccount:kube-system:limen-hub";
        assert_eq!(AccountName::of_subject(elsewhere, "limen-system"), None);
        assert_eq!(AccountName::of_subject("ann", "limen-system"), None);
    }

    #[test]
    fn a_shared_account_goes_only_if_it_is_this_hubs_alone() {
        let shared = AccountName(AccountName::SHARED.to_owned());
        let named = AccountName::of_hub(HUB);
        let own = "limen-system/limen-hub";
        let of = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let cases = [
            (Some(&shared), of(&[own]), false, true),
            (Some(&shared), of(&[own]), true, false),
            (Some(&shared), of(&[own, "default/other"]), false, false),
            (Some(&shared), of(&["default/other"]), false, false),
            (Some(&shared), of(&[]), false, false),
            (Some(&named), of(&[own]), false, false),
            (None, of(&[own]), false, false),
        ];
        for (used, bound, other_hubs, expected) in cases {
            let account = SharedAccount { used, bound: &bound, own, other_hubs };
            assert_eq!(is_own_account(&account), expected, "{account:?}");
        }
    }
}
