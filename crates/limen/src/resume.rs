//! `limen resume`

use anyhow::{Context, Result, bail};
use clap::Args;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use limen_api::NAMESPACE;
use serde_json::json;

use crate::connection::{HubConnection, block_on};
use crate::join::confirm;

/// On the namespace limen-system: the newest mark found in a member that is newer than this hub.
const NEWER_MARK: &str = "limen.dev/newer-mark";
/// On the same: the member with that mark.
const NEWER_MARK_CLUSTER: &str = "limen.dev/newer-mark-cluster";
/// On the same: the mark up to which a person lets this hub write again.
const RESUME: &str = "limen.dev/resume";

/// Let a hub that was restored from a backup write to members again.
#[derive(Args)]
#[command(after_help = "\
A hub that finds leaves in a member that a newer state of itself has written was restored from a
backup, or is a copy of another hub. It then writes nothing to members. limen resume shows the mark
that was found and, when confirmed, lets the hub go on from the state that it has: what the newer
state changed in members is changed back. Make sure first that no other hub runs on a copy of this
state.

Examples:
  limen resume
  limen resume --yes")]
pub(crate) struct Resume {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    hub: HubConnection,
}

impl Resume {
    pub(crate) fn run(self) -> Result<()> {
        block_on(async {
            let namespaces: Api<Namespace> = Api::all(self.hub.client().await?);
            let found = namespaces.get_opt(NAMESPACE).await;
            let found = found.with_context(|| format!("cannot read the namespace {NAMESPACE}"))?;
            let Some((namespace, mark)) = found.and_then(|found| {
                let mark = found.annotations().get(NEWER_MARK).cloned()?;
                Some((found, mark))
            }) else {
                println!("nothing to resume");
                return Ok(());
            };
            let Mark { epoch, revision } = Mark::parse(&mark)?;
            let cluster = namespace.annotations().get(NEWER_MARK_CLUSTER);
            let cluster = cluster.map_or("a member", String::as_str);
            println!(
                "Found in {cluster}: leaves of epoch {epoch}, revision {revision}, newer than this hub."
            );
            if namespace.annotations().get(RESUME) == Some(&mark) {
                println!("Resumed already up to that mark; the hub goes on.");
                return Ok(());
            }
            println!(
                "This hub was restored from a backup, or is a copy. It goes on from its own state; what newer state changed in members is changed back."
            );
            if !self.yes {
                confirm()?;
            }
            let patch = json!({"metadata": {
                "resourceVersion": namespace.metadata.resource_version,
                "annotations": {RESUME: mark}}});
            let patch = Patch::Merge(patch);
            match namespaces.patch(NAMESPACE, &PatchParams::default(), &patch).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 409 => bail!(
                    "the namespace {NAMESPACE} has changed since it was shown; nothing was done, run limen resume again"
                ),
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("cannot annotate the namespace {NAMESPACE}"));
                }
            }
            println!("Resumed from epoch {epoch}, revision {revision}.");
            Ok(())
        })
    }
}

/// Age of a leaf: the lead that it was written under, and the revision of the hub's store.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    epoch: u64,
    revision: u64,
}

impl Mark {
    fn parse(text: &str) -> Result<Self> {
        let parts = text.split_once('.').and_then(|(epoch, revision)| {
            Some(Self { epoch: epoch.parse().ok()?, revision: revision.parse().ok()? })
        });
        parts.with_context(|| {
            format!("the annotation {NEWER_MARK} is {text:?}, which is not EPOCH.REVISION")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_an_epoch_and_a_revision() {
        assert_eq!(Mark::parse("7.1234").unwrap(), Mark { epoch: 7, revision: 1234 });
        for odd in ["", "7", "7.", ".1", "7.x", "-1.2", "1.2.3"] {
            assert!(Mark::parse(odd).is_err(), "{odd:?}");
        }
    }
}
