//! A host as a whole, for edges that see no path: one backend whose targets are clusters.

use super::{Backend, Global, Target, Verdict};

/// The ways in for a host, whatever the path.
///
/// A client that has been given a cluster's address sends everything there. So a cluster is as
/// well as the worst of the host's backends in it, and one that lacks a backend counts as having
/// no ready endpoint: it is there to be fallen back to when there is nothing better.
pub fn for_host<'a>(globals: impl IntoIterator<Item = &'a Global>, host: &str) -> Backend {
    let mut backends: Vec<&Backend> = Vec::new();
    for global in globals {
        let rules = || global.rules.iter().filter(|rule| rule.host.eq_ignore_ascii_case(host));
        if rules().next().is_none() {
            continue;
        }
        let is_named = |backend: &&Backend| {
            let mut paths = rules().flat_map(|rule| &rule.paths);
            global.default_backend.as_ref() == Some(&backend.name)
                || paths.any(|path| path.backend == backend.name)
        };
        backends.extend(global.backends.iter().filter(is_named));
    }
    let mut merged: Vec<Target> = Vec::new();
    for target in backends.iter().flat_map(|backend| &backend.targets) {
        let same =
            |other: &&mut Target| other.cluster == target.cluster && other.group == target.group;
        match merged.iter_mut().find(same) {
            None => merged.push(target.clone()),
            Some(known) => take_worse(known, target),
        }
    }
    for target in &mut merged {
        let has = |backend: &&Backend| {
            backend.targets.iter().any(|other| other.cluster == target.cluster)
        };
        if !backends.iter().all(has) {
            target.ready_endpoints = Some(0);
        }
    }
    merged.sort_by(|one, other| (&one.cluster, &one.group).cmp(&(&other.cluster, &other.group)));
    Backend { name: host.to_owned(), targets: merged }
}

fn take_worse(known: &mut Target, other: &Target) {
    for address in &other.addresses {
        if !known.addresses.iter().any(|one| one.host == address.host) {
            known.addresses.push(address.clone());
        }
    }
    known.ready_endpoints = match (known.ready_endpoints, other.ready_endpoints) {
        (Some(one), Some(two)) => Some(one.min(two)),
        (one, two) => one.or(two),
    };
    known.drained_percent = known.drained_percent.max(other.drained_percent);
    let verdicts = &mut known.verdicts;
    verdicts.api = worse(verdicts.api, other.verdicts.api);
    verdicts.edge = worse(verdicts.edge, other.verdicts.edge);
    verdicts.endpoints = worse(verdicts.endpoints, other.verdicts.endpoints);
}

fn worse(one: Verdict, other: Verdict) -> Verdict {
    match (one, other) {
        (Verdict::Unhealthy, _) | (_, Verdict::Unhealthy) => Verdict::Unhealthy,
        (Verdict::Unknown, known) | (known, _) => known,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Address, PathRule, PathType, Rule};
    use super::*;

    fn target(cluster: &str, ready: u32) -> Target {
        let addresses = vec![Address { host: format!("{cluster}.test"), port: 80 }];
        let (cluster, ready_endpoints) = (cluster.to_owned(), Some(ready));
        Target { cluster, ready_endpoints, addresses, ..Target::default() }
    }

    fn global() -> Global {
        let path = |path: &str, backend: &str| PathRule {
            path: path.into(),
            path_type: PathType::Prefix,
            backend: backend.into(),
        };
        let paths = vec![path("/", "web"), path("/api", "api")];
        let backends = vec![
            Backend { name: "web".into(), targets: vec![target("a", 3), target("b", 3)] },
            Backend { name: "api".into(), targets: vec![target("a", 1)] },
            Backend { name: "other".into(), targets: vec![target("c", 1)] },
        ];
        let rules = vec![Rule { host: "shop.test".into(), paths }];
        Global { rules, backends, ..Global::default() }
    }

    #[test]
    fn a_cluster_is_as_well_as_its_worst_backend() {
        let mut global = global();
        global.backends[1].targets[0].verdicts.edge = Verdict::Unhealthy;
        let host = for_host([&global], "SHOP.test");
        let seen: Vec<_> = host
            .targets
            .iter()
            .map(|target| (target.cluster.as_str(), target.ready_endpoints, target.verdicts.edge))
            .collect();
        assert_eq!(seen, [("a", Some(1), Verdict::Unhealthy), ("b", Some(0), Verdict::Unknown)]);
        assert_eq!(host.targets[0].addresses.len(), 1, "the same way in is named once");
    }

    #[test]
    fn a_host_of_nobody_has_no_targets() {
        let global = Global { default_backend: Some("web".into()), ..global() };
        assert!(for_host([&global], "else.test").targets.is_empty());
    }
}
