//! `--watch`: what is there, and then whatever changes.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::StreamExt;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::stdout;

/// For how long a hub is asked to tell of changes before it is asked again.
const ROUND: u32 = 290;
/// How often to look whether anybody still reads what is printed.
const LOOK: Duration = Duration::from_secs(1);

/// Something that was seen.
pub(crate) enum Seen<K> {
    /// It is there and looks like this.
    Is(K),
    /// It is not there any more.
    Gone(String),
}

/// Follows the objects of a kind until nobody reads what is printed about them. An object may be
/// seen several times without having changed.
pub(crate) async fn follow<K>(
    api: &Api<K>,
    fields: Option<&str>,
    mut see: impl FnMut(Seen<K>) -> Result<()>,
) -> Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let context = "the hub does not tell of changes any more; run this again when it is back";
    let mut known: BTreeSet<String> = BTreeSet::new();
    while stdout::has_reader() {
        let list =
            ListParams { field_selector: fields.map(str::to_owned), ..ListParams::default() };
        let all = api.list(&list).await.context(context)?;
        let mut version = all.metadata.resource_version.unwrap_or_default();
        let before = std::mem::take(&mut known);
        for object in all.items {
            known.insert(object.name_any());
            see(Seen::Is(object))?;
        }
        // What has gone while nobody was told.
        for name in before.difference(&known) {
            see(Seen::Gone(name.clone()))?;
        }
        while listen(api, fields, &mut version, &mut known, &mut see).await.context(context)? {}
    }
    Ok(())
}

/// Hears of changes for one round. False means that all must be listed again.
async fn listen<K>(
    api: &Api<K>,
    fields: Option<&str>,
    version: &mut String,
    known: &mut BTreeSet<String>,
    see: &mut impl FnMut(Seen<K>) -> Result<()>,
) -> Result<bool>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let mut params = WatchParams::default().timeout(ROUND);
    params.field_selector = fields.map(str::to_owned);
    let mut events = api.watch(&params, version).await?.boxed();
    loop {
        let event = match tokio::time::timeout(LOOK, events.next()).await {
            Ok(Some(event)) => event,
            Ok(None) => return Ok(stdout::has_reader()),
            Err(_) if stdout::has_reader() => continue,
            Err(_) => return Ok(false),
        };
        match event {
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                *version = object.resource_version().unwrap_or_default();
                known.insert(object.name_any());
                see(Seen::Is(object))?;
            }
            Ok(WatchEvent::Deleted(object)) => {
                *version = object.resource_version().unwrap_or_default();
                known.remove(&object.name_any());
                see(Seen::Gone(object.name_any()))?;
            }
            Ok(WatchEvent::Bookmark(bookmark)) => *version = bookmark.metadata.resource_version,
            // The history is too short, or the connection was lost: the list says whether the
            // hub is still there.
            Ok(WatchEvent::Error(_)) | Err(_) => return Ok(false),
        }
    }
}
