//! Zones and their servers.

use std::collections::BTreeSet;

use super::super::facts::{Answer, Server, Zone};
use super::{About, Check, Facts};

pub(super) fn judge(facts: &Facts, checks: &mut Vec<Check>) {
    for zone in &facts.zones {
        let mut about = About { about: format!("zone {}", zone.name), checks };
        if zone.servers.is_empty() {
            let advice = "name them in spec.nameservers, so that the zone can be delegated to them";
            about.warning("servers", "it names no servers", advice);
        }
        for server in &zone.servers {
            glue(zone, server, &mut about);
            answers(server, &mut about);
        }
        delegation(zone, &mut about);
    }
}

/// A server within its own zone cannot be found without its addresses.
fn glue(zone: &Zone, server: &Server, about: &mut About<'_>) {
    let inside = tidy(&server.name).ends_with(&format!(".{}", tidy(&zone.name)));
    if inside && server.addresses.is_empty() {
        about.fault(
            "glue",
            format!("{} is within the zone and has no addresses", server.name),
            "give its addresses in spec.nameservers, and to the parent zone",
        );
    }
}

fn answers(server: &Server, about: &mut About<'_>) {
    for (address, answer) in &server.addresses {
        let who = format!("{} at {address}", server.name);
        let advice = "see whether limen dns runs there with this hub, and firewalls for UDP 53";
        match answer {
            Ok(Answer::Authoritative) => about.ok("answers", who),
            Ok(Answer::NotAuthoritative) => {
                about.fault("answers", format!("{who} has no authority for it"), advice);
            }
            Ok(Answer::Refused(code)) => {
                about.fault("answers", format!("{who} refuses it (code {code})"), advice);
            }
            Err(why) => about.fault("answers", format!("{who} does not answer: {why}"), advice),
        }
    }
}

fn delegation(zone: &Zone, about: &mut About<'_>) {
    let own: BTreeSet<String> = zone.servers.iter().map(|server| tidy(&server.name)).collect();
    match &zone.delegated {
        None => {}
        Some(Err(why)) => about.warning(
            "delegation",
            format!("nobody could be asked: {why}"),
            "give a resolver with --resolver ADDR",
        ),
        Some(Ok(told)) => {
            let told: BTreeSet<String> = told.iter().map(|name| tidy(name)).collect();
            let list = |names: &mut dyn Iterator<Item = &String>| {
                names.map(String::as_str).collect::<Vec<_>>().join(", ")
            };
            if told.is_empty() {
                let advice =
                    format!("add NS records for it to its parent zone: {}", list(&mut own.iter()));
                about.fault("delegation", "the world is told of no servers for it", &advice);
            } else if told.is_disjoint(&own) {
                let found = format!("the world is sent to {}", list(&mut told.iter()));
                let advice = format!(
                    "change the NS records in its parent zone to {}",
                    list(&mut own.iter())
                );
                about.fault("delegation", found, &advice);
            } else if told != own {
                let found = format!(
                    "the world is sent to {}, and the zone names {}",
                    list(&mut told.iter()),
                    list(&mut own.iter())
                );
                about.warning(
                    "delegation",
                    found,
                    "make the NS records of its parent zone the same",
                );
            } else {
                about.ok("delegation", list(&mut told.iter()));
            }
        }
    }
}

/// A name as it is compared.
fn tidy(name: &str) -> String {
    name.trim_end_matches('.').to_lowercase()
}
