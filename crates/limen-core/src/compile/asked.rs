//! Where a client would be sent, from what the hub knows: for people who ask.

use super::policy::Policy;
use crate::decide::{
    Explanation, OwnKnowledge, Plan, Question, Readiness, Vantage, capacity, explain, readiness,
};
use crate::global::{Global, PathType};
use crate::route::{HostBuffer, Routes, normal_host};

/// Where a client would be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The GlobalIngress, as namespace/name.
    pub global: String,
    /// The host and path of the rule that matched; nothing if it was the default.
    pub rule: String,
    /// The backend.
    pub backend: String,
    /// Why, rule by rule.
    pub explanation: Explanation,
}

/// Where a client would be sent that asks for a host and a path; nothing if nobody serves them.
/// `client` is where the client is; `demand` the requests in a second for a backend, by
/// GlobalIngress and backend.
pub fn asked<'a>(
    globals: impl Iterator<Item = (&'a str, &'a Global)>,
    (host, path): (&str, &str),
    client: &[&str],
    from: &Vantage,
    demand: impl Fn(&str, &str) -> f64,
) -> Option<Asked> {
    let mut routes: Routes<(&str, &Global, String, &str)> = Routes::default();
    for (name, global) in globals {
        for rule in &global.rules {
            for path in &rule.paths {
                let text = format!("{}{}", rule.host, path.path);
                let leads_to = (name, global, text, path.backend.as_str());
                // Of two that claim the same, edges let the first have it as well.
                let _ = routes.add(&rule.host, &path.path, path.path_type, leads_to);
            }
        }
        if let Some(default) = &global.default_backend {
            let leads_to = (name, global, String::new(), default.as_str());
            for rule in global.rules.iter().filter(|rule| !rule.host.is_empty()) {
                let _ = routes.add(&rule.host, "/", PathType::Prefix, leads_to.clone());
            }
            routes.set_default(leads_to);
        }
    }
    let mut buffer = HostBuffer::default();
    let host = normal_host(host, &mut buffer)?;
    let (_, (name, global, rule, backend_name)) = routes.find(host, path)?;
    let backend = super::find(&global.backends, backend_name)?;
    let plan = Plan::seen_from(backend, &global.traffic, from);
    let sight =
        |target: usize| -> Readiness { readiness(&backend.targets[target], OwnKnowledge::None) };
    let allowed: Vec<Option<f64>> =
        backend.targets.iter().map(|target| capacity(target, &global.traffic)).collect();
    let explanation = explain(&Question {
        backend,
        rules: &global.traffic,
        plan: &plan,
        sight: &sight,
        client,
        allowed: &allowed,
        demand: demand(name, backend_name),
    });
    Some(Asked {
        global: (*name).to_owned(),
        rule: rule.clone(),
        backend: (*backend_name).to_owned(),
        explanation,
    })
}

/// What a compiled root would be like under another policy, as far as that can be told without
/// asking its members: groups with a Service of their own cannot.
pub fn under_policy(global: &Global, policy: &Policy) -> Result<Global, String> {
    if let Some(group) = policy.groups.iter().find(|group| group.service.is_some()) {
        return Err(format!(
            "the group {} has a Service of its own; what runs there is known only when the policy is applied",
            group.name
        ));
    }
    let mut global = global.clone();
    let canary = policy.canary.as_ref().and_then(|trial| trial.steps.first().copied());
    global.traffic = policy.rules(canary);
    let rates = policy.capacity.as_ref();
    for target in global.backends.iter_mut().flat_map(|backend| &mut backend.targets) {
        if !policy.groups.is_empty() {
            target.group = policy.groups_of(&target.cluster).next().map(|group| group.name.clone());
        }
        let rate = rates.and_then(|rates| rates.requests_per_endpoint);
        let measured = rate.zip(target.ready_endpoints).map(|(rate, n)| rate * f64::from(n));
        let fixed = rates.and_then(|rates| rates.clusters.get(&target.cluster).copied());
        if let Some(known) = fixed.or(measured) {
            target.capacity.requests_per_second = Some(known);
        }
    }
    Ok(global)
}
