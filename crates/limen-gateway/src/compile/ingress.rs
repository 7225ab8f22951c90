//! One root.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::HeaderValue;
use limen_core::decide::{OwnKnowledge, Plan, Vantage, capacity, hash, readiness};
use limen_core::global::{
    self, ClientLimit, Global, HealthCheck, HealthCheckKind, Protocol, Target, Timeouts,
    TrafficRules,
};

use super::shared::Shared;
use crate::flow::Flow;
use crate::health::Question;
use crate::proxy::hexadecimal;
use crate::snapshot::{Backend, Ingress, Rules, TargetState};
use crate::upstream::{Address, Destination, UpstreamTls, UpstreamTlsError, milliseconds};
use limen_api::source::{Key, Objects, SecretData};

/// Without a limit of its own an address gets no more connections than this from one gateway.
const MAX_CONNECTIONS: u32 = 4096;

/// Looks Secrets up and remembers which.
struct Secrets<'a> {
    objects: &'a Objects,
    namespace: &'a str,
    used: Vec<String>,
}

impl Secrets<'_> {
    fn get(&mut self, name: &str) -> Option<Arc<SecretData>> {
        self.used.push(name.to_owned());
        self.objects.secret(self.namespace, name).cloned()
    }
}

/// How the addresses of a backend are reached, and probed.
#[derive(Clone, Copy)]
struct Reach<'a> {
    /// With what tells apart those that must not share connections.
    tls: Option<(&'a str, &'a Arc<UpstreamTls>)>,
    probing: Probing<'a>,
}

/// How the addresses of a backend are probed.
#[derive(Clone, Copy)]
enum Probing<'a> {
    Off,
    /// As nobody says how.
    Usual,
    /// As somebody says; the host is the address's own if there is none.
    Asked {
        check: &'a HealthCheck,
        host: Option<&'a str>,
    },
}

impl Shared {
    /// What no rule leads to is probed only if somebody asks for it.
    fn probing<'a>(&self, global: &'a Global, led_to: bool) -> Probing<'a> {
        match (global.traffic.asked_check(), &global.traffic.health_check) {
            (Some(check), _) => {
                let hosts = global.rules.iter().map(|rule| rule.host.as_str());
                let first = hosts.into_iter().find(|host| !host.is_empty() && !host.contains('*'));
                Probing::Asked { check, host: check.host.as_deref().or(first) }
            }
            (None, None) if led_to && self.probe_all => Probing::Usual,
            _ => Probing::Off,
        }
    }

    pub(super) fn ingress(
        &mut self,
        key: &Key,
        global: &Arc<Global>,
        objects: &Objects,
        before: Option<&Arc<Ingress>>,
        from: &Vantage,
    ) -> Ingress {
        let label = format!("{}/{}", key.0, key.1);
        let mut secrets = Secrets { objects, namespace: &key.0, used: Vec::new() };
        let mut problems = Vec::new();
        let certificates = self.certificates(global, &mut secrets, &label, &mut problems);
        let client_ca = global.client.client_ca_secret.as_ref().map(|name| {
            let found = secrets.get(name);
            if found.is_none() {
                let text = "so that nobody gets in until it exists";
                problems.push(format!("{label}: clientCaSecret {name} does not exist, {text}"));
            }
            // An authority that nobody has: clients are refused rather than let in unknown.
            found.unwrap_or_default()
        });
        let tls = self.upstream_tls(global, &mut secrets);
        let tls = tls.unwrap_or_else(|error| {
            problems.push(format!("{label}: upstreamTls: {error}"));
            None
        });
        let named = global.rules.iter().flat_map(|rule| &rule.paths).map(|path| &path.backend);
        let named: BTreeSet<&String> = named.chain(&global.default_backend).collect();
        let backends = global.backends.iter().map(|backend| {
            let before = before
                .and_then(|before| before.backends.iter().find(|old| old.name == backend.name));
            let probing = self.probing(global, named.contains(&backend.name));
            let tls = tls.as_ref().map(|(how, tls)| (how.as_str(), tls));
            let reach = Reach { tls, probing };
            Arc::new(self.backend(&label, global, backend, before, reach, from))
        });
        let backends: Vec<_> = backends.collect();
        for name in named {
            if !backends.iter().any(|backend| backend.name == *name) {
                problems.push(format!("{label}: there is no backend {name}: its paths answer 503"));
            }
        }
        let hsts = global.client.hsts_seconds.map(|seconds| format!("max-age={seconds}"));
        let limit = limit(global, &label, &mut problems);
        Ingress {
            label,
            global: global.clone(),
            secrets: secrets.used,
            backends,
            certificates,
            client_ca,
            hsts: hsts.and_then(|value| HeaderValue::try_from(value).ok()),
            limit,
            problems,
        }
    }

    fn backend(
        &mut self,
        ingress: &str,
        global: &Global,
        backend: &global::Backend,
        before: Option<&Arc<Backend>>,
        reach: Reach<'_>,
        from: &Vantage,
    ) -> Backend {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let plan = Plan::seen_from(backend, &global.traffic, from);
        let targets = backend.targets.iter().map(|target| {
            let old = before.and_then(|before| {
                before.targets.iter().find(|old| {
                    old.target.cluster == target.cluster && old.target.group == target.group
                })
            });
            self.target(global, target, old, reach)
        });
        let targets: Vec<TargetState> = targets.collect();
        Backend {
            limited: targets.iter().any(|target| target.capacity.is_some()),
            plain: targets.iter().all(|state| state.target.protocol == Protocol::Http),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: backend.name.clone(),
            ingress: ingress.to_owned(),
            rules: rules(&global.traffic, &format!("{ingress}/{}", backend.name)),
            asked: before.map(|before| before.asked.clone()).unwrap_or_default(),
            plan,
            targets,
        }
    }

    fn target(
        &mut self,
        global: &Global,
        target: &Target,
        before: Option<&TargetState>,
        reach: Reach<'_>,
    ) -> TargetState {
        let Reach { tls, probing } = reach;
        let endpoint_tls = tls.filter(|_| target.protocol == Protocol::Https);
        let now = milliseconds(Instant::now());
        let addresses = target.addresses.iter().map(|address| {
            let destination = Destination::new(address);
            let endpoint = self.endpoint(destination.clone(), target.protocol, endpoint_tls);
            let health = match probing {
                Probing::Off => None,
                Probing::Usual => Some(self.health(Question::usual(destination), None)),
                Probing::Asked { check, host } => {
                    let host = host.unwrap_or(&address.host);
                    let tls = match check.kind {
                        HealthCheckKind::Https => tls,
                        HealthCheckKind::Grpc => endpoint_tls,
                        _ => None,
                    };
                    let how = tls.map(|(how, _)| how);
                    let question = Question::asked(destination, check, host, how);
                    Some(self.health(question, tls.map(|(_, tls)| tls)))
                }
            };
            let old = before.and_then(|before| {
                before.addresses.iter().find(|old| Arc::ptr_eq(&old.endpoint, &endpoint))
            });
            let same_health = |old: &&Arc<Address>| match (&old.health, &health) {
                (None, None) => true,
                (Some(old), Some(new)) => Arc::ptr_eq(old, new),
                _ => false,
            };
            match old.filter(same_health) {
                Some(old) => old.clone(),
                None => Arc::new(Address::new(endpoint, health, now)),
            }
        });
        let addresses = addresses.collect();
        let capacity = capacity(target, &global.traffic);
        // What may be sent there is kept, and goes on from there, unless there was no limit.
        let flow = before.map(|before| before.flow.clone());
        let flow = flow.filter(|flow| flow.allowed().is_some() || capacity.is_none());
        TargetState {
            addresses,
            target: target.clone(),
            metrics: before.map(|before| before.metrics.clone()).unwrap_or_default(),
            flow: flow.unwrap_or_else(|| Arc::new(Flow::new(capacity))),
            capacity,
            readiness: [OwnKnowledge::None, OwnKnowledge::Answers, OwnKnowledge::Silent]
                .map(|own| readiness(target, own)),
        }
    }

    fn certificates(
        &mut self,
        global: &Global,
        secrets: &mut Secrets<'_>,
        label: &str,
        problems: &mut Vec<String>,
    ) -> Vec<(Vec<Arc<str>>, Arc<rustls::sign::CertifiedKey>)> {
        let mut made = Vec::new();
        for tls in &global.tls {
            let Some(name) = &tls.secret_name else { continue };
            let key = match secrets.get(name) {
                Some(secret) => self.certificate(&secret).map_err(|error| error.to_string()),
                None => Err("it does not exist".to_owned()),
            };
            match key {
                Ok(key) => {
                    let name = |host: &String| Arc::from(host.to_ascii_lowercase());
                    let hosts = if tls.hosts.is_empty() {
                        global.rules.iter().map(|rule| name(&rule.host)).collect()
                    } else {
                        tls.hosts.iter().map(name).collect()
                    };
                    made.push((hosts, key));
                }
                Err(error) => problems.push(format!(
                    "{label}: the certificate in Secret {name} cannot be used: {error}; the default certificate is shown instead"
                )),
            }
        }
        made
    }

    /// TLS to targets, with a description that tells apart those that must not share connections.
    fn upstream_tls(
        &mut self,
        global: &Global,
        secrets: &mut Secrets<'_>,
    ) -> Result<Option<(String, Arc<UpstreamTls>)>, UpstreamTlsError> {
        let targets = global.backends.iter().flat_map(|backend| &backend.targets);
        let check = global.traffic.health_check.as_ref();
        let needed = targets.into_iter().any(|target| target.protocol == Protocol::Https)
            || check.is_some_and(|check| check.kind == HealthCheckKind::Https);
        let rules = global.traffic.upstream_tls.clone().unwrap_or_default();
        let name = rules.server_name.clone();
        if !needed {
            return Ok(None);
        }
        if rules.insecure_skip_verify {
            let how = format!("unverified {name:?}");
            let tls = self.way(&how, || UpstreamTls::unverified(name))?;
            return Ok(Some((how, tls)));
        }
        let authority = match &rules.ca_secret {
            None => None,
            Some(secret) => {
                let found = secrets.get(secret).and_then(|secret| secret.0.get("ca.crt").cloned());
                // Nobody is verified by an authority that is not there.
                Some(found.unwrap_or_default())
            }
        };
        let how = format!("verified {name:?} {authority:?}");
        let tls = self.way(&how, || UpstreamTls::verified(authority.as_deref(), name))?;
        Ok(Some((how, tls)))
    }
}

fn limit(global: &Global, label: &str, problems: &mut Vec<String>) -> Option<(u64, ClientLimit)> {
    let limit = global.client.limit.clone()?;
    let rate = limit.requests_per_second;
    if rate.is_finite() && rate > 0.0 {
        return Some((hash(label.as_bytes()), limit));
    }
    problems.push(format!(
        "{label}: client.limit.requestsPerSecond is {rate}: write a number above 0; until then there is no limit"
    ));
    None
}

fn rules(traffic: &TrafficRules, name: &str) -> Rules {
    let Timeouts {
        connect_milliseconds,
        response_milliseconds,
        idle_milliseconds,
        request_milliseconds,
    } = traffic.timeouts.clone().unwrap_or_default();
    let milliseconds = |value: u32| Duration::from_millis(u64::from(value));
    let retries = traffic.retries.clone().unwrap_or_default();
    let sticky = traffic.split.as_ref().filter(|split| split.sticky);
    let matches = traffic.split.iter().flat_map(|split| &split.matches);
    Rules {
        connect: milliseconds(connect_milliseconds),
        response: milliseconds(response_milliseconds),
        idle: milliseconds(idle_milliseconds),
        request: request_milliseconds.map(milliseconds),
        attempts: retries.attempts,
        budget_percent: retries.budget_percent,
        statuses: retries.statuses,
        outliers: traffic.outliers.clone().unwrap_or_default(),
        max_connections: traffic.max_connections.unwrap_or(MAX_CONNECTIONS),
        slow_start: u64::from(traffic.slow_start_seconds.unwrap_or(0)) * 1000,
        matches: matches.cloned().collect(),
        affinity: traffic.affinity.clone(),
        sticky: sticky.map(|_| {
            let digits = hexadecimal::<16>([hash(name.as_bytes())]);
            format!("limen-group-{}", String::from_utf8_lossy(&digits[..8]))
        }),
        mirror: traffic.mirror.clone().filter(|mirror| mirror.percent > 0),
    }
}
