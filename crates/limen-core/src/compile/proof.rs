//! Whether a host belongs to those who claim it.
//!
//! Hosts under the managed domain are the hub's to give. For any other, whoever owns it writes a
//! TXT record that names the hub and the namespace; before that the host is not served. What has
//! been served once stays: a resolver in trouble takes nothing away.

use super::root::Root;
use crate::global::{Global, Rule};

/// Where the name of a proof differs from that of its host.
const CHALLENGE: &str = "_limen-challenge.";

/// What hosts have to be proven, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proofs {
    /// What the hub is called in proofs; nobody else's.
    pub hub: String,
    /// The domain whose hosts need no proof.
    pub domain: Option<String>,
}

/// A TXT record that proves a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Proof {
    /// Its name.
    pub name: String,
    /// What it has to say.
    pub text: String,
}

impl Proof {
    /// Whether it is about a host that a root names, or about those around one that it has a
    /// certificate for, whichever namespace it speaks of.
    pub fn is_about(&self, root: &Root) -> bool {
        let Some(proven) = self.name.strip_prefix(CHALLENGE) else { return false };
        let is = |host: &str| host.strip_prefix("*.").unwrap_or(host) == proven;
        let around = |host: &str| host.split_once('.').is_some_and(|(_, rest)| rest == proven);
        ruled(root).any(is) || certified(root).any(|host| is(host) || around(host))
    }
}

/// A host that is not served for want of a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unproven {
    /// The host.
    pub host: String,
    /// What would prove it.
    pub proof: Proof,
}

impl std::fmt::Display for Unproven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { host, proof: Proof { name, text } } = self;
        write!(f, "{host} is served once the TXT record {name} says \"{text}\"")
    }
}

impl Proofs {
    /// What proves that a namespace may have a host; nothing if that needs no proof.
    pub fn proof(&self, namespace: &str, host: &str) -> Option<Proof> {
        let host = host.strip_prefix("*.").unwrap_or(host).trim_end_matches('.').to_lowercase();
        let managed = self.domain.as_ref().is_some_and(|domain| {
            let domain = domain.trim_matches('.').to_lowercase();
            host == domain || host.ends_with(&format!(".{domain}"))
        });
        (!managed && !host.is_empty()).then(|| Proof {
            name: format!("{CHALLENGE}{host}"),
            text: format!("limen-verification={}/{namespace}", self.hub),
        })
    }

    /// All proofs that a root needs, also for certificates that rules for every host serve.
    pub fn of_root(&self, root: &Root) -> Vec<Proof> {
        let certified = certified(root).filter(|_| root.serves_every_host());
        let hosts = ruled(root).chain(certified);
        hosts.filter_map(|host| self.proof(&root.namespace, host)).collect()
    }

    /// The rules whose hosts are proven or have been served before, and the hosts of the others.
    pub fn granted(
        &self,
        namespace: &str,
        rules: Vec<Rule>,
        before: Option<&Global>,
        is_found: impl Fn(&Proof) -> bool,
    ) -> (Vec<Rule>, Vec<Unproven>) {
        let mut unproven = Vec::new();
        let (mut granted, served) = (rules, before.map_or(&[][..], |before| &before.rules));
        granted.retain(|rule| {
            let served = || served.iter().any(|old| old.host == rule.host);
            match self.proof(namespace, &rule.host) {
                Some(proof) if !is_found(&proof) && !served() => {
                    unproven.push(Unproven { host: rule.host.clone(), proof });
                    false
                }
                _ => true,
            }
        });
        (granted, unproven)
    }
}

/// The hosts that a root has rules for.
fn ruled(root: &Root) -> impl Iterator<Item = &str> {
    root.rules.iter().map(|rule| rule.host.as_str())
}

/// The hosts that it has certificates for.
fn certified(root: &Root) -> impl Iterator<Item = &str> {
    root.tls.iter().flat_map(|tls| &tls.hosts).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::global::TlsHosts;

    fn proofs() -> Proofs {
        Proofs { hub: "hub-1".to_owned(), domain: Some("apps.example.com".to_owned()) }
    }

    fn rules(hosts: &[&str]) -> Vec<Rule> {
        hosts.iter().map(|host| Rule { host: (*host).to_owned(), paths: vec![] }).collect()
    }

    fn hosts(rules: &[Rule]) -> Vec<&str> {
        rules.iter().map(|rule| rule.host.as_str()).collect()
    }

    #[test]
    fn only_foreign_hosts_need_a_proof() {
        for host in ["web.apps.example.com", "*.apps.example.com", "APPS.example.com", ""] {
            assert_eq!(proofs().proof("shop", host), None, "{host}");
        }
        for host in ["example.com", "*.example.com", "Example.COM."] {
            let proof = proofs().proof("shop", host).unwrap();
            assert_eq!(proof.name, "_limen-challenge.example.com", "{host}");
            assert_eq!(proof.text, "limen-verification=hub-1/shop");
        }
        assert!(proofs().proof("shop", "notapps.example.com").is_some());
    }

    #[test]
    fn a_host_is_served_when_it_is_proven_and_stays() {
        let wanted = || rules(&["shop.test", "web.apps.example.com"]);
        let (granted, unproven) = proofs().granted("shop", wanted(), None, |_| false);
        assert_eq!(hosts(&granted), ["web.apps.example.com"]);
        assert_eq!(
            unproven[0].to_string(),
            "shop.test is served once the TXT record _limen-challenge.shop.test says \
             \"limen-verification=hub-1/shop\""
        );
        let (granted, unproven) = proofs().granted("shop", wanted(), None, |_| true);
        assert_eq!((granted.len(), unproven.len()), (2, 0));
        let before = Global { rules: granted, ..Global::default() };
        let (granted, _) = proofs().granted("shop", wanted(), Some(&before), |_| false);
        assert_eq!(granted.len(), 2, "a resolver in trouble takes nothing away");
    }

    #[test]
    fn certificates_need_proofs_where_no_rule_has_their_hosts() {
        let tls = vec![TlsHosts { hosts: vec!["a.bank.test".to_owned()], secret_name: None }];
        let names = |root: &Root| -> Vec<String> {
            proofs().of_root(root).into_iter().map(|proof| proof.name).collect()
        };
        let narrow = Root { rules: rules(&["shop.test"]), tls: tls.clone(), ..Root::default() };
        assert_eq!(names(&narrow), ["_limen-challenge.shop.test"]);
        let wide = Root { rules: rules(&[""]), tls, ..Root::default() };
        assert_eq!(names(&wide), ["_limen-challenge.a.bank.test"]);
        for (host, concerned) in [("a.bank.test", true), ("*.bank.test", true), ("test", false)] {
            let proof = proofs().proof("bank", host).unwrap();
            assert_eq!(proof.is_about(&wide), concerned, "{host}");
        }
    }
}
