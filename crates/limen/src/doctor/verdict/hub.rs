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
    let (missing, other) = (&hub.missing_definitions, &hub.other_definitions);
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
    match &hub.leader {
        None => about.ok("leader", "no lease: one hub, which needs none"),
        Some(leader) => {
            let age = facts.now - leader.renewed;
            match age > 2 * leader.lasts.max(1) {
                true => about.fault(
                    "leader",
                    format!("{} led last {} ago, and nobody since", leader.name, duration(age)),
                    "start limen hub; until then nothing is spread, and edges go on with what they have",
                ),
                false => about.ok("leader", leader.name.clone()),
            }
        }
    }
}

/// A few of many.
fn some(names: &[String]) -> String {
    match names.len() {
        0..=3 => names.join(", "),
        all => format!("{} and {} more", names[..3].join(", "), all - 3),
    }
}
