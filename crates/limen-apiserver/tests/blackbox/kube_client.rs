//! Programs over kube-rs, as operators written in Rust use it: each line they return is
//! compared. A case runs one with `$ kube-rs NAME`.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use anyhow::{Context, Result, bail};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{reflector, watcher, watcher::Event},
};
use serde_json::json;
use tokio::time::timeout;

use crate::run::{Answer, Content};

const LIMIT: Duration = Duration::from_secs(20);

/// The lines of the program called `name`.
pub(crate) async fn run(name: &str, variables: &BTreeMap<String, String>) -> Result<Answer> {
    let kubeconfig = Kubeconfig::read_from(&variables["KUBECONFIG"])?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let maps = Api::namespaced(Client::try_from(config)?, &variables["NS"]);
    let config = watcher::Config::default().labels("watched=yes");
    let lines = match name {
        "watcher" => watch(maps, config).await,
        "streaming-watcher" => watch(maps, config.streaming_lists()).await,
        "reflector" => reflect(maps, config).await,
        "typed" => typed(maps).await,
        _ => bail!("there is no program {name}"),
    };
    // What a client cannot do is an answer as well.
    let text = lines.map_or_else(|error| format!("failed: {error:#}"), |lines| lines.join("\n"));
    Ok(Answer { parts: vec![("stdout".to_owned(), Content::Text(text))] })
}

fn map(name: &str, value: &str) -> Result<ConfigMap> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"watched": "yes"}},
        "data": {"key": value},
    }))?)
}

async fn next(
    events: &mut (impl Stream<Item = watcher::Result<Event<ConfigMap>>> + Unpin),
) -> Result<String> {
    let event = timeout(LIMIT, events.next()).await.context("no event")?.context("the end")??;
    let shown = |what: &str, map: ConfigMap| format!("{what} {} {:?}", map.name_any(), map.data);
    Ok(match event {
        Event::Init => "init".to_owned(),
        Event::InitApply(map) => shown("initially", map),
        Event::InitDone => "init done".to_owned(),
        Event::Apply(map) => shown("applied", map),
        Event::Delete(map) => shown("deleted", map),
    })
}

/// A watcher that starts on two objects and sees one come, change and go.
async fn watch(maps: Api<ConfigMap>, config: watcher::Config) -> Result<Vec<String>> {
    maps.create(&PostParams::default(), &map("first", "1")?).await?;
    maps.create(&PostParams::default(), &map("second", "1")?).await?;
    let mut events = pin!(watcher(maps.clone(), config));
    let mut lines = Vec::new();
    for _ in 0..4 {
        lines.push(next(&mut events).await?);
    }

    maps.create(&PostParams::default(), &map("third", "1")?).await?;
    lines.push(next(&mut events).await?);
    let change = Patch::Merge(json!({"data": {"key": "2"}}));
    maps.patch("third", &PatchParams::default(), &change).await?;
    lines.push(next(&mut events).await?);
    // Losing the label is a deletion to whoever watches by it.
    let unlabel = Patch::Merge(json!({"metadata": {"labels": {"watched": null}}}));
    maps.patch("second", &PatchParams::default(), &unlabel).await?;
    lines.push(next(&mut events).await?);
    maps.delete("third", &DeleteParams::default()).await?;
    lines.push(next(&mut events).await?);
    for name in ["first", "second"] {
        maps.delete(name, &DeleteParams::default()).await?;
    }
    Ok(lines)
}

/// A store that follows the objects.
async fn reflect(maps: Api<ConfigMap>, config: watcher::Config) -> Result<Vec<String>> {
    let (store, writer) = reflector::store();
    let mut events = pin!(reflector(writer, watcher(maps.clone(), config)));
    maps.create(&PostParams::default(), &map("one", "1")?).await?;
    for _ in 0..3 {
        next(&mut events).await?;
    }
    let contents = || {
        let mut names: Vec<_> =
            store.state().iter().map(|map| format!("{} {:?}", map.name_any(), map.data)).collect();
        names.sort();
        names.join(", ")
    };
    let mut lines = vec![contents()];
    maps.create(&PostParams::default(), &map("two", "1")?).await?;
    next(&mut events).await?;
    lines.push(contents());
    maps.delete("one", &DeleteParams::default()).await?;
    next(&mut events).await?;
    lines.push(contents());
    Ok(lines)
}

/// Typed reads, writes and errors.
async fn typed(maps: Api<ConfigMap>) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let shown = |outcome: kube::Result<ConfigMap>| match outcome {
        Ok(map) => format!("{} {:?}", map.name_any(), map.data),
        Err(kube::Error::Api(status)) => {
            format!("{} {}: {}", status.code, status.reason, status.message)
        }
        Err(other) => format!("{other:?}"),
    };
    lines.push(shown(maps.create(&PostParams::default(), &map("typed", "1")?).await));
    lines.push(shown(maps.create(&PostParams::default(), &map("typed", "1")?).await));
    lines.push(shown(maps.get("nothing").await));
    let apply = |value: &str| {
        Patch::Apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "typed"}, "data": {"key": value},
        }))
    };
    lines.push(shown(maps.patch("typed", &PatchParams::apply("rust"), &apply("2")).await));
    lines.push(shown(maps.patch("typed", &PatchParams::apply("rust").force(), &apply("2")).await));
    let mut old = maps.get("typed").await?;
    old.metadata.resource_version = Some("1".to_owned());
    lines.push(shown(maps.replace("typed", &PostParams::default(), &old).await));
    let listed = maps.list(&ListParams::default().limit(1)).await?;
    lines.push(format!(
        "{} listed, remaining {:?}",
        listed.items.len(),
        listed.metadata.remaining_item_count
    ));
    Ok(lines)
}
