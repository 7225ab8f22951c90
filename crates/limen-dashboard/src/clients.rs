//! Where clients of each region are sent: what DNS answers them, and what a gateway there decides.

use std::collections::BTreeMap;

use kube::ResourceExt;
use limen_api::{Cluster, GlobalIngress};
use limen_core::compile::explain_request;
use limen_core::decide::Vantage;
use limen_core::global::Global;
use limen_core::locality::{Coordinates, Locality};
use serde::Serialize;

/// So many regions are shown.
const REGIONS: usize = 64;

/// Clients of one region.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientRegion {
    region: String,
    coordinates: Coordinates,
    /// The cluster that they are sent to, if anything serves them.
    cluster: Option<String>,
}

/// The regions that there are clusters in, and where clients there are sent for one root.
pub(crate) fn client_regions(
    clusters: &[&Cluster],
    global: Option<&GlobalIngress>,
) -> Vec<ClientRegion> {
    let mut places: BTreeMap<String, Coordinates> = BTreeMap::new();
    for cluster in clusters {
        let status = cluster.status.as_ref().and_then(|status| status.region.clone());
        let region = status.or_else(|| cluster.spec.region.clone());
        if let (Some(region), Some(coordinates)) = (region, cluster.spec.coordinates) {
            places.entry(region).or_insert(coordinates);
        }
    }
    let sent = |region: &str, coordinates: Coordinates| {
        let global = global?;
        let here = Locality {
            region: Some(region.to_owned()),
            zone: None,
            coordinates: Some(coordinates),
        };
        let name = global.name_any();
        let (host, path) = entrance(&global.spec.global);
        let globals = std::iter::once((name.as_str(), &global.spec.global));
        let nothing_known = |_: &str, _: &str| 0.0;
        let asked =
            explain_request(globals, (&host, &path), &[region], &Vantage::at(&here), nothing_known);
        asked?.explanation.cluster
    };
    let region = |(region, coordinates): (String, Coordinates)| ClientRegion {
        cluster: sent(&region, coordinates),
        region,
        coordinates,
    };
    places.into_iter().take(REGIONS).map(region).collect()
}

/// A host and a path that lead to a root.
pub(crate) fn entrance(global: &Global) -> (String, String) {
    let rule = global.rules.first();
    let host = rule.map(|rule| rule.host.replace('*', "any")).filter(|host| !host.is_empty());
    let path = rule.and_then(|rule| rule.paths.first()).map(|path| path.path.clone());
    let path = path.filter(|path| path.starts_with('/'));
    (host.unwrap_or_else(|| "any.invalid".to_owned()), path.unwrap_or_else(|| "/".to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn global(spec: &Value) -> GlobalIngress {
        serde_json::from_value(json!({
            "apiVersion": "limen.dev/v1alpha1", "kind": "GlobalIngress",
            "metadata": {"name": "web", "namespace": "shop"}, "spec": spec}))
        .unwrap()
    }

    #[test]
    fn clients_are_sent_to_the_nearest_that_is_well() {
        let places = [("tokyo", "asia", 35.7, 139.7), ("paris", "europe", 48.9, 2.4)];
        let clusters: Vec<Cluster> = places
            .iter()
            .map(|(name, region, latitude, longitude)| {
                serde_json::from_value(json!({
                    "apiVersion": "limen.dev/v1alpha1", "kind": "Cluster",
                    "metadata": {"name": name},
                    "spec": {"region": region,
                        "coordinates": {"latitude": latitude, "longitude": longitude}}}))
                .unwrap()
            })
            .collect();
        let with = |tokyo: &str| {
            let target = |index: usize, verdict: &str| {
                let (name, region, latitude, longitude) = places[index];
                json!({"cluster": name, "addresses": [{"host": "192.0.2.1", "port": 80}],
                    "region": region,
                    "coordinates": {"latitude": latitude, "longitude": longitude},
                    "verdicts": {"endpoints": verdict}})
            };
            global(&json!({
                "rules": [{"host": "", "paths": [{"path": "/", "backend": "web"}]}],
                "backends": [{"name": "web", "targets": [target(0, tokyo), target(1, "Healthy")]}],
            }))
        };
        let sent = |global: Option<&GlobalIngress>| -> Vec<Option<String>> {
            let clusters: Vec<&Cluster> = clusters.iter().collect();
            client_regions(&clusters, global).into_iter().map(|region| region.cluster).collect()
        };
        let (tokyo, paris) = (Some("tokyo".to_owned()), Some("paris".to_owned()));
        assert_eq!(sent(Some(&with("Healthy"))), [tokyo, paris.clone()]);
        assert_eq!(sent(Some(&with("Unhealthy"))), [paris.clone(), paris]);
        assert_eq!(sent(None), [None, None]);
    }

    #[test]
    fn a_place_that_leads_to_a_root_can_be_asked_for() {
        let wild = json!({"rules": [{"host": "*.shop.example",
            "paths": [{"path": "/cart", "backend": "web"}]}]});
        let expected = ("any.shop.example".to_owned(), "/cart".to_owned());
        assert_eq!(entrance(&global(&wild).spec.global), expected);
        assert_eq!(entrance(&Global::default()), ("any.invalid".to_owned(), "/".to_owned()));
    }
}
