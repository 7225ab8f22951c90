//! Which certificates a root may show, and for which hosts.
//!
//! A gateway shows a certificate to whoever asks for one of its hosts. So a root may name those
//! hosts only that its own rules serve: any other belongs to somebody else, or to nobody.

use super::hosts::{Claim, Claims, Standing, around};
use super::root::Root;
use crate::global::{Global, Rule, TlsHosts};

impl Claims {
    /// The certificates of a root that gets these rules, each for hosts that they serve, and the
    /// hosts that are left out for want of a rule or of a proof. `before` is what is in force.
    pub fn certificates(
        &self,
        root: &Root,
        rules: &[Rule],
        before: Option<&Global>,
        standing: impl Fn(&Claim, &str) -> Standing,
    ) -> (Vec<TlsHosts>, Vec<String>) {
        let (mut certificates, mut unserved) = (Vec::new(), Vec::new());
        for tls in &root.tls {
            let mut hosts: Vec<String> = Vec::new();
            for host in &tls.hosts {
                let served = self.served(root, rules, before, host, &standing);
                let asked_for = root.rules.iter().any(|rule| rule.host == *host);
                if served.is_empty() && !asked_for && !unserved.contains(host) {
                    unserved.push(host.clone());
                }
                for host in served {
                    if !hosts.contains(&host) {
                        hosts.push(host);
                    }
                }
            }
            // Without any host a certificate is for all that the rules have.
            if tls.hosts.is_empty() || !hosts.is_empty() {
                certificates.push(TlsHosts { hosts, secret_name: tls.secret_name.clone() });
            }
        }
        (certificates, unserved)
    }

    /// What rules serve of a host that a certificate is for: the host, or of a wildcard those that
    /// they name.
    fn served(
        &self,
        root: &Root,
        rules: &[Rule],
        before: Option<&Global>,
        host: &str,
        standing: impl Fn(&Claim, &str) -> Standing,
    ) -> Vec<String> {
        let has = |host: &str| rules.iter().any(|rule| rule.host == host);
        if host.is_empty() {
            return Vec::new();
        }
        if has(host) {
            return vec![host.to_owned()];
        }
        // A wider rule serves it too, unless somebody else has the host or those around it.
        let around = around(host);
        let below = around.as_deref().is_some_and(has);
        let every = has("") || root.default_backend.is_some();
        let theirs = |name: &str| {
            self.owner(name, &standing).is_some_and(|owner| owner.root().1 != root.namespace)
        };
        let free = || !theirs(host) && !around.as_deref().is_some_and(theirs);
        // Rules for every host need no proof, but showing a certificate for one of them does.
        let shown = || {
            let mut before = before.into_iter().flat_map(|before| &before.tls);
            before.any(|tls| tls.hosts.iter().any(|shown| shown == host))
        };
        let proven = || standing(&Claim::of(root), host) != Standing::Unproven;
        if (below || (every && (shown() || proven()))) && free() {
            return vec![host.to_owned()];
        }
        let Some(rest) = host.strip_prefix("*.") else { return Vec::new() };
        let below = |rule: &&Rule| rule.host.split_once('.').is_some_and(|(_, of)| of == rest);
        rules.iter().filter(below).map(|rule| rule.host.clone()).collect()
    }
}
