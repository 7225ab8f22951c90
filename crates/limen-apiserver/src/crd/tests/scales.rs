use serde_json::{Value, json};

use crate::crd::validate_scale;
use crate::resource::ScalePaths;

#[test]
fn the_numbers_of_a_scale_are_judged_as_by_the_real_server() {
    let scale = ScalePaths {
        spec: ".spec.replicas".to_owned(),
        status: ".status.replicas".to_owned(),
        selector: Some(".status.sel".to_owned()),
    };
    let cases: [(Value, &[&str]); 6] = [
        (json!({"spec": {"replicas": 1}}), &[]),
        (
            json!({"spec": {"replicas": -1}}),
            &[".spec.replicas: Invalid value: -1: should be a non-negative integer"],
        ),
        (
            json!({"spec": {"replicas": 3_000_000_000_i64}}),
            &[
                ".spec.replicas: Invalid value: 3000000000: should be less than or equal to 2147483647",
            ],
        ),
        (
            json!({"status": {"replicas": "x"}}),
            &[
                ".status.replicas: Invalid value: 0: .status.replicas accessor error: x is of the type string, expected int64",
            ],
        ),
        (
            json!({"status": {"sel": 5}}),
            &[
                ".status.sel: Invalid value: \"\": .status.sel accessor error: 5 is of the type int64, expected string",
            ],
        ),
        (
            json!({"status": "x"}),
            &[
                ".status.replicas: Invalid value: 0: .status.replicas accessor error: x is of the type string, expected map[string]interface{}",
                ".status.sel: Invalid value: \"\": .status.sel accessor error: x is of the type string, expected map[string]interface{}",
            ],
        ),
    ];
    for (object, wanted) in cases {
        let errors = validate_scale(&object, &scale, false);
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(shown, wanted, "{object}");
    }
}
