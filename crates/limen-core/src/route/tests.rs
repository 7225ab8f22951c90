//! The table of the specification, and the compiled table beside a slow and obvious one.

use proptest::prelude::*;

use super::{HostBuffer, MatchedHost, Routes, RuleError, normal_host};
use crate::global::PathType::{self, Exact, ImplementationSpecific, Prefix};

/// One rule after the other, every one compared.
fn slow<'a>(rules: &'a [(String, String, PathType)], host: &str, path: &str) -> Option<&'a str> {
    let rank = |rule: &(String, String, PathType)| {
        let host_rank = match rule.0.as_str() {
            "" => 1,
            wildcard if wildcard.starts_with("*.") => {
                let (label, rest) = host.split_once('.')?;
                if label.is_empty() || rest != &wildcard[2..] {
                    return None;
                }
                2
            }
            exact if exact == host => 3,
            _ => return None,
        };
        if rule.2 == Exact {
            return (rule.1 == path).then_some((host_rank, 2, rule.1.len()));
        }
        let prefix = rule.1.strip_suffix('/').unwrap_or(&rule.1);
        let below = path.strip_prefix(prefix)?;
        (below.is_empty() || below.starts_with('/')).then_some((host_rank, 1, prefix.len()))
    };
    let mut best = None;
    for rule in rules {
        if let Some(rank) = rank(rule)
            && best.is_none_or(|(other, _)| rank > other)
        {
            best = Some((rank, rule));
        }
    }
    best.map(|(_, rule)| rule.1.as_str())
}

fn hosts() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a.b", "*.b", "c.b", "*.a.b", "b", "x.a.b", "*.x.a.b"])
        .prop_map(str::to_owned)
}

fn paths() -> impl Strategy<Value = String> {
    "(/[ab]{0,2}){1,4}/?"
}

proptest! {
    #[test]
    fn the_table_finds_what_comparing_every_rule_finds(
        rules in prop::collection::vec((hosts(), paths(), prop::sample::select(vec![Exact, Prefix])), 0..24),
        requests in prop::collection::vec((hosts(), paths()), 1..24),
    ) {
        let mut routes = Routes::default();
        let mut taken = Vec::new();
        for (host, path, kind) in rules {
            if routes.add(&host, &path, kind, path.clone()).is_ok() {
                taken.push((host, path, kind));
            }
        }
        for (host, path) in requests {
            let found = routes.find(&host, &path).map(|(_, found)| found.as_str());
            prop_assert_eq!(found, slow(&taken, &host, &path), "{} {}", host, path);
        }
    }

    #[test]
    fn no_host_and_no_path_is_too_strange(host in ".{0,40}", path in ".{0,40}") {
        let mut buffer = HostBuffer::default();
        let _ = normal_host(&host, &mut buffer);
        let mut routes = Routes::default();
        routes.add("", "/a", Prefix, ()).unwrap();
        let _ = routes.find(&host, &path);
    }
}

#[test]
fn paths_match_as_the_specification_lists_them() {
    for (kind, rule, request, matches) in [
        (Prefix, "/", "/", true),
        (Prefix, "/", "/foo/bar", true),
        (Exact, "/foo", "/foo", true),
        (Exact, "/foo", "/bar", false),
        (Exact, "/foo", "/foo/", false),
        (Exact, "/foo/", "/foo", false),
        (Prefix, "/foo", "/foo", true),
        (Prefix, "/foo", "/foo/", true),
        (Prefix, "/foo/", "/foo", true),
        (Prefix, "/foo/", "/foo/", true),
        (Prefix, "/aaa/bb", "/aaa/bbb", false),
        (Prefix, "/aaa/bbb", "/aaa/bbb", true),
        (Prefix, "/aaa/bbb/", "/aaa/bbb", true),
        (Prefix, "/aaa/bbb", "/aaa/bbb/", true),
        (Prefix, "/aaa/bbb", "/aaa/bbb/ccc", true),
        (Prefix, "/aaa/bbb", "/aaa/bbbxyz", false),
        (Prefix, "/AAA", "/aaa", false),
        (ImplementationSpecific, "/foo", "/foo/bar", true),
        (ImplementationSpecific, "", "/foo/bar", true),
    ] {
        let mut routes = Routes::default();
        routes.add("", rule, kind, ()).unwrap();
        assert_eq!(routes.find("h", request).is_some(), matches, "{kind:?} {rule} for {request}");
    }
}

#[test]
fn wildcards_stand_for_exactly_one_label() {
    let mut routes = Routes::default();
    routes.add("*.foo.com", "/", Prefix, ()).unwrap();
    for (host, matches) in
        [("bar.foo.com", true), ("baz.bar.foo.com", false), ("foo.com", false), (".foo.com", false)]
    {
        assert_eq!(routes.find(host, "/").is_some(), matches, "{host}");
    }
}

#[test]
fn a_request_falls_from_exact_host_to_wildcard_to_any_to_default() {
    let mut routes = Routes::default();
    routes.add("a.b.c", "/1", Prefix, "exact").unwrap();
    routes.add("*.b.c", "/2", Prefix, "wildcard").unwrap();
    routes.add("", "/3", Prefix, "any").unwrap();
    assert_eq!(routes.find("a.b.c", "/4"), None);
    assert!(routes.set_default("default"));
    assert!(!routes.set_default("other"));
    for (path, found) in [
        ("/1", (MatchedHost::Exact, &"exact")),
        ("/2", (MatchedHost::Wildcard, &"wildcard")),
        ("/3", (MatchedHost::Any, &"any")),
        ("/4", (MatchedHost::Default, &"default")),
    ] {
        assert_eq!(routes.find("a.b.c", path), Some(found));
    }
}

#[test]
fn rules_that_no_request_could_match_are_refused() {
    let mut routes = Routes::default();
    let mut refuse = |host: &str, path: &str| routes.add(host, path, Prefix, ()).unwrap_err();
    assert_eq!(refuse("a.*.b", "/"), RuleError::Asterisk("a.*.b".into()));
    assert_eq!(refuse("a b", "/"), RuleError::Host("a b".into()));
    assert_eq!(refuse("a.b", "x"), RuleError::Path("x".into()));
    routes.add("A.b", "/x/", Prefix, ()).unwrap();
    let taken = RuleError::Taken { host: "a.b".into(), path: "/x/".into() };
    assert_eq!(routes.add("a.b", "/x", ImplementationSpecific, ()), Err(taken));
}

#[test]
fn hosts_have_one_normal_form() {
    let mut buffer = HostBuffer::default();
    for (host, normal) in [
        ("a.b", Some("a.b")),
        ("A.b:80", Some("a.b")),
        ("a.b.:443", Some("a.b")),
        ("[::1]:80", Some("[::1]")),
        ("[::1]", Some("[::1]")),
        ("10.0.0.1:8080", Some("10.0.0.1")),
        ("", None),
        (".", None),
        ("a b", None),
        ("a/b", None),
        ("user@a", None),
        ("a:b", None),
        ("a:80:80", None),
        ("[::1", None),
        ("a:123456", None),
    ] {
        assert_eq!(normal_host(host, &mut buffer), normal, "{host}");
    }
}

#[test]
fn tables_share_the_rules_of_a_host_until_somebody_else_has_some_too() {
    let mut rules = super::HostRules::new("a.b").unwrap();
    rules.add("/x", Prefix, "first").unwrap();
    let (mut one, mut two) = (Routes::default(), Routes::default());
    assert_eq!((one.add_host(&rules), two.add_host(&rules)), (None, None));
    let mut others = super::HostRules::new("A.b").unwrap();
    others.add("/x/", Prefix, "second").unwrap();
    others.add("/y", Exact, "second").unwrap();
    let taken = RuleError::Taken { host: "A.b".into(), path: "/x/".into() };
    assert_eq!(two.add_host(&others), Some(taken));
    assert_eq!(two.find("a.b", "/x"), Some((MatchedHost::Exact, &"first")));
    assert_eq!(two.find("a.b", "/y"), Some((MatchedHost::Exact, &"second")));
    assert_eq!(one.find("a.b", "/y"), None, "the other table is as it was");
}
