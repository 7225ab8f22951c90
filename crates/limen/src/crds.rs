//! `limen crds`

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

/// Print the definitions that an existing Kubernetes needs to be a hub.
#[derive(Args)]
#[command(after_help = "Example:\n  limen crds | kubectl apply --server-side -f -")]
pub(crate) struct Crds {}

impl Crds {
    pub(crate) fn run(self) -> Result<()> {
        let mut items: Vec<Value> = Vec::new();
        let mut add = |crd| -> Result<()> {
            let mut object = serde_json::to_value(crd)?;
            object["apiVersion"] = json!("apiextensions.k8s.io/v1");
            object["kind"] = json!("CustomResourceDefinition");
            items.push(object);
            Ok(())
        };
        for crd in limen_api::crds() {
            add(crd)?;
        }
        for row in limen_api::NATIVE {
            let kind = limen_api::kind(row);
            add(limen_api::federated_kind(&kind))?;
            for crd in limen_api::three_object_kinds(&kind) {
                add(crd)?;
            }
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        println!("{}", serde_json::to_string_pretty(&list)?);
        Ok(())
    }
}
