//! The examples say what they mean.

use limen_api::{FederatedIngress, TrafficPolicy};
use limen_core::compile::BackendSource;

fn example<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let path = format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_policy_can_be_in_force() {
    let policy: TrafficPolicy = example("traffic-policy.yaml");
    policy.spec.policy.check(["europe", "asia"].into_iter()).unwrap();
    let split = policy.spec.policy.rules(Some(10)).split.unwrap();
    assert_eq!((split.groups["v1"], split.groups["v2"]), (90, 10));
}

#[test]
fn the_federated_ingress_leads_to_both_clusters() {
    let ingress: FederatedIngress = example("federated-ingress.yaml");
    let root = ingress.root().unwrap();
    assert_eq!(root.rules[0].host, "shop.example.com");
    let BackendSource::Listed(listed) = &root.backends["shop"] else { panic!("it lists targets") };
    let weights: Vec<_> = listed.iter().map(|one| (one.cluster.as_str(), one.weight)).collect();
    assert_eq!(weights, [("europe", Some(80)), ("asia", Some(20))]);
}
