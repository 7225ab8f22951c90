//! The hub.

use super::{About, Check, Facts};
use crate::table::duration;

pub(super) fn judge(facts: &Facts, checks: &mut Vec<Check>) {
    let hub = &facts.hub;
    let mut about = About { about: "hub".to_owned(), checks };
    if let Some(why) = &hub.silent {
        about.fault("answers", why.clone(), "nothing else can be looked at before it answers");
        return;
    }
    about.ok("answers", format!("{} at {}", hub.version, hub.url));
    let renew = "restart limen hub, which renews what ends soon, or renew it if it is yours";
    about.ending("certificate", hub.certificate_ends, facts.now, renew);
    let renew =
        "get a new kubeconfig from whoever runs the hub; limen hub writes one when it starts";
    about.ending("credential", hub.credential_ends, facts.now, renew);
    about.clock(hub.clock_ahead);
    definitions(facts, &mut about);
    leader(facts, &mut about);
}

fn definitions(facts: &Facts, about: &mut About<'_>) {
    if let Some(why) = facts.unread("definitions") {
        return about.unread("definitions", why);
    }
    let (missing, other) = (&facts.hub.missing_definitions, &facts.hub.other_definitions);
    let advice = "start limen hub on it (or limen crds | kubectl apply --server-side -f -)";
    match (missing.is_empty(), other.is_empty()) {
        (false, _) => about.fault("definitions", format!("missing: {}", some(missing)), advice),
        (true, false) => about.warning(
            "definitions",
            format!("made by another version of Limen: {}", some(other)),
            "run the same version of limen here and as the hub",
        ),
        (true, true) => about.ok("definitions", "all there, as this version has them"),
    }
}

fn leader(facts: &Facts, about: &mut About<'_>) {
    let advice =
        "start limen hub; until then nothing is spread, and edges go on with what they have";
    if let Some(why) = facts.unread("leader") {
        return about.unread("leader", why);
    }
    let Some(leader) = &facts.hub.leader else {
        // Limen's own API has a hub in it; somebody's Kubernetes goes on without one.
        return match facts.hub.version.contains("+limen") {
            true => about.ok("leader", "no lease: one hub, which needs none"),
            false => about.fault("leader", "no lease: no hub has ever led here", advice),
        };
    };
    let age = facts.now - leader.renewed;
    match age > 2 * leader.lasts.max(1) {
        true => about.fault(
            "leader",
            format!("{} led last {} ago, and nobody since", leader.name, duration(age)),
            advice,
        ),
        false => about.ok("leader", leader.name.clone()),
    }
}

/// A few of many.
fn some(names: &[String]) -> String {
    match names.len() {
        0..=3 => names.join(", "),
        all => format!("{} and {} more", names[..3].join(", "), all - 3),
    }
}
