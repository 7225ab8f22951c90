//! Facts on the left, verdicts on the right.

use super::super::facts::{Answer, Health, Hub, Leader, Member, Seen, Server, Zone};
use super::*;

const NOW: i64 = 1_800_000_000;
const DAY: i64 = 86_400;

/// A federation in which all is well.
fn well() -> Facts {
    let seen = Seen {
        version: "v1.36.0".to_owned(),
        clock_ahead: Some(0),
        credential_ends: Some(NOW + 300 * DAY),
        lacking_rights: Vec::new(),
    };
    let member = |name: &str| Member {
        name: name.to_owned(),
        api: Health::Healthy,
        edge: Health::Healthy,
        endpoints: Health::Healthy,
        seen: Some(Ok(seen.clone())),
        ..Member::default()
    };
    let answer = ("192.0.2.53".to_owned(), Ok(Answer::Authoritative));
    Facts {
        now: NOW,
        hub: Hub {
            version: "v1.36.0".to_owned(),
            clock_ahead: Some(1),
            certificate_ends: Some(NOW + 300 * DAY),
            leader: Some(Leader { name: "hub-1".to_owned(), renewed: NOW - 2, lasts: 15 }),
            ..Hub::default()
        },
        members: vec![member("a"), member("b")],
        edges: vec![Edge {
            name: "edge-1".to_owned(),
            reported: Some(NOW - 3),
            addresses: vec![("203.0.113.7".to_owned(), Ok(()))],
        }],
        zones: vec![Zone {
            name: "shop.test".to_owned(),
            servers: vec![Server { name: "ns1.shop.test".to_owned(), addresses: vec![answer] }],
            delegated: Some(Ok(vec!["NS1.shop.test.".to_owned()])),
        }],
        ..Facts::default()
    }
}

/// What is left of the facts when something cannot be read.
fn unread(facts: &mut Facts, what: &'static str) {
    facts.hub.leader.take_if(|_| what == "leader");
    facts.unread = vec![(what, "forbidden".to_owned())];
}

/// What is not well, as one line each.
fn troubles(facts: &Facts) -> Vec<String> {
    let troubled = judge(facts).into_iter().filter(|check| check.verdict != Verdict::Ok);
    troubled
        .map(|check| {
            assert!(!check.advice.is_empty(), "no advice: {check:?}");
            format!("{} {}: {}", check.about, check.check, check.verdict.word())
        })
        .collect()
}

#[test]
fn an_edge_is_silent_by_the_clock_of_the_hub() {
    for (ahead, reported, verdict) in [
        (3600, NOW + 3590, Verdict::Ok),
        (3600, NOW - 3, Verdict::Fault),
        (-3600, NOW - 3610, Verdict::Ok),
        (-3600, NOW - 3640, Verdict::Fault),
    ] {
        let mut facts = well();
        facts.hub.clock_ahead = Some(ahead);
        facts.edges[0].reported = Some(reported);
        let checks = judge(&facts);
        let check =
            checks.iter().find(|one| one.about == "edge edge-1" && one.check == "report").unwrap();
        assert_eq!(check.verdict, verdict, "{ahead}: {check:?}");
    }
}

#[test]
fn when_all_is_well_nothing_is_said_to_be_wrong() {
    assert_eq!(troubles(&well()), Vec::<String>::new());
    assert!(judge(&well()).len() > 12, "and everything was looked at");
}

#[test]
fn each_trouble_has_its_verdict() {
    type Change = fn(&mut Facts);
    let seen = |facts: &mut Facts, change: fn(&mut Seen)| {
        if let Some(Ok(seen)) = &mut facts.members[0].seen {
            change(seen);
        }
    };
    let cases: [(Change, &[&str]); 29] = [
        (|f| f.hub.certificate_ends = Some(NOW - 1), &["hub certificate: fault"]),
        (|f| f.hub.certificate_ends = Some(NOW + DAY), &["hub certificate: warning"]),
        (|f| f.hub.credential_ends = Some(NOW + 13 * DAY), &["hub credential: warning"]),
        (|f| f.hub.clock_ahead = Some(-61), &["hub clock: fault"]),
        (|f| f.hub.clock_ahead = Some(7), &["hub clock: warning"]),
        (
            |f| f.hub.missing_definitions = vec!["edges.limen.dev".into()],
            &["hub definitions: fault"],
        ),
        (
            |f| f.hub.other_definitions = vec!["edges.limen.dev".into()],
            &["hub definitions: warning"],
        ),
        (|f| f.hub.leader.as_mut().unwrap().renewed = NOW - 31, &["hub leader: fault"]),
        (|f| f.hub.leader = None, &["hub leader: fault"]),
        (
            |f| {
                f.hub.leader = None;
                f.hub.version = "v1.36.0+limen.0.1.0".into();
            },
            &[],
        ),
        (|f| f.members.clear(), &["members joined: warning"]),
        (|f| f.members[0].api = Health::Unhealthy, &["member a api: fault"]),
        (|f| f.members[0].unwritable = Some("superseded".into()), &["member a writes: fault"]),
        (|f| f.members[0].edge = Health::Unhealthy, &["member a way in: fault"]),
        (|f| f.members[1].endpoints = Health::Unhealthy, &["member b endpoints: warning"]),
        (|f| f.members[1].drained = true, &["member b drain: warning"]),
        (|f| f.members[1].tombstones = 3, &["member b deletions: warning"]),
        (|f| f.members[1].missing_kinds = vec!["Route".into()], &["member b kinds: warning"]),
        (|f| f.members[0].seen = Some(Err("refused".into())), &["member a access: warning"]),
        (|f| f.edges.clear(), &["edges report: warning"]),
        (|f| f.edges[0].reported = Some(NOW - 31), &["edge edge-1 report: fault"]),
        (|f| f.edges[0].reported = None, &["edge edge-1 report: fault"]),
        (|f| f.edges[0].addresses[0].1 = Err("refused".into()), &["edge edge-1 address: warning"]),
        (|f| f.unread = vec![("edges", "forbidden".into())], &["edges read: warning"]),
        (|f| unread(f, "definitions"), &["hub definitions: warning"]),
        (|f| unread(f, "leader"), &["hub leader: warning"]),
        (|f| unread(f, "roots"), &["roots leaves: warning"]),
        (
            |f| f.policies = vec![Policy { kind: "TrafficPolicy", ..Policy::default() }],
            &["TrafficPolicy  policy: fault"],
        ),
        (
            |f| {
                f.members[0].api = Health::Unhealthy;
                f.members[0].seen = Some(Err("refused".into()));
            },
            &["member a api: fault"],
        ),
    ];
    for (change, expected) in cases {
        let mut facts = well();
        change(&mut facts);
        assert_eq!(troubles(&facts), expected);
    }
    type SeenChange = fn(&mut Seen);
    let of_members: [(SeenChange, &str); 4] = [
        (|seen| seen.credential_ends = Some(NOW - DAY), "member a credential: fault"),
        (|seen| seen.lacking_rights = vec!["patch pods".into()], "member a rights: fault"),
        (|seen| seen.version = "v1.32.9-gke.1".into(), "member a version: warning"),
        (|seen| seen.clock_ahead = Some(3600), "member a clock: fault"),
    ];
    for (change, expected) in of_members {
        let mut facts = well();
        seen(&mut facts, change);
        assert_eq!(troubles(&facts), [expected]);
    }
}

#[test]
fn a_hub_that_does_not_answer_is_all_there_is_to_say() {
    let mut facts = well();
    facts.hub.silent = Some("connection refused".to_owned());
    assert_eq!(troubles(&facts), ["hub answers: fault"]);
    assert_eq!(judge(&facts).len(), 1);
}

#[test]
fn zones_must_be_delegated_to_servers_that_answer_for_them() {
    let told = |names: &[&str]| Some(Ok(names.iter().map(|&name| name.to_owned()).collect()));
    type Told = Option<Result<Vec<String>, String>>;
    let cases: [(Told, &[&str]); 5] = [
        (told(&[]), &["zone shop.test delegation: fault"]),
        (told(&["ns.elsewhere.test"]), &["zone shop.test delegation: fault"]),
        (told(&["ns1.shop.test", "ns2.shop.test"]), &["zone shop.test delegation: warning"]),
        (Some(Err("silent".to_owned())), &["zone shop.test delegation: warning"]),
        (None, &[]),
    ];
    for (delegated, expected) in cases {
        let mut facts = well();
        facts.zones[0].delegated = delegated;
        assert_eq!(troubles(&facts), expected);
    }
    for answer in [Err("silent".to_owned()), Ok(Answer::NotAuthoritative), Ok(Answer::Refused(5))] {
        let mut facts = well();
        facts.zones[0].servers[0].addresses[0].1 = answer;
        assert_eq!(troubles(&facts), ["zone shop.test answers: fault"]);
    }
    let mut facts = well();
    facts.zones[0].servers[0].addresses.clear();
    assert_eq!(troubles(&facts), ["zone shop.test glue: fault"]);
    facts.zones[0].servers[0].name = "ns1.elsewhere.test".to_owned();
    facts.zones[0].delegated = told(&["ns1.elsewhere.test"]);
    assert_eq!(troubles(&facts), Vec::<String>::new(), "others' names need no glue");
}

#[test]
fn roots_say_what_is_the_matter_and_the_command_that_helps() {
    let root = Root {
        name: "ingress/web".to_owned(),
        namespace: "shop".to_owned(),
        message: "held: 4 leaves would be deleted".to_owned(),
        held: vec!["a".to_owned()],
        conflicts: vec!["b".to_owned()],
        failed: vec![("c".to_owned(), "denied".to_owned()), ("d".to_owned(), String::new())],
    };
    let facts = Facts { roots: vec![root], ..well() };
    let checks = judge(&facts);
    let of_root: Vec<&Check> = checks.iter().filter(|one| one.about.starts_with("root")).collect();
    let names: Vec<_> = of_root.iter().map(|one| (one.check, one.verdict)).collect();
    let fault = Verdict::Fault;
    assert_eq!(names, [("held", fault), ("conflict", fault), ("leaves", fault)]);
    assert!(of_root[0].advice.contains("limen release ingress/web -n shop"));
    assert_eq!(of_root[2].found, "c: denied (and 1 more)");
}
