//! What people read about a `PlacementPolicy`.

use limen_api::dialect::check_policy;
use limen_api::{PlacementPolicy, PlacementPolicyStatus};

use crate::conditions::condition;

/// What people read about a policy that so many roots go by.
pub(crate) fn status(
    policy: &PlacementPolicy,
    roots: usize,
    now: jiff::Timestamp,
) -> PlacementPolicyStatus {
    let before = policy.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let (valid, reason, message) = match check_policy(policy) {
        Err(error) => (
            "False",
            "NotUnderstood",
            format!("{error}; what its roots have in clusters stays as it is until this is mended"),
        ),
        Ok(()) if roots == 0 => ("True", "NoRoots", "no root goes by it".to_owned()),
        Ok(()) => ("True", "InForce", String::new()),
    };
    let mut valid = condition(before, "Valid", valid, reason, &message, now);
    valid.observed_generation = policy.metadata.generation;
    PlacementPolicyStatus { conditions: vec![valid], roots }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(selector: &str) -> PlacementPolicy {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "limen.dev/v1alpha1", "kind": "PlacementPolicy",
            "metadata": {"name": "p", "namespace": "default", "generation": 3},
            "spec": {"placement": {"clusterSelector": {"matchExpressions": [
                {"key": "location", "operator": selector, "values": ["asia"]}]}}}}))
        .unwrap()
    }

    #[test]
    fn a_policy_says_whether_it_is_understood_and_when_that_changed() {
        let at = |second| jiff::Timestamp::from_second(second).unwrap();
        let mut policy = policy("In");
        let first = status(&policy, 2, at(100));
        assert_eq!((first.roots, first.conditions[0].status.as_str()), (2, "True"));
        assert_eq!(first.conditions[0].observed_generation, Some(3));
        policy.status = Some(first.clone());
        assert_eq!(status(&policy, 2, at(200)), first, "nothing has changed");

        let mut wrong = self::policy("Near");
        wrong.status = Some(first);
        let second = status(&wrong, 0, at(200));
        assert_eq!(second.conditions[0].status, "False");
        assert!(second.conditions[0].message.contains("Near"), "{:?}", second.conditions[0]);
        assert_eq!(second.conditions[0].last_transition_time.0, at(200));
    }
}
