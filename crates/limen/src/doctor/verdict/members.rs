//! The members.

use super::super::facts::{Health, Member, Seen};
use super::{About, Check, Facts};

/// Minor versions that a member may be behind the newest.
const BEHIND: u32 = 3;

pub(super) fn judge(facts: &Facts, checks: &mut Vec<Check>) {
    if facts.members.is_empty() && facts.unread("members").is_none() {
        let mut about = About { about: "members".to_owned(), checks };
        about.warning("joined", "no cluster has joined", "limen join --help says how");
    }
    let newest =
        facts.members.iter().filter_map(seen).filter_map(|seen| minor(&seen.version)).max();
    for member in &facts.members {
        let mut about = About { about: format!("member {}", member.name), checks };
        as_the_hub_sees(member, &mut about);
        match &member.seen {
            None => {}
            Some(Ok(seen)) => as_we_see(seen, facts.now, newest, &mut about),
            // What the hub cannot reach either has been said.
            Some(Err(_)) if member.api == Health::Unhealthy => {}
            Some(Err(why)) => about.warning(
                "access",
                format!("it cannot be looked at from here: {why}"),
                "run limen doctor where the hub runs, with the right to read Secrets in limen-system",
            ),
        }
    }
}

fn as_the_hub_sees(member: &Member, about: &mut About<'_>) {
    let message = if member.message.is_empty() { "no reason is known" } else { &member.message };
    match member.api {
        Health::Healthy => about.ok("api", "answers the hub"),
        Health::Unhealthy => about.fault(
            "api",
            format!("does not answer the hub: {message}"),
            "see whether its API runs and the hub reaches it; limen join again if its address or credential has changed",
        ),
        Health::Unknown => about.warning(
            "api",
            format!("the hub has not heard of it: {message}"),
            "see whether limen hub runs, and whether its credential is right",
        ),
    }
    if let Some(why) = &member.unwritable {
        let advice = "nothing changes there until that is decided; limen resume --help and limen join --help say how";
        about.fault("writes", why.clone(), advice);
    }
    match member.edge {
        Health::Healthy => about.ok("way in", "answers the edges"),
        Health::Unhealthy => about.fault(
            "way in",
            "does not answer the edges",
            "check its ingress or load balancer, and firewalls between the gateways and it",
        ),
        Health::Unknown => about.ok("way in", "no edge has tried it"),
    }
    if member.endpoints == Health::Unhealthy {
        let advice = "kubectl get endpointslices there; it gets no traffic until pods are ready";
        about.warning("endpoints", "nothing there is ready", advice);
    }
    if member.drained {
        let advice = format!("limen undrain {}, when it shall have traffic again", member.name);
        about.warning("drain", "it is drained, and gets no new traffic", &advice);
    }
    if member.tombstones > 0 {
        let found = format!("{} deletions wait for its return", member.tombstones);
        about.warning("deletions", found, "they are done as soon as its API answers");
    }
    if !member.missing_kinds.is_empty() {
        about.warning(
            "kinds",
            format!("it does not know {}", member.missing_kinds.join(", ")),
            "install those definitions there, or place such roots elsewhere",
        );
    }
}

fn as_we_see(seen: &Seen, now: i64, newest: Option<u32>, about: &mut About<'_>) {
    let renew = "the hub renews it in time if it may; limen join again gives a new one";
    about.ending("credential", seen.credential_ends, now, renew);
    match seen.lacking_rights.as_slice() {
        [] => about.ok("rights", "the hub's account may do what it needs"),
        [first, rest @ ..] => {
            let more = match rest.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let found = format!("the hub's account may not {first}{more}");
            about.fault("rights", found, "limen join again, which grants them");
        }
    }
    match (minor(&seen.version), newest) {
        (Some(own), Some(newest)) if own + BEHIND < newest => about.warning(
            "version",
            format!("{}, {} minor versions behind the newest member", seen.version, newest - own),
            "upgrade it; what the newest take may not be known there",
        ),
        _ => about.ok("version", seen.version.clone()),
    }
    about.clock(seen.clock_ahead);
}

fn seen(member: &Member) -> Option<&Seen> {
    member.seen.as_ref()?.as_ref().ok()
}

/// The second number of `v1.36.2`.
fn minor(version: &str) -> Option<u32> {
    let digits: String =
        version.split('.').nth(1)?.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}
