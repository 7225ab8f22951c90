//! Where a client would be sent, from what the hub knows: for people who ask.

use super::policy::Policy;
use super::targets::capacity_of;
use crate::decide::{
    Explanation, OwnKnowledge, Plan, Question, Readiness, Vantage, capacity, explain, readiness,
};
use crate::global::Global;
use crate::route::{HostBuffer, HostRules, Routes, normal_host};

/// Where a client would be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedRequest {
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
pub fn explain_request<'a>(
    globals: impl Iterator<Item = (&'a str, &'a Global)>,
    (host, path): (&str, &str),
    client: &[&str],
    from: &Vantage,
    demand: impl Fn(&str, &str) -> f64,
) -> Option<ExplainedRequest> {
    let mut globals: Vec<(&str, &Global)> = globals.collect();
    // Edges know roots by namespace and name, which sort differently from the joined text.
    globals.sort_by_key(|(name, _)| name.split_once('/').unwrap_or(("", name)));
    let roots: Vec<_> = globals.into_iter().map(|(name, global)| rules_of(name, global)).collect();
    let routes = Routes::of_roots(&roots);
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
    Some(ExplainedRequest {
        global: (*name).to_owned(),
        rule: rule.clone(),
        backend: (*backend_name).to_owned(),
        explanation,
    })
}

/// The rule that a request matches, and what it leads to.
type LeadsTo<'a> = (&'a str, &'a Global, String, &'a str);

/// The rules of one compiled root by host, and its default backend. Invalid rules are left out, as
/// edges do.
fn rules_of<'a>(
    name: &'a str,
    global: &'a Global,
) -> (Vec<HostRules<LeadsTo<'a>>>, Option<LeadsTo<'a>>) {
    let mut hosts = Vec::with_capacity(global.rules.len());
    for rule in &global.rules {
        let Ok(mut rules) = HostRules::new(&rule.host) else { continue };
        for path in &rule.paths {
            let text = format!("{}{}", rule.host, path.path);
            let leads_to = (name, global, text, path.backend.as_str());
            let _ = rules.add(&path.path, path.path_type, leads_to);
        }
        hosts.push(rules);
    }
    let default = global.default_backend.as_deref();
    (hosts, default.map(|backend| (name, global, String::new(), backend)))
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
    for target in global.backends.iter_mut().flat_map(|backend| &mut backend.targets) {
        if !policy.groups.is_empty() {
            target.group = policy.groups_of(&target.cluster).next().map(|group| group.name.clone());
        }
        target.capacity.requests_per_second = capacity_of(
            policy.capacity.as_ref(),
            &target.cluster,
            target.requests_per_endpoint,
            target.ready_endpoints,
        );
    }
    Ok(global)
}
