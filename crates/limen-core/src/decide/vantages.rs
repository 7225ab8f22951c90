//! What gateways have measured, for an edge that decides for clients of many places.
//!
//! A DNS server is not where its clients are, so that what it could measure by itself says little.
//! Gateways are: whoever is near one is sent where that gateway would send a request.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::nearness::{Nearness, Vantage, nearness};
use crate::edge::{EdgeKind, EdgeReport, Peer};
use crate::locality::Locality;

/// Clients that are farther from a gateway than this, in kilometres, are not where it has measured.
const SPEAKS_FOR: u32 = 500;
/// Latencies that are no farther apart than this, in milliseconds or as a part of the smaller, are
/// the same.
const SAME_MILLISECONDS: f64 = 2.0;
const SAME_PART: f64 = 0.3;

/// Where gateways are, and what they have measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vantages {
    gateways: BTreeMap<String, Vantage>,
}

impl Vantage {
    /// A place, with what somebody there reports. A cluster with several ways in is as near as the
    /// nearest of them.
    pub fn reported(here: &Locality, report: &EdgeReport) -> Self {
        let mut latencies: BTreeMap<String, f64> = BTreeMap::new();
        for target in &report.targets {
            if let Some(latency) = target.latency_milliseconds {
                let least = latencies.entry(target.cluster.clone()).or_insert(latency);
                *least = least.min(latency);
            }
        }
        Self { here: here.clone(), latencies }
    }

    /// Takes over what was known before wherever it is as good as the same.
    fn settled_by(mut self, before: &Self) -> Self {
        for (cluster, latency) in &mut self.latencies {
            let Some(known) = before.latencies.get(cluster) else { continue };
            let apart = (*known - *latency).abs();
            if apart < SAME_MILLISECONDS || apart < known.min(*latency) * SAME_PART {
                *latency = *known;
            }
        }
        self
    }
}

impl Vantages {
    /// Takes in what all edges say now. Whether that may change a decision.
    pub fn hear(&mut self, edges: &BTreeMap<String, Peer>) -> bool {
        let gateways = edges.iter().filter(|(_, peer)| peer.kind == EdgeKind::Gateway);
        let gateways = gateways.map(|(name, peer)| {
            let said = Vantage::reported(&peer.locality, &peer.report);
            let before = self.gateways.get(name);
            (name.clone(), before.map_or(said.clone(), |before| said.settled_by(before)))
        });
        // Who has measured nothing knows no more than the map.
        let gateways = gateways.filter(|(_, vantage)| !vantage.latencies.is_empty()).collect();
        let matters = gateways != self.gateways;
        self.gateways = gateways;
        matters
    }

    /// How clusters look to the clients of a place: as to the gateway near them, or as on the map
    /// where there is none.
    pub fn of(&self, place: &Locality) -> Cow<'_, Vantage> {
        let near = self.gateways.iter().map(|(name, vantage)| {
            let near = nearness(place, &vantage.here);
            (near, name, vantage)
        });
        let speaks = |near: Nearness| match near {
            Nearness::Zone | Nearness::Region => true,
            Nearness::Kilometres(distance) => distance <= SPEAKS_FOR,
            Nearness::Unknown => false,
        };
        near.filter(|(near, ..)| speaks(*near))
            .min_by_key(|(near, name, _)| (*near, *name))
            .map_or_else(|| Cow::Owned(Vantage::at(place)), |(.., found)| Cow::Borrowed(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::TargetReport;

    fn gateway(region: &str, place: &str, latencies: &[(&str, f64)]) -> Peer {
        let target = |(cluster, latency): &(&str, f64)| TargetReport {
            cluster: (*cluster).to_owned(),
            healthy: true,
            latency_milliseconds: Some(*latency),
            ..TargetReport::default()
        };
        Peer {
            kind: EdgeKind::Gateway,
            locality: at(region, place),
            report: EdgeReport {
                targets: latencies.iter().map(target).collect(),
                ..EdgeReport::default()
            },
        }
    }

    fn at(region: &str, place: &str) -> Locality {
        let region = Some(region.to_owned()).filter(|region| !region.is_empty());
        Locality { region, zone: None, coordinates: place.parse().ok() }
    }

    fn heard(peers: Vec<(&str, Peer)>) -> Vantages {
        let mut vantages = Vantages::default();
        let peers = peers.into_iter().map(|(name, peer)| (name.to_owned(), peer)).collect();
        vantages.hear(&peers);
        vantages
    }

    #[test]
    fn the_gateway_near_a_client_speaks_for_it() {
        let vantages = heard(vec![
            ("berlin", gateway("", "52.5,13.4", &[("a", 9.0), ("a", 7.0), ("b", 30.0)])),
            ("tokyo", gateway("asia", "35.7,139.7", &[("a", 200.0)])),
            ("silent", gateway("", "52.4,13.1", &[])),
        ]);
        for (what, place, expected) in [
            ("two hundred kilometres away", at("", "51.0,11.0"), Some(7.0)),
            ("in its region", at("asia", ""), Some(200.0)),
            ("an ocean away", at("", "40.7,-74.0"), None),
            ("nobody knows where", Locality::default(), None),
        ] {
            assert_eq!(vantages.of(&place).latencies.get("a").copied(), expected, "{what}");
        }
        let far = at("", "40.7,-74.0");
        assert_eq!(*vantages.of(&far), Vantage::at(&far), "the map");
    }

    #[test]
    fn what_is_as_good_as_the_same_changes_nothing() {
        let mut vantages = Vantages::default();
        let mut hear = |kind, latency| {
            let peer = Peer { kind, ..gateway("eu", "", &[("a", latency)]) };
            vantages.hear(&[("one".to_owned(), peer)].into())
        };
        assert!(hear(EdgeKind::Gateway, 10.0));
        assert!(!hear(EdgeKind::Gateway, 11.9));
        assert!(!hear(EdgeKind::Gateway, 12.9), "a part of what was known at first");
        assert!(hear(EdgeKind::Gateway, 14.0));
        assert!(hear(EdgeKind::Dns, 14.0), "a DNS server measures nothing");
        assert!(!hear(EdgeKind::Dns, 99.0));
    }
}
