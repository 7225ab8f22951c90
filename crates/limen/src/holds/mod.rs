//! Holds: removals that wait for a person. `limen holds` and `limen release`.

mod release;

use anyhow::{Context, Result, bail};
use clap::Args;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use limen_api::{HeldRoot, Hold};
use limen_core::federated::ObjectId;
use serde_json::json;

pub(crate) use self::release::{Release, release_ingress};
use crate::connection::{HubConnection, block_on};
use crate::output::{Column, Format, Listing, Output};
use crate::table;

/// Show the removals that wait for a person.
#[derive(Args)]
#[command(after_help = "\
A removal that looks like an accident waits: the hub writes down the exact set as a Hold and carries
out nothing of it. limen release lets a hold go on; a hold whose cause is undone ends by itself.

The hold with the most leaves comes first. -n shows holds all of whose roots are in that namespace.
-o json is a List of Hold objects (limen.dev/v1alpha1): spec.roots has each root with its clusters.
-o name prints hold/NAME.

Examples:
  limen holds
  limen holds -n shop
  limen holds -o json | jq '.items[].spec.roots'")]
pub(crate) struct Holds {
    #[command(flatten)]
    output: Output,

    #[command(flatten)]
    hub: HubConnection,
}

const COLUMNS: [Column; 7] = [
    ("NAME", false),
    ("AGE", false),
    ("REASON", false),
    ("ROOTS", false),
    ("LEAVES", false),
    ("RELEASED", true),
    ("MESSAGE", false),
];

impl Holds {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let client = self.hub.client().await?;
            let holds = list(&client, self.hub.asked_namespace()).await?;
            if holds.is_empty() && self.output.format == Format::Table {
                println!("Nothing is held.");
                return Ok(());
            }
            let value = json!({"apiVersion": "v1", "kind": "List", "items": holds});
            let listing = Listing {
                columns: &COLUMNS,
                rows: holds.iter().map(row).collect(),
                names: holds.iter().map(|hold| format!("hold/{}", hold.name_any())).collect(),
                value: &value,
            };
            listing.print(self.output.format).map(drop)
        })
    }
}

fn row(hold: &Hold) -> Vec<String> {
    vec![
        hold.name_any(),
        table::age(hold.metadata.creation_timestamp.as_ref().map(|time| time.0)),
        format!("{:?}", hold.spec.reason),
        hold.spec.root_count.to_string(),
        hold.spec.leaf_count.to_string(),
        if hold.spec.release { "yes" } else { "no" }.to_owned(),
        hold.spec.message.clone(),
    ]
}

/// All holds, or those of one namespace, the worst first.
async fn list(client: &Client, namespace: Option<&str>) -> Result<Vec<Hold>> {
    let api: Api<Hold> = Api::all(client.clone());
    let holds = match api.list(&ListParams::default()).await {
        Ok(holds) => holds.items,
        Err(kube::Error::Api(status)) if status.code == 404 => bail!(
            "this Kubernetes is no hub, or of an older version: it knows no holds; limen doctor says more"
        ),
        Err(error) => return Err(error).context("cannot list holds"),
    };
    Ok(worst_first(holds, namespace))
}

/// The holds of one namespace or of all, those with the most leaves first.
fn worst_first(mut holds: Vec<Hold>, namespace: Option<&str>) -> Vec<Hold> {
    holds.retain(|hold| namespace.is_none_or(|namespace| is_within(hold, namespace)));
    holds.sort_by_key(|hold| (std::cmp::Reverse(hold.spec.leaf_count), hold.name_any()));
    for hold in &mut holds {
        hold.metadata.managed_fields = None;
    }
    holds
}

/// Whether all roots of a hold are in a namespace, or are that Namespace.
fn is_within(hold: &Hold, namespace: &str) -> bool {
    let within = |root: &HeldRoot| match &root.namespace {
        Some(own) => own == namespace,
        None => root.api_version == "v1" && root.kind == "Namespace" && root.name == namespace,
    };
    !hold.spec.roots.is_empty() && hold.spec.roots.iter().all(within)
}

/// Whether a root of a hold is this object, whatever the version of its API.
fn is_root(root: &HeldRoot, id: &ObjectId) -> bool {
    let group = root.api_version.split_once('/').map_or("", |(group, _)| group);
    group == id.kind.group()
        && root.kind == id.kind.kind
        && root.namespace == id.namespace
        && root.name == id.name
}

/// The holds that have a root.
fn with_root<'a>(holds: &'a [Hold], id: &ObjectId) -> Vec<&'a Hold> {
    let has = |hold: &&Hold| hold.spec.roots.iter().any(|root| is_root(root, id));
    holds.iter().filter(has).collect()
}

#[cfg(test)]
mod tests {
    use limen_api::HoldSpec;

    use super::*;

    fn root(kind: &str, namespace: Option<&str>, name: &str) -> HeldRoot {
        let api_version = if kind == "Namespace" { "v1" } else { "networking.k8s.io/v1" };
        HeldRoot {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            ..HeldRoot::default()
        }
    }

    fn hold(name: &str, leaf_count: usize, roots: Vec<HeldRoot>) -> Hold {
        Hold::new(name, HoldSpec { leaf_count, roots, ..HoldSpec::default() })
    }

    fn holds() -> Vec<Hold> {
        vec![
            hold("small", 2, vec![root("Ingress", Some("shop"), "web")]),
            hold(
                "large",
                80,
                vec![root("Namespace", None, "shop"), root("Ingress", Some("shop"), "api")],
            ),
            hold(
                "mixed",
                9,
                vec![root("Ingress", Some("shop"), "a"), root("Ingress", Some("default"), "a")],
            ),
            hold("empty", 0, vec![]),
        ]
    }

    fn names(holds: &[Hold]) -> Vec<String> {
        holds.iter().map(ResourceExt::name_any).collect()
    }

    #[test]
    fn the_hold_with_the_most_leaves_comes_first() {
        assert_eq!(names(&worst_first(holds(), None)), ["large", "mixed", "small", "empty"]);
    }

    #[test]
    fn a_namespace_has_the_holds_whose_roots_are_all_in_it() {
        assert_eq!(names(&worst_first(holds(), Some("shop"))), ["large", "small"]);
        assert!(worst_first(holds(), Some("default")).is_empty());
    }

    #[test]
    fn a_root_is_found_by_group_kind_namespace_and_name() {
        let id = |version: &str, namespace: &str, name: &str| ObjectId {
            kind: limen_api::kind((version, "Ingress", "ingresses", true)),
            namespace: Some(namespace.to_owned()),
            name: name.to_owned(),
        };
        let holds = holds();
        let found = |id: &ObjectId| -> Vec<String> {
            with_root(&holds, id).into_iter().map(ResourceExt::name_any).collect()
        };
        assert_eq!(found(&id("networking.k8s.io/v1", "shop", "web")), ["small"]);
        assert_eq!(found(&id("networking.k8s.io/v2", "default", "a")), ["mixed"]);
        assert!(found(&id("example.com/v1", "shop", "web")).is_empty(), "another group");
        assert!(found(&id("networking.k8s.io/v1", "other", "web")).is_empty());
    }
}
