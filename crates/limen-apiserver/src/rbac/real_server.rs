//! Decisions that a real kube-apiserver 1.36.3 took, with the objects it took them on: ours must
//! be the same, with the same reasons.
//!
//! To record them again, apply `objects` and send each case's `spec` as a SubjectAccessReview.

use serde_json::Value;

use super::{Rbac, default_objects, subject_access_review};

#[test]
fn decisions_are_those_of_the_real_server() {
    let recorded: Value = serde_json::from_str(include_str!("recorded/decisions.json")).unwrap();
    let mut objects = default_objects();
    objects.extend(recorded["objects"].as_array().unwrap().iter().cloned());
    let rbac = Rbac::new(&objects);
    let cases = recorded["cases"].as_array().unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let review = serde_json::json!({"spec": case["spec"]});
        let answer = subject_access_review(&rbac, &review).unwrap();
        if answer["status"] != case["status"] {
            wrong.push(format!(
                "{}\n  real: {}\n  ours: {}",
                case["spec"], case["status"], answer["status"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases.len() >= 90);
}
