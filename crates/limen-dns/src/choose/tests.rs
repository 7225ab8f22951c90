//! Points and shares.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn choice(weights: &[u64]) -> Choice {
    let total: u64 = weights.iter().sum();
    let mut end = 0;
    let shares = weights.iter().enumerate().map(|(index, weight)| {
        end += weight;
        (index as u16, (end << 32) / total)
    });
    Choice { shares: shares.collect(), ..Choice::default() }
}

proptest! {
    /// Whichever run of networks a provider has, it divides as the weights say: what is missing or
    /// too much grows with the logarithm of the run at most.
    #[test]
    fn any_run_of_networks_divides_as_the_weights_say(
        weights in prop::collection::vec(1_u64..100, 2..6),
        first in 0_u32..1 << 23,
        count in 1_u32..3000,
        hash in any::<u32>(),
        six in any::<bool>(),
    ) {
        let choice = choice(&weights);
        let mut counts = vec![0_u32; weights.len()];
        for network in first..first + count {
            let address = if six {
                IpAddr::V6(Ipv6Addr::from(u128::from(network) << 72))
            } else {
                IpAddr::V4(Ipv4Addr::from(network << 8))
            };
            counts[choice.at(point(address, hash)).unwrap()] += 1;
        }
        let total: u64 = weights.iter().sum();
        for (weight, got) in weights.iter().zip(counts) {
            let fair = f64::from(count) * *weight as f64 / total as f64;
            let off = (f64::from(got) - fair).abs();
            prop_assert!(off <= 2.0 + 1.5 * f64::from(count).log2(), "{got} instead of {fair}");
        }
    }

    #[test]
    fn clients_of_one_network_share_its_point(network in any::<u32>(), hash in any::<u32>()) {
        let base = network & !0xFF;
        let at = |host: u32| point(IpAddr::V4(Ipv4Addr::from(base | host)), hash);
        prop_assert_eq!(at(1), at(254));
    }
}

#[test]
fn every_point_has_a_target() {
    let choice = choice(&[1, 98, 1]);
    assert_eq!(choice.at(0), Some(0));
    assert_eq!(choice.at(u32::MAX / 2), Some(1));
    assert_eq!(choice.at(u32::MAX), Some(2));
    assert_eq!(Choice::default().at(5), None);
}

#[test]
fn an_answer_names_targets_of_weight_0_only_when_no_weighted_one_is_as_ready() {
    let targets = ["blue", "green", "green-too"].map(|cluster| Target {
        cluster: cluster.to_owned(),
        group: Some(cluster[..4].to_owned()),
        ..Target::default()
    });
    let backend = Backend { name: "web".into(), targets: targets.into() };
    let groups = [("gree".to_owned(), 100), ("blue".to_owned(), 0)].into();
    let split = Some(limen_core::global::Split { groups, ..Default::default() });
    let rules = TrafficRules { split, ..TrafficRules::default() };
    let order = Plan::new(&backend, &rules, &limen_core::locality::Locality::default());
    use Readiness::{Ready, Unhealthy};
    for (states, expected) in [
        ([Ready, Ready, Ready], &[1, 2][..]),
        ([Ready, Unhealthy, Ready], &[2]),
        ([Ready, Unhealthy, Unhealthy], &[0]),
        ([Unhealthy, Unhealthy, Unhealthy], &[1, 2]),
    ] {
        let found = ready(&order, |target| states[target], Ask::default());
        assert_eq!(found, expected, "{states:?}");
    }
}
