//! Which hosts each Ingress gets, and which it may show certificates for. Pure.
//!
//! ```text
//! Ingress as it was submitted ─► claims of all ─► what each gets, and what it does not get
//! ```
//!
//! Namespaces do not trust each other, so the rules are those of a hub: a host belongs to the
//! namespace of the oldest Ingress that claims it, and a certificate is shown only for hosts that
//! the rules of its own Ingress serve.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::networking::v1::Ingress;
use limen_api::source::Key;
use limen_core::compile::{Claim, Claims, Root, Standing};
use limen_core::global::Global;
use limen_core::route::Place;

/// What an Ingress asks for.
pub(super) struct Asked {
    root: Root,
    /// The rest of its compiled form, without rules and certificates.
    rest: Global,
}

impl Asked {
    /// With the compiled form of the Ingress.
    pub(super) fn new(ingress: &Ingress, mut global: Global) -> Self {
        let created = ingress.metadata.creation_timestamp.as_ref();
        let mut root = Root {
            reference: global.root.clone().unwrap_or_default(),
            namespace: ingress.metadata.namespace.clone().unwrap_or_default(),
            created: created.map(|time| time.0.to_string()).unwrap_or_default(),
            rules: std::mem::take(&mut global.rules),
            default_backend: global.default_backend.clone(),
            tls: std::mem::take(&mut global.tls),
            ..Root::default()
        };
        let hosts = root.rules.iter_mut().map(|rule| &mut rule.host);
        for host in hosts.chain(root.tls.iter_mut().flat_map(|tls| &mut tls.hosts)) {
            // What is no host at all leads nowhere, and is told of where routes are made.
            if let Ok(place) = Place::of(host) {
                *host = place.host();
            }
        }
        Self { root, rest: global }
    }

    fn key(&self) -> Key {
        (self.root.namespace.clone(), self.root.reference.name.clone())
    }
}

/// What all of these get, and what they do not get, in words.
pub(super) fn settle(asked: Vec<Asked>) -> (BTreeMap<Key, Arc<Global>>, Vec<String>) {
    let claims = Claims::of(asked.iter().map(|asked| &asked.root));
    let proven = |_: &Claim, _: &str| Standing::Proven;
    let (mut globals, mut said) = (BTreeMap::new(), Vec::new());
    for asked in asked {
        let (rules, denied) = claims.granted(&asked.root, proven);
        let (tls, unserved) = claims.certificates(&asked.root, &rules, None, proven);
        let key = asked.key();
        let mut say = |what: String| said.push(format!("{}/{}: {what}", key.0, key.1));
        denied.iter().for_each(|denied| say(denied.to_string()));
        for host in unserved {
            say(format!(
                "tls names {host}, which no rule here serves: its certificate is not shown for it"
            ));
        }
        globals.insert(key, Arc::new(Global { rules, tls, ..asked.rest }));
    }
    (globals, said)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::translate;
    use super::*;

    /// An Ingress for a host, with a certificate for others.
    fn asked(namespace: &str, day: u8, host: &str, certified: &[&str]) -> Asked {
        let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
        let path = json!({ "path": "/", "pathType": "Prefix", "backend": backend });
        let ingress = json!({
            "metadata": { "name": "web", "namespace": namespace,
                          "creationTimestamp": format!("2026-01-0{day}T00:00:00Z") },
            "spec": { "tls": [{ "hosts": certified, "secretName": "cert" }],
                      "rules": [{ "host": host, "http": { "paths": [path] } }] },
        });
        let ingress: Ingress = serde_json::from_value(ingress).unwrap();
        let place = translate::Place {
            cluster: "here",
            locality: &Default::default(),
            services: &BTreeMap::new(),
            slices: translate::by_service([].into_iter()),
        };
        let global = place.global(&ingress);
        Asked::new(&ingress, global)
    }

    /// The hosts that the Ingress of a namespace serves, and those of its certificates.
    fn gets(globals: &BTreeMap<Key, Arc<Global>>, namespace: &str) -> (Vec<String>, Vec<String>) {
        let global = &globals[&(namespace.to_owned(), "web".to_owned())];
        let rules = global.rules.iter().map(|rule| rule.host.clone());
        (rules.collect(), global.tls.iter().flat_map(|tls| tls.hosts.clone()).collect())
    }

    fn hosts<const N: usize>(hosts: [&str; N]) -> Vec<String> {
        hosts.map(str::to_owned).into()
    }

    #[test]
    fn a_certificate_is_not_shown_for_a_host_of_another_namespace() {
        let (globals, said) = settle(vec![
            asked("aaa", 1, "own.test", &["shop.test", "Shop.test.", "own.test"]),
            asked("shop", 2, "shop.test", &["shop.test"]),
        ]);
        assert_eq!(gets(&globals, "aaa"), (hosts(["own.test"]), hosts(["own.test"])));
        assert_eq!(gets(&globals, "shop"), (hosts(["shop.test"]), hosts(["shop.test"])));
        let expected = "aaa/web: tls names shop.test, which no rule here serves: its certificate is not shown for it";
        assert_eq!(said, [expected]);
    }

    #[test]
    fn the_oldest_ingress_keeps_its_host_whatever_the_others_are_called() {
        for written in ["shop.test", "SHOP.test."] {
            let (globals, said) = settle(vec![
                asked("aaa", 2, written, &[]),
                asked("shop", 1, "shop.test", &["shop.test"]),
            ]);
            assert_eq!(gets(&globals, "aaa"), (vec![], vec![]), "{written}");
            assert_eq!(gets(&globals, "shop"), (hosts(["shop.test"]), hosts(["shop.test"])));
            let expected = "aaa/web: shop.test belongs to the Ingress shop/web, which is older";
            assert_eq!(said, [expected]);
        }
    }

    #[test]
    fn a_wide_rule_serves_what_nobody_else_has() {
        let wide = || asked("aaa", 1, "*.test", &["shop.test", "free.test", "*.test"]);
        let (globals, said) = settle(vec![wide()]);
        let all = hosts(["shop.test", "free.test", "*.test"]);
        assert_eq!((gets(&globals, "aaa").1, said), (all, vec![]));
        let (globals, said) = settle(vec![wide(), asked("shop", 2, "shop.test", &[])]);
        assert_eq!(gets(&globals, "aaa").1, hosts(["free.test", "*.test"]));
        assert_eq!(said.len(), 1, "{said:?}");
        let tls = &globals[&("shop".to_owned(), "web".to_owned())].tls;
        assert_eq!(tls.len(), 1, "without hosts it is for all that the rules have");
    }
}
