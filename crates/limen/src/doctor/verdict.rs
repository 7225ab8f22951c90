//! What facts mean: whether each is well, what is wrong, and what to do. Pure.

mod hub;
mod members;
mod names;
#[cfg(test)]
mod tests;

use limen_core::compile::EdgeLiveness;
use serde::Serialize;

use super::facts::{Edge, Facts, Policy, Root};
use crate::table::duration;

/// How long before its end a certificate or credential should have been renewed.
const SOON: i64 = 14 * 86_400;
/// Clocks this far apart make times in logs and statuses misleading.
const CLOCK_WARNING: i64 = 5;
/// Clocks this far apart make credentials and certificates fail.
const CLOCK_FAULT: i64 = 60;
/// What has a check that says itself that it could not be read.
const SAID_THEMSELVES: [&str; 3] = ["definitions", "leader", "roots"];

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Ok,
    Warning,
    Fault,
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Fault => "fault",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// What it is about: the hub, a member, an edge, a zone, a root.
    pub(super) about: String,
    /// What was looked at.
    pub(super) check: &'static str,
    pub(super) verdict: Verdict,
    /// What was found.
    pub(super) found: String,
    /// What to do about it; empty if nothing.
    pub(super) advice: String,
}

/// Judges everything.
pub(super) fn judge(facts: &Facts) -> Vec<Check> {
    let mut checks = Vec::new();
    hub::judge(facts, &mut checks);
    if facts.hub.silent.is_some() {
        return checks;
    }
    members::judge(facts, &mut checks);
    edges(facts, &mut checks);
    names::judge(facts, &mut checks);
    roots(facts, &mut checks);
    policies(&facts.policies, &mut checks);
    for (what, why) in &facts.unread {
        if !SAID_THEMSELVES.contains(what) {
            About { about: (*what).to_owned(), checks: &mut checks }.unread("read", why);
        }
    }
    checks
}

/// Adds checks about one thing.
struct About<'a> {
    about: String,
    checks: &'a mut Vec<Check>,
}

impl About<'_> {
    fn add(&mut self, check: &'static str, verdict: Verdict, found: String, advice: &str) {
        let (about, advice) = (self.about.clone(), advice.to_owned());
        self.checks.push(Check { about, check, verdict, found, advice });
    }

    fn ok(&mut self, check: &'static str, found: impl Into<String>) {
        self.add(check, Verdict::Ok, found.into(), "");
    }

    fn warning(&mut self, check: &'static str, found: impl Into<String>, advice: &str) {
        self.add(check, Verdict::Warning, found.into(), advice);
    }

    fn fault(&mut self, check: &'static str, found: impl Into<String>, advice: &str) {
        self.add(check, Verdict::Fault, found.into(), advice);
    }

    /// A check that could not be made: nobody may take it for one that is well.
    fn unread(&mut self, check: &'static str, why: &str) {
        let advice = "ask whoever runs the hub for the right to read it, or look again later";
        self.warning(check, format!("cannot be read: {why}"), advice);
    }

    /// Something that ends.
    fn ending(&mut self, check: &'static str, ends: Option<i64>, now: i64, advice: &str) {
        let Some(ends) = ends else { return };
        match ends - now {
            left if left <= 0 => {
                self.fault(check, format!("ended {} ago", duration(-left)), advice);
            }
            left if left < SOON => {
                self.warning(check, format!("ends in {}", duration(left)), advice);
            }
            left => self.ok(check, format!("good for {}", duration(left))),
        }
    }

    /// A clock beside ours.
    fn clock(&mut self, ahead: Option<i64>) {
        let Some(ahead) = ahead else { return };
        let found = match ahead {
            0 => "the same as here".to_owned(),
            ahead if ahead > 0 => format!("{ahead} s ahead of the clock here"),
            ahead => format!("{} s behind the clock here", -ahead),
        };
        let advice = "set the clocks by NTP, there and here";
        match ahead.abs() {
            apart if apart >= CLOCK_FAULT => self.fault("clock", found, advice),
            apart if apart >= CLOCK_WARNING => self.warning("clock", found, advice),
            _ => self.ok("clock", found),
        }
    }
}

fn edges(facts: &Facts, checks: &mut Vec<Check>) {
    if facts.edges.is_empty() && facts.unread("edges").is_none() {
        let mut about = About { about: "edges".to_owned(), checks };
        let advice = "run limen gateway --hub-kubeconfig FILE where clients shall come in";
        about.warning("report", "no gateway has reported to the hub", advice);
    }
    for Edge { name, reported, addresses } in &facts.edges {
        let mut about = About { about: format!("edge {name}"), checks };
        let advice = "see whether that gateway runs and reaches the hub; its object goes by itself after an hour";
        // Reports are stored by the hub's clock.
        let now = facts.now + facts.hub.clock_ahead.unwrap_or(0);
        let fresh = EdgeLiveness::found(*reported, now).is_fresh(now);
        match reported.map(|at| (now - at).max(0)) {
            None => about.fault("report", "it has never reported", advice),
            Some(age) if !fresh => {
                let found = format!("it reported last {} ago", duration(age));
                about.fault("report", found, advice);
            }
            Some(age) => about.ok("report", format!("{} old", duration(age))),
        }
        for (address, outcome) in addresses {
            match outcome {
                Ok(()) => about.ok("address", format!("{address} takes connections")),
                Err(why) => about.warning(
                    "address",
                    format!("{address} does not take connections from here: {why}"),
                    "check firewalls, and --publish-address of that gateway",
                ),
            }
        }
    }
}

fn roots(facts: &Facts, checks: &mut Vec<Check>) {
    if facts.roots.is_empty() {
        let mut about = About { about: "roots".to_owned(), checks };
        match facts.unread("roots") {
            Some(why) => about.unread("leaves", why),
            None => about.ok("leaves", "none is held, in conflict or failed"),
        }
    }
    for Root { name, namespace, message, held, conflicts, failed } in &facts.roots {
        let mut about = About { about: format!("root {namespace}/{name}"), checks };
        if !held.is_empty() || message.starts_with("held: ") {
            let advice = format!("if it is meant: limen release {name} -n {namespace}");
            about.fault("held", message.clone(), &advice);
        }
        if !conflicts.is_empty() {
            about.fault(
                "conflict",
                format!("{} has such an object that is not Limen's", conflicts.join(", ")),
                "delete or rename it there, or set onConflict: Adopt in a PlacementPolicy",
            );
        }
        if let Some((cluster, why)) = failed.first() {
            let others = match failed.len() {
                1 => String::new(),
                all => format!(" (and {} more)", all - 1),
            };
            let advice = format!("limen status {name} -n {namespace} shows all of it");
            about.fault("leaves", format!("{cluster}: {why}{others}"), &advice);
        }
    }
}

fn policies(policies: &[Policy], checks: &mut Vec<Check>) {
    for Policy { kind, name, message } in policies {
        let mut about = About { about: format!("{kind} {name}"), checks };
        let advice = "mend its spec; until then what was last understood stays in force";
        about.fault("policy", message.clone(), advice);
    }
}
