//! Why a client goes where it goes.

use http::StatusCode;
use kube::Client;
use limen_hub::TrafficSnapshot;
use serde_json::{Value, json};

use crate::answer::Refusal;

/// Explains a request for `what`, which is HOST or HOST/PATH, of a client in a region.
pub(crate) async fn explain(client: &Client, what: &str, from: &str) -> Result<Value, Refusal> {
    let (host, path) = match what.split_once('/') {
        Some((host, path)) => (host, format!("/{path}")),
        None => (what, "/".to_owned()),
    };
    let places: Vec<&str> = Some(from.trim()).filter(|from| !from.is_empty()).into_iter().collect();
    let picture = TrafficSnapshot::read(client).await?;
    let (gateway, vantage) = picture.vantage(None, &places)?;
    let Some(asked) = picture.ask((host, &path), &places, &vantage) else {
        return Err(Refusal::new(StatusCode::NOT_FOUND, format!("nobody serves {host}{path}")));
    };
    let explanation = &asked.explanation;
    let steps: Vec<Value> = explanation
        .steps
        .iter()
        .map(|step| {
            let dropped = step
                .dropped
                .iter()
                .map(|dropped| json!({"cluster": dropped.cluster, "reason": dropped.reason}));
            json!({
                "rule": step.rule, "detail": step.detail, "kept": step.kept,
                "dropped": dropped.collect::<Vec<_>>(),
            })
        })
        .collect();
    let odds = explanation
        .odds
        .iter()
        .map(|odds| json!({"cluster": odds.cluster, "group": odds.group, "share": odds.share}));
    Ok(json!({
        "rule": asked.rule, "global": asked.global, "backend": asked.backend,
        "gateway": gateway.as_deref().unwrap_or("no gateway"),
        "steps": steps, "cluster": explanation.cluster, "odds": odds.collect::<Vec<_>>(),
    }))
}
