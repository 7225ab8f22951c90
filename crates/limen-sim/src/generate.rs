//! Scenarios from a seed.

use crate::network::Weather;
use crate::people::{TWIN, TWIN_RESOURCE};
use crate::random::Random;
use crate::scenario::{Action, Guise, Meddling, Placement, Scenario};
use crate::world::HUB;

const MEMBERS: [&str; 3] = ["africa", "asia", "europe"];
const NAMESPACES: [&str; 2] = ["blog", "shop"];
const NAMES: [&str; 3] = ["one", "two", "web"];
const KINDS: [&str; 10] = [
    "ConfigMap",
    "ConfigMap",
    "Secret",
    "Service",
    "Ingress",
    "Deployment",
    "Deployment",
    "Job",
    "HorizontalPodAutoscaler",
    TWIN,
];

/// The scenario of a seed.
pub fn generate(seed: u64) -> Scenario {
    let mut random = Random::new(seed);
    let mut scenario = Scenario::new(seed, &MEMBERS);
    scenario.elects = random.permille(200);
    scenario.rest = 900;
    let mut now = 5000;
    let focus = Focus {
        namespace: random.pick::<&str>(&NAMESPACES),
        kind: random.pick::<&str>(&KINDS),
        name: random.pick::<&str>(&NAMES),
    };
    let crowd = random.permille(250);
    if crowd {
        let namespace = (*random.pick(&NAMESPACES)).to_owned();
        let count = u32::try_from(random.between(60, 90)).unwrap_or(60);
        scenario.actions.push((now, Action::ApplyMany { namespace, count }));
        now += 8000;
    }
    for _ in 0..random.between(8, 40) {
        now += match random.below(6) {
            0 => random.between(0, 30),
            1 | 2 => random.between(30, 1500),
            3 | 4 => random.between(1000, 15_000),
            _ => random.between(10_000, 120_000),
        };
        let action = action(&mut random, &focus, scenario.elects);
        scenario.actions.push((now, action));
    }
    scenario
}

/// Focus of a history: accidents need several things to happen to one object.
struct Focus {
    namespace: &'static str,
    kind: &'static str,
    name: &'static str,
}

fn action(random: &mut Random, focus: &Focus, elects: bool) -> Action {
    let text = |text: &&str| (*text).to_owned();
    let mut namespace = text(random.pick(&NAMESPACES));
    let (mut kind, mut name) = (text(random.pick(&KINDS)), text(random.pick(&NAMES)));
    if random.permille(700) {
        namespace = text(&focus.namespace);
    }
    if random.permille(450) {
        (kind, name) = (text(&focus.kind), text(&focus.name));
    }
    let member = text(random.pick(&MEMBERS));
    let revision = u32::try_from(random.below(6)).unwrap_or_default();
    match random.below(100) {
        0..=29 => Action::Apply { kind, namespace, name, revision },
        30..=36 => Action::Delete { kind, namespace, name, orphan: random.permille(100) },
        37..=40 => Action::DeleteNamespace { name: namespace },
        41..=49 => policy(random, namespace),
        50..=53 => Action::DeletePolicy { namespace, name: text(&"policy") },
        54..=56 => Action::Select { kind, namespace, name, selector: selector(random) },
        57..=59 => Action::Label {
            cluster: member,
            region: text(random.pick(&["africa", "asia", "europe", "eu"])),
        },
        60..=66 => {
            let guise = *random.pick(&[
                Guise::Plain,
                Guise::Plain,
                Guise::Helm,
                Guise::Controlled,
                Guise::Forged,
            ]);
            Action::Foreign { server: member, kind, namespace, name, guise }
        }
        67..=71 => {
            let how = *random.pick(&[
                Meddling::Delete,
                Meddling::Edit,
                Meddling::Strip,
                Meddling::Replace,
                Meddling::Relabel,
            ]);
            Action::Meddle { server: member, kind, namespace, name, how }
        }
        72 if random.permille(500) => Action::SlowFinalizer {
            server: member,
            kind,
            namespace,
            name,
            seconds: random.between(5, 200),
        },
        72 => {
            Action::Rival { server: member, kind, namespace, name, seconds: random.between(5, 120) }
        }
        73..=76 => {
            let (requests, answers) = *random.pick(&[(true, true), (true, false), (false, true)]);
            let seconds = *random.pick(&[3, 20, 60, 400]);
            let server = if random.permille(100) { text(&HUB) } else { member };
            Action::Cut { server, requests, answers, seconds }
        }
        77..=79 => {
            let resource = text(random.pick(&["", "configmaps", "services", "deployments.apps"]));
            let server = if random.permille(300) { text(&HUB) } else { member };
            Action::Lag {
                server,
                resource,
                millis: random.between(200, 5000),
                seconds: random.between(5, 60),
            }
        }
        80..=82 => {
            let code = *random.pick(&[403, 429, 500, 503]);
            let method =
                random.pick(&[None, Some("GET"), Some("PATCH"), Some("DELETE")]).map(str::to_owned);
            let plural =
                random.pick(&[None, Some("configmaps"), Some("services")]).map(str::to_owned);
            Action::Outage { server: member, method, plural, code, seconds: random.between(5, 90) }
        }
        83..=84 => {
            let weather = Weather {
                requests_lost: 30,
                answers_lost: 60,
                late: 30,
                answers_late: 60,
                doubled: 60,
            };
            Action::Storm { weather, seconds: random.between(5, 60) }
        }
        85..=88 => Action::Kill { seconds: random.between(0, 20) },
        89 => Action::Compact { server: if random.permille(300) { text(&HUB) } else { member } },
        90 => Action::BackUp { server: if random.permille(500) { text(&HUB) } else { member } },
        91 => Action::Restore { server: if random.permille(500) { text(&HUB) } else { member } },
        92 => Action::Unjoin { cluster: member, delete: random.permille(500) },
        93 => Action::Join {
            cluster: text(random.pick(&["africa", "asia", "europe", "twin"])),
            server: member,
        },
        94 => Action::DeleteCluster { cluster: member },
        95 if elects => Action::Suspend { seconds: random.between(5, 40) },
        96 if elects => Action::SecondHub,
        98 if random.permille(300) => {
            let resource = text(random.pick(&[
                "jobs.batch",
                "configmaps",
                "horizontalpodautoscalers.autoscaling",
                TWIN_RESOURCE,
            ]));
            Action::Unserve { server: member, resource, seconds: random.between(5, 200) }
        }
        98 if random.permille(300) => {
            let resources =
                ["jobs.batch", "deployments.apps", "horizontalpodautoscalers.autoscaling"];
            let (resource, version) = (text(random.pick(&resources)), text(&"v2beta1"));
            let seconds = random.between(5, 200);
            Action::OtherVersion { server: member, resource, version, seconds }
        }
        98 if random.permille(300) => Action::RemoveDefinition {
            server: member,
            resource: text(&TWIN_RESOURCE),
            seconds: random.between(1, 200),
        },
        98 if random.permille(500) => Action::Withdraw { kind, namespace, name },
        99 if random.permille(500) => {
            let hour = 3600;
            Action::ClockJump { seconds: *random.pick(&[-24 * hour, -hour, -50, 50, 2 * hour]) }
        }
        97 if random.permille(200) => Action::Reset { server: member },
        97 if random.permille(200) => Action::CloneHub,
        _ => Action::Release,
    }
}

fn policy(random: &mut Random, namespace: String) -> Action {
    let names = |random: &mut Random| -> Vec<String> {
        let chosen = MEMBERS.iter().filter(|_| random.permille(500));
        chosen.map(|&name| name.to_owned()).collect()
    };
    let placement = match random.below(5) {
        0 => Placement::Everywhere,
        1 | 2 => Placement::Only(names(random)),
        3 => Placement::Region((*random.pick(&["africa", "asia", "europe", "eu"])).to_owned()),
        _ if random.permille(500) => Placement::Malformed,
        _ => Placement::Broken,
    };
    let waves = match random.permille(400) {
        true => {
            vec![vec![MEMBERS[0].to_owned()], vec![MEMBERS[1].to_owned(), MEMBERS[2].to_owned()]]
        }
        false => Vec::new(),
    };
    let conflict = random.pick(&[None, Some("Adopt"), Some("Abort")]).map(str::to_owned);
    let name = "policy".to_owned();
    Action::Policy { namespace, name, placement, orphan: random.permille(300), conflict, waves }
}

fn selector(random: &mut Random) -> Option<String> {
    match random.below(3) {
        0 => None,
        1 => Some("[{broken".to_owned()),
        _ => {
            let region = random.pick(&MEMBERS);
            Some(format!(r#"[{{"key": "region", "operator": "in", "values": ["{region}"]}}]"#))
        }
    }
}
