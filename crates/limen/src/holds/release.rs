//! `limen release`

use anyhow::{Context, Result, bail};
use clap::Args;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use limen_api::{HeldRoot, Hold};
use limen_core::federated::ObjectId;
use limen_hub::Catalogue;
use serde_json::json;

use super::{is_root, list, with_root};
use crate::connection::{HubConnection, block_on};
use crate::join::confirm;
use crate::roots::resolve;

/// The manager of the field that releases a hold, for the record of who changed what.
const MANAGER: &str = "limen-release";

/// Let a held removal go on.
#[derive(Args)]
#[command(after_help = "\
Shows the exact set of roots and clusters and lets that set go on, once; a hold that has changed
since it was shown is not released. By KIND/NAME it asks if the hold has other roots too. --all
shows every hold, with -n those of one namespace, and asks.

Examples:
  limen release nothing-selected-7f3a
  limen release ingress/web -n shop
  limen release --all
  limen release --all -n shop --yes")]
pub(crate) struct Release {
    /// Hold, as limen holds lists it, or one of its roots as KIND/NAME
    #[arg(value_name = "HOLD|KIND/NAME", required_unless_present = "all")]
    hold: Option<String>,

    /// All holds; with -n those of that namespace
    #[arg(long, conflicts_with = "hold")]
    all: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    hub: HubConnection,
}

impl Release {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let hub = self.hub.connect().await?;
            let (holds, ask) = match &self.hold {
                None => (list(&hub.client, self.hub.asked_namespace()).await?, true),
                Some(root) if root.contains('/') => {
                    let catalogue = Catalogue::read(&hub.client).await?;
                    let id = resolve(&catalogue, root, &hub.namespace)?;
                    let hold = the_hold_of(&hub.client, &id).await?;
                    let hold = hold.with_context(|| {
                        format!("nothing of {id} is held; limen holds lists what is")
                    })?;
                    let more = hold.spec.roots.len() > 1;
                    (vec![hold], more)
                }
                Some(name) => {
                    let holds: Api<Hold> = Api::all(hub.client.clone());
                    let hold = holds.get_opt(name).await;
                    let hold = hold.with_context(|| format!("cannot read the hold {name}"))?;
                    let hold = hold.with_context(|| {
                        format!("there is no hold {name}; limen holds lists them")
                    })?;
                    (vec![hold], false)
                }
            };
            holds.iter().for_each(show);
            if ask && !holds.is_empty() && !self.yes {
                confirm()?;
            }
            release_all(&hub.client, &holds).await
        })
    }
}

/// Prints the exact set of a hold.
fn show(hold: &Hold) {
    let released = if hold.spec.release { " (released already)" } else { "" };
    println!("Hold {}: {}{released}", hold.name_any(), hold.spec.message);
    for root in &hold.spec.roots {
        println!("  {}: {}", described(root), root.clusters.join(", "));
    }
}

fn described(root: &HeldRoot) -> String {
    match &root.namespace {
        Some(namespace) => format!("{} {namespace}/{}", root.kind, root.name),
        None => format!("{} {}", root.kind, root.name),
    }
}

/// Releases every hold that can be released; a failure does not keep the others from it.
async fn release_all(client: &Client, holds: &[Hold]) -> Result<()> {
    let mut failed = 0;
    for hold in holds {
        if let Err(error) = release(client, hold).await {
            failed += 1;
            eprintln!("limen: {error:#}");
        }
    }
    println!("{} released.", holds.len() - failed);
    if failed > 0 {
        bail!("{failed} of {} could not be released", holds.len());
    }
    Ok(())
}

/// Releases a hold exactly as it was read.
async fn release(client: &Client, hold: &Hold) -> Result<()> {
    if hold.spec.release {
        return Ok(());
    }
    let name = hold.name_any();
    let metadata = &hold.metadata;
    let patch = json!({
        "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
        "spec": {"release": true}});
    let how = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let holds: Api<Hold> = Api::all(client.clone());
    match holds.patch(&name, &how, &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => bail!(
            "hold {name} has changed since it was shown, and is not released; limen holds shows it as it is"
        ),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            bail!("hold {name} has ended: its set is empty")
        }
        Err(error) => Err(error).with_context(|| format!("cannot release the hold {name}")),
    }
}

/// The only hold that has a root.
async fn the_hold_of(client: &Client, id: &ObjectId) -> Result<Option<Hold>> {
    let holds = list(client, None).await?;
    match with_root(&holds, id)[..] {
        [] => Ok(None),
        [hold] => Ok(Some(hold.clone())),
        ref several => {
            let names: Vec<String> = several.iter().map(|hold| hold.name_any()).collect();
            bail!("{id} is in several holds ({}); release one by its name", names.join(", "))
        }
    }
}

/// Releases the hold of an Ingress, if there is one and it has no other root.
pub(crate) async fn release_ingress(client: &Client, namespace: &str, name: &str) -> Result<()> {
    let id = ObjectId {
        kind: limen_api::kind(("networking.k8s.io/v1", "Ingress", "ingresses", true)),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    };
    let Some(hold) = the_hold_of(client, &id).await? else { return Ok(()) };
    let others = hold.spec.roots.iter().filter(|root| !is_root(root, &id)).count();
    if others > 0 {
        let hold = hold.name_any();
        bail!(
            "hold {hold} has {others} other roots besides {id}; limen holds shows them, and limen release {hold} lets all of them go on"
        );
    }
    if !hold.spec.release {
        show(&hold);
    }
    release(client, &hold).await
}
