//! Who may serve which host, however it is written, and who may show a certificate for it.

use serde_json::{Value, json};

use super::super::{Claim, Claims, Root, RootError, Standing};
use super::ingress;
use crate::global::{Global, PathRule, Rule, TlsHosts};

const DAYS: [&str; 4] = [
    "2026-01-01T00:00:00Z",
    "2026-01-02T00:00:00Z",
    "2026-01-03T00:00:00Z",
    "2026-01-04T00:00:00Z",
];

/// An Ingress of a namespace, as old as the day says.
fn object(namespace: &str, name: &str, day: usize, host: &str) -> Value {
    let mut object = ingress(host);
    object["metadata"]["namespace"] = json!(namespace);
    object["metadata"]["name"] = json!(name);
    object["metadata"]["creationTimestamp"] = json!(DAYS[day]);
    object
}

fn root(namespace: &str, name: &str, day: usize, host: &str) -> Root {
    Root::of_ingress(&object(namespace, name, day, host)).unwrap()
}

/// With a certificate for these hosts.
fn certified(namespace: &str, day: usize, host: &str, hosts: &[&str]) -> Root {
    let mut object = object(namespace, "web", day, host);
    object["spec"]["tls"] = json!([{"hosts": hosts, "secretName": "own"}]);
    Root::of_ingress(&object).unwrap()
}

fn claims(roots: &[&Root]) -> Claims {
    Claims::of(roots.iter().copied())
}

/// Where nothing has to be proven.
fn proven(_: &Claim, _: &str) -> Standing {
    Standing::Proven
}

fn says(claims: &Claims, root: &Root, standing: impl Fn(&Claim, &str) -> Standing) -> Vec<String> {
    claims.granted(root, standing).1.iter().map(ToString::to_string).collect()
}

fn hosts(rules: &[Rule]) -> Vec<&str> {
    rules.iter().map(|rule| rule.host.as_str()).collect()
}

/// What a root may show its certificates for, and what not.
fn shown(claims: &Claims, root: &Root) -> (Vec<String>, Vec<String>) {
    let (granted, _) = claims.granted(root, proven);
    let (certificates, unserved) = claims.certificates(root, &granted, None, proven);
    (certificates.into_iter().flat_map(|tls| tls.hosts).collect(), unserved)
}

#[test]
fn the_oldest_root_keeps_a_host() {
    let old = root("shop", "a", 0, "shared.test");
    let other_path = {
        let mut root = root("shop", "b", 1, "shared.test");
        root.rules[0].paths[0].path = "/b".to_owned();
        root
    };
    let same_path = root("shop", "c", 2, "shared.test");
    let elsewhere = root("other", "d", 3, "shared.test");
    let mut claims = claims(&[&elsewhere, &same_path, &other_path, &old]);
    for fine in [&old, &other_path] {
        assert_eq!(says(&claims, fine, proven), [""; 0]);
    }
    for (root, what) in [(&same_path, "shared.test/"), (&elsewhere, "shared.test")] {
        let expected = format!("{what} belongs to the Ingress shop/a, which is older");
        assert_eq!(says(&claims, root, proven), [expected]);
    }
    for root in [&old, &other_path, &same_path] {
        claims.remove(root);
    }
    assert_eq!(claims.granted(&elsewhere, proven), (elsewhere.rules.clone(), vec![]));
}

#[test]
fn another_way_to_write_a_host_is_no_other_host() {
    let owner = root("shop", "web", 0, "shop.test");
    for host in ["SHOP.test", "shop.test.", "shop.test:80", "Shop.Test.:443"] {
        let thief = root("aaa", "web", 1, host);
        let claims = claims(&[&owner, &thief]);
        assert_eq!(hosts(&claims.granted(&thief, proven).0), [""; 0], "{host}");
        assert_eq!(claims.granted(&owner, proven).0, owner.rules, "{host}");
    }
    let wide = root("shop", "web", 0, "*.Shop.test.");
    assert_eq!(hosts(&wide.rules), ["*.shop.test"]);
    for host in ["shop.test..", "shop..test", ".shop.test", "a b", "*", "a.*.test", "x:y"] {
        let refused = Root::of_ingress(&object("aaa", "web", 1, host));
        assert!(matches!(refused, Err(RootError::Host(_))), "{host}: {refused:?}");
        let mut unnamed = root("aaa", "web", 1, "");
        assert!(unnamed.under(host).is_err(), "{host}");
    }
    let mut unnamed = root("aaa", "web", 1, "");
    unnamed.under("SHOP.test").unwrap();
    assert_eq!(hosts(&unnamed.rules), ["shop.test"]);
}

#[test]
fn another_way_to_write_a_path_for_every_host_is_no_other_path() {
    let with = |namespace: &str, day: usize, path: &str| {
        let mut root = root(namespace, "web", day, "");
        root.rules[0].paths =
            vec![PathRule { path: path.to_owned(), ..root.rules[0].paths[0].clone() }];
        root
    };
    for (path, same) in [("/", ""), ("/api", "/api/"), ("/api/", "/api")] {
        let (owner, thief) = (with("shop", 0, path), with("aaa", 1, same));
        let claims = claims(&[&owner, &thief]);
        assert_eq!(claims.granted(&owner, proven).0, owner.rules, "{path}");
        assert_eq!(claims.granted(&thief, proven).0, [], "{same}");
    }
}

#[test]
fn a_certificate_is_shown_only_for_hosts_that_its_root_serves() {
    let owner = certified("shop", 0, "shop.test", &["shop.test"]);
    let thief = certified("aaa", 1, "own.test", &["shop.test", "SHOP.test.", "own.test"]);
    let both = claims(&[&owner, &thief]);
    assert_eq!(shown(&both, &owner), (vec!["shop.test".to_owned()], vec![]));
    let expected = (vec!["own.test".to_owned()], vec!["shop.test".to_owned()]);
    assert_eq!(shown(&both, &thief), expected);

    // Nothing is left of it; an empty list would mean all hosts of its rules.
    let thief = certified("aaa", 1, "own.test", &["shop.test"]);
    let (granted, _) = both.granted(&thief, proven);
    assert_eq!(both.certificates(&thief, &granted, None, proven).0, []);

    // The host was asked for, too, and not got: that is said once.
    let thief = certified("aaa", 1, "shop.test", &["shop.test"]);
    assert_eq!(shown(&claims(&[&owner, &thief]), &thief), (vec![], vec![]));
}

#[test]
fn wide_rules_and_wide_certificates_leave_the_hosts_of_others_alone() {
    let owner = root("shop", "web", 1, "shop.test");
    for host in ["", "*.test"] {
        // Older, and for every host that nobody else has.
        let wide = certified("aaa", 0, host, &["shop.test", "free.test"]);
        let expected = (vec!["free.test".to_owned()], vec!["shop.test".to_owned()]);
        assert_eq!(shown(&claims(&[&owner, &wide]), &wide), expected, "{host:?}");
        let mut alone = claims(&[&wide]);
        assert_eq!(shown(&alone, &wide).0, ["shop.test", "free.test"], "{host:?}");
        let concerned = alone.add(&owner);
        assert!(concerned.contains(&Claim::of(&wide)), "it is looked at again: {concerned:?}");
    }
    let narrow = certified("aaa", 0, "own.test", &["*.test"]);
    let expected = (vec!["own.test".to_owned()], vec![]);
    assert_eq!(shown(&claims(&[&owner, &narrow]), &narrow), expected, "and not for all below test");
}

#[test]
fn rules_for_every_host_leave_those_below_the_wildcard_of_another_alone() {
    let owner = root("shop", "web", 1, "*.shop.test");
    let wide = certified("aaa", 0, "", &["a.shop.test", "*.shop.test", "a.b.shop.test"]);
    let expected = (
        vec!["a.b.shop.test".to_owned()],
        vec!["a.shop.test".to_owned(), "*.shop.test".to_owned()],
    );
    assert_eq!(shown(&claims(&[&owner, &wide]), &wide), expected);
    let mut alone = claims(&[&wide]);
    assert_eq!(shown(&alone, &wide).0.len(), 3);
    for concerned in [alone.add(&owner), alone.remove(&owner)] {
        assert!(concerned.contains(&Claim::of(&wide)), "it is looked at again: {concerned:?}");
    }
}

#[test]
fn rules_for_every_host_show_certificates_only_for_proven_hosts() {
    let shown = |host: &str, before: Option<&Global>, standing: Standing| {
        let root = certified("aaa", 0, host, &["a.bank.test"]);
        let (certificates, unserved) =
            claims(&[&root]).certificates(&root, &root.rules, before, |_, _| standing);
        assert_eq!(certificates.len() + unserved.len(), 1);
        certificates.len() == 1
    };
    assert!(shown("", None, Standing::Proven));
    assert!(!shown("", None, Standing::Unproven));
    assert!(shown("*.bank.test", None, Standing::Unproven), "the rule itself is proven");
    let tls = vec![TlsHosts { hosts: vec!["a.bank.test".to_owned()], secret_name: None }];
    let before = Global { tls, ..Global::default() };
    assert!(shown("", Some(&before), Standing::Unproven), "what was shown once stays");
}

#[test]
fn an_older_claim_without_a_proof_keeps_nobody_away() {
    use Standing::{Proven, Served, Unproven};
    let squatter = root("aaa", "web", 0, "shop.test");
    let owner = root("shop", "web", 1, "shop.test");
    let claims = claims(&[&squatter, &owner]);
    let standing = |of_squatter: Standing, of_owner: Standing| {
        move |claim: &Claim, _: &str| if claim.root().1 == "aaa" { of_squatter } else { of_owner }
    };
    // Those who are denied, by how good the claims of both are.
    for (of_squatter, of_owner, denied) in [
        (Unproven, Proven, [true, false]),
        (Unproven, Served, [true, false]),
        (Served, Proven, [true, false]),
        (Served, Unproven, [false, true]),
        (Proven, Proven, [false, true]),
        (Unproven, Unproven, [false, false]),
    ] {
        let of = standing(of_squatter, of_owner);
        let found = [&squatter, &owner].map(|root| !claims.granted(root, of).1.is_empty());
        assert_eq!(found, denied, "{of_squatter:?} {of_owner:?}");
    }
    assert_eq!(
        says(&claims, &squatter, standing(Unproven, Proven)),
        ["shop.test belongs to the Ingress shop/web, whose claim is proven or served already"]
    );
}
