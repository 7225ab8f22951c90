//! What is kept from one snapshot to the next, and what is said about mistakes.

use std::sync::Arc;

use arc_swap::ArcSwap;
use limen_core::global::{
    Address, Backend, Global, HealthCheck, Outliers, PathRule, PathType, Rule, Target, TlsHosts,
};
use limen_core::locality::Locality;
use proptest::prelude::*;

use super::Compiler;
use crate::snapshot::Snapshot;
use crate::tls::ServerTls;
use limen_api::source::{Objects, SecretData};

fn compiler() -> Compiler {
    let snapshot = Arc::new(ArcSwap::from_pointee(Snapshot::default()));
    Compiler::new(Locality::default(), Arc::new(ServerTls::new(snapshot).unwrap()), true)
}

fn global(host: &str, ports: &[u16]) -> Global {
    let addresses = ports.iter().map(|port| Address { host: "127.0.0.1".into(), port: *port });
    let target = Target { addresses: addresses.collect(), ..Target::default() };
    let path =
        PathRule { path: "/".into(), path_type: PathType::Prefix, backend: "web".to_owned() };
    let mut global = Global {
        rules: vec![Rule { host: host.into(), paths: vec![path] }],
        backends: vec![Backend { name: "web".into(), targets: vec![target] }],
        ..Global::default()
    };
    global.traffic.health_check = Some(HealthCheck::default());
    global
}

fn objects(globals: impl IntoIterator<Item = Global>) -> Objects {
    let keyed = globals.into_iter().enumerate();
    let keyed = keyed.map(|(index, global)| (("ns".into(), format!("g{index}")), Arc::new(global)));
    Objects { ingresses: keyed.collect(), ..Objects::default() }
}

fn backend(snapshot: &Snapshot, host: &str) -> Arc<crate::snapshot::Backend> {
    snapshot.routes.find(host, "/").unwrap().1.backend.clone().unwrap()
}

#[test]
fn what_has_not_changed_is_taken_over() {
    let mut compiler = compiler();
    let (first, probes) =
        compiler.compile(&objects([global("a.test", &[1, 2]), global("b.test", &[3])]));
    assert_eq!(probes.len(), 3, "every address is probed once");
    let (second, probes) =
        compiler.compile(&objects([global("a.test", &[2, 4]), global("b.test", &[3])]));
    assert_eq!(probes.len(), 1, "only what is new is probed from now on");
    assert!(Arc::ptr_eq(&backend(&first, "b.test"), &backend(&second, "b.test")));
    let (old, new) = (backend(&first, "a.test"), backend(&second, "a.test"));
    assert!(!Arc::ptr_eq(&old, &new));
    let (old, new) = (&old.targets[0], &new.targets[0]);
    assert!(Arc::ptr_eq(&old.addresses[1], &new.addresses[0]), "an address keeps what is known");
    assert!(Arc::ptr_eq(&old.metrics, &new.metrics));
}

#[test]
fn an_ejected_address_stays_ejected_when_others_come_and_go() {
    let mut compiler = compiler();
    let (first, _) = compiler.compile(&objects([global("a.test", &[1, 2])]));
    let rules = Outliers { consecutive_failures: 1, eject_seconds: 60, ..Outliers::default() };
    assert!(backend(&first, "a.test").targets[0].addresses[0].failed(&rules, 1000, || true));
    let (second, _) = compiler.compile(&objects([global("a.test", &[1, 2, 3])]));
    assert_eq!(backend(&second, "a.test").ejected(2000), (1, 3));
}

#[test]
fn roots_that_lead_to_the_same_place_share_endpoint_and_probe() {
    let mut compiler = compiler();
    let mut roots = [global("a.test", &[1]), global("b.test", &[1])];
    for root in &mut roots {
        root.traffic.health_check =
            Some(HealthCheck { host: Some("probe".into()), ..HealthCheck::default() });
    }
    let (snapshot, probes) = compiler.compile(&objects(roots));
    assert_eq!(probes.len(), 1);
    let address = |host| backend(&snapshot, host).targets[0].addresses[0].clone();
    assert!(Arc::ptr_eq(&address("a.test").endpoint, &address("b.test").endpoint));
    assert!(!Arc::ptr_eq(&address("a.test"), &address("b.test")), "failures are each their own");
}

#[test]
fn what_nobody_asks_to_be_probed_shares_one_prober_for_each_address() {
    let root = |index: u16| {
        let mut root = global(&format!("h{index}.test"), &[1, 2]);
        root.traffic.health_check = None;
        // What no rule leads to may not even be HTTP.
        let target = Target { addresses: vec![Address::default()], ..Target::default() };
        root.backends.push(Backend { name: "other".into(), targets: vec![target] });
        root
    };
    let (snapshot, probes) = compiler().compile(&objects((0..1000).map(root)));
    assert_eq!(probes.len(), 2, "for a thousand routes to two addresses");
    let health =
        |host| backend(&snapshot, host).targets[0].addresses[0].health.clone().expect("it has one");
    assert!(Arc::ptr_eq(&health("h0.test"), &health("h999.test")));
    let first = snapshot.ingresses.get("ns/g0").expect("it is there");
    let unused = first.backend("other").expect("it has one");
    assert!(unused.targets[0].addresses[0].health.is_none());
}

#[test]
fn what_was_measured_compiles_only_what_it_puts_in_another_order() {
    let mut compiler = compiler();
    let mut roots = ["alone.test", "choice.test"].map(|host| global(host, &[1]));
    roots[0].backends[0].targets[0].cluster = "near".into();
    let targets = ["far", "near"].map(|cluster| {
        let addresses = vec![Address { host: "127.0.0.1".into(), port: 1 }];
        Target { cluster: cluster.into(), addresses, ..Target::default() }
    });
    roots[1].backends[0].targets = targets.into();
    let all = objects(roots);
    let (first, _) = compiler.compile(&all);
    assert!(compiler.measured(&[("far".to_owned(), 90.0), ("near".to_owned(), 9.0)].into()));
    let (second, _) = compiler.compile(&all);
    let same = |host| Arc::ptr_eq(&backend(&first, host), &backend(&second, host));
    assert!(same("alone.test"), "there is no other order");
    assert!(!same("choice.test"));
    let nearest = backend(&second, "choice.test").plan.preferred().next();
    assert_eq!(nearest.map(|(index, _)| index), Some(1));
}

#[test]
fn mistakes_are_named_and_harm_nobody_else() {
    let mut compiler = compiler();
    let mut wrong = global("a.test", &[1]);
    wrong.rules[0].paths[0].backend = "missing".into();
    wrong.tls = vec![TlsHosts { hosts: Vec::new(), secret_name: Some("cert".into()) }];
    let mut odd = global("a.*.test", &[1]);
    odd.default_backend = Some("web".into());
    let mut objects = objects([wrong, odd, global("a.test", &[1]), global("b.test", &[1])]);
    let secret = SecretData([("tls.crt".to_owned(), b"nonsense".to_vec())].into());
    objects.secrets.insert(("ns".into(), "cert".into()), Arc::new(secret));
    let (snapshot, _) = compiler.compile(&objects);
    let said = snapshot.problems.join("\n");
    for part in [
        "ns/g0: there is no backend missing",
        "ns/g0: the certificate in Secret cert cannot be used",
        "ns/g1: host \"a.*.test\": an asterisk may only be",
        "ns/g2: host \"a.test\" path \"/\" is taken by an earlier rule",
    ] {
        assert!(said.contains(part), "no {part:?} in\n{said}");
    }
    assert!(snapshot.routes.find("a.test", "/").unwrap().1.backend.is_none());
    assert!(snapshot.routes.find("b.test", "/").unwrap().1.backend.is_some());
    assert!(snapshot.routes.find("z.test", "/").is_some(), "the default is for everybody");
}

#[test]
fn changing_one_of_many_roots_compiles_only_that_one() {
    let mut compiler = compiler();
    let mut all = objects((0..500).map(|index| global(&format!("h{index}.test"), &[index + 1])));
    let (first, _) = compiler.compile(&all);
    let key = ("ns".to_owned(), "g7".to_owned());
    all.ingresses.insert(key.clone(), Arc::new(global("new.test", &[9])));
    let (second, _) = compiler.compile(&all);
    let route = |snapshot: &Snapshot, host: &str| {
        snapshot.routes.find(host, "/").map(|(_, route)| route.clone())
    };
    for index in (0..500).filter(|index| *index != 7) {
        let host = format!("h{index}.test");
        let (before, after) = (route(&first, &host).unwrap(), route(&second, &host).unwrap());
        assert!(Arc::ptr_eq(&before, &after), "{host} was compiled again");
    }
    assert!(route(&second, "h7.test").is_none() && route(&second, "new.test").is_some());
    assert!(route(&first, "h7.test").is_some(), "a snapshot stays as it is");
    all.ingresses.remove(&key);
    let (third, _) = compiler.compile(&all);
    assert!(route(&third, "new.test").is_none());
    assert_eq!((third.ingresses.len(), compiler.compiled.len()), (499, 499));
}

/// A root as a test makes it up: hosts with whether they have a path of their own, whether it has a
/// default, and the Secret that it names.
type Made = (Vec<(usize, bool)>, bool, Option<usize>);

const HOSTS: [&str; 5] = ["a.test", "b.test", "*.test", "", "A.test"];
const SECRETS: [&str; 3] = ["one", "two", "missing"];

fn made((hosts, default, secret): &Made) -> Global {
    let mut made = global("", &[1]);
    let path = made.rules[0].paths[0].clone();
    made.rules = hosts
        .iter()
        .map(|(host, own)| Rule {
            host: HOSTS[*host].into(),
            paths: if *own {
                vec![path.clone(), PathRule { path: "/x".into(), ..path.clone() }]
            } else {
                vec![PathRule { path: "/y".into(), ..path.clone() }]
            },
        })
        .collect();
    made.default_backend = default.then(|| "web".to_owned());
    made.tls = secret
        .iter()
        .map(|secret| TlsHosts { hosts: vec![], secret_name: Some(SECRETS[*secret].into()) })
        .collect();
    made
}

/// Everything that clients and people can see of a snapshot.
fn seen(snapshot: &Snapshot) -> Vec<String> {
    let mut seen: Vec<String> = snapshot.problems.clone();
    for host in ["a.test", "b.test", "c.test", "c.c.test"] {
        for path in ["/", "/x", "/y"] {
            let found = snapshot
                .routes
                .find(host, path)
                .map(|(matched, route)| (matched, &route.ingress.label, &route.host, &route.path));
            seen.push(format!("{host}{path} {found:?}"));
        }
        let certificate = snapshot.certificates.get(host).map(|key| key.cert[0].to_vec());
        seen.push(format!("{host} {certificate:?}"));
    }
    seen.extend(snapshot.ingresses.values().map(|ingress| ingress.label.clone()));
    seen.sort();
    seen
}

fn certificate() -> Arc<SecretData> {
    let made = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).unwrap();
    let parts = [("tls.crt", made.cert.pem()), ("tls.key", made.signing_key.serialize_pem())];
    let parts = parts.map(|(name, text)| (name.to_owned(), text.into_bytes()));
    Arc::new(SecretData(parts.into()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn one_change_after_the_other_comes_to_the_same_as_everything_at_once(
        steps in proptest::collection::vec(
            (0..5usize, proptest::option::weighted(0.8, (
                proptest::collection::vec((0..HOSTS.len(), any::<bool>()), 0..4),
                any::<bool>(),
                proptest::option::of(0..SECRETS.len()),
            )), any::<bool>()),
            1..12,
        )
    ) {
        let certificates = [certificate(), certificate()];
        let mut compiler = compiler();
        let mut all = Objects::default();
        for (name, root, turned) in steps {
            let key = ("ns".to_owned(), format!("g{name}"));
            match &root {
                Some(root) => drop(all.ingresses.insert(key, Arc::new(made(root)))),
                None => drop(all.ingresses.remove(&key)),
            }
            for (index, name) in SECRETS.iter().enumerate().take(2) {
                let certificate = certificates[(index + usize::from(turned)) % 2].clone();
                all.secrets.insert(("ns".to_owned(), (*name).to_owned()), certificate);
            }
            let (snapshot, _) = compiler.compile(&all);
            let (fresh, _) = self::compiler().compile(&all);
            prop_assert_eq!(seen(&snapshot), seen(&fresh));
        }
    }
}

#[test]
fn what_a_source_denies_is_said_among_the_problems() {
    let mut objects = objects([global("a.test", &[1])]);
    objects.denied = vec!["ns/g1: a.test belongs to somebody else".to_owned()];
    let (snapshot, _) = compiler().compile(&objects);
    assert_eq!(snapshot.problems, objects.denied);
}
