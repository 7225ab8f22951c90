//! What happened: the hub's events, and when clusters went away and came back.

use std::cmp::Reverse;

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use limen_api::{Cluster, TimedVerdict};
use limen_core::global::Verdict;
use serde::Serialize;

/// So much is shown.
const MOST: usize = 100;
/// What is well this many seconds after a cluster has joined has not come back: it has begun.
const BEGINNING: i64 = 60;

/// One thing that happened.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Happening {
    id: String,
    at: Option<String>,
    warning: bool,
    about: String,
    reason: String,
    message: String,
    count: i32,
}

type Timed = (Option<i64>, Happening);

/// The newest of all that happened, newest first.
pub(crate) fn happenings(events: &[&Event], clusters: &[&Cluster]) -> Vec<Happening> {
    let mut newest = events.to_vec();
    newest.sort_by_key(|event| (Reverse(time(event)), event.metadata.uid.as_deref()));
    let mut all: Vec<Timed> = newest.into_iter().take(MOST).map(event).collect();
    all.extend(clusters.iter().flat_map(|cluster| turns(cluster)));
    all.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.id.cmp(&other.1.id)));
    all.into_iter().take(MOST).map(|(_, happening)| happening).collect()
}

/// When it happened last.
fn time(event: &Event) -> Option<Timestamp> {
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    last.or_else(|| event.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

fn event(event: &Event) -> Timed {
    let time = time(event);
    let about = &event.involved_object;
    let name = about.name.as_deref().unwrap_or_default();
    let happening = Happening {
        id: event.uid().unwrap_or_else(|| event.name_any()),
        at: time.map(|time| time.to_string()),
        warning: event.type_.as_deref() == Some("Warning"),
        about: format!("{}/{name}", about.kind.as_deref().unwrap_or("Object")),
        reason: event.reason.clone().unwrap_or_default(),
        message: event.message.clone().unwrap_or_default(),
        count: event.count.unwrap_or(1),
    };
    (time.map(Timestamp::as_second), happening)
}

/// When a cluster last went away, or came back.
fn turns(cluster: &Cluster) -> Vec<Timed> {
    let verdicts = cluster.status.as_ref().and_then(|status| status.verdicts.clone());
    let verdicts = verdicts.unwrap_or_default();
    let joined = cluster.creation_timestamp().map_or(0, |time| time.0.as_second());
    let turn = |what: &str, timed: &TimedVerdict, away: &str, back: &str| -> Option<Timed> {
        let since = timed.since.as_ref()?.0;
        let (warning, reason, message) = match timed.verdict {
            Verdict::Unhealthy => (true, "Lost", away),
            Verdict::Healthy if since.as_second() > joined + BEGINNING => (false, "Back", back),
            _ => return None,
        };
        let name = cluster.name_any();
        let happening = Happening {
            id: format!("{name} {what} {since}"),
            at: Some(since.to_string()),
            warning,
            about: format!("Cluster/{name}"),
            reason: reason.to_owned(),
            message: message.to_owned(),
            count: 1,
        };
        Some((Some(since.as_second()), happening))
    };
    let turns = [
        turn("api", &verdicts.api, "its API does not answer", "its API answers again"),
        turn("edge", &verdicts.edge, "clients are sent elsewhere", "clients are sent there again"),
        turn("endpoints", &verdicts.endpoints, "nothing there is ready", "pods are ready again"),
    ];
    turns.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event_at(minute: usize) -> Event {
        serde_json::from_value(json!({
            "metadata": {"name": format!("e{minute}")},
            "involvedObject": {"kind": "Ingress", "name": "web"},
            "lastTimestamp": format!("2026-01-01T{:02}:{:02}:00Z", minute / 60, minute % 60),
        }))
        .unwrap()
    }

    #[test]
    fn newest_events_come_first_and_are_bounded() {
        let events: Vec<Event> = (0..MOST + 20).map(event_at).collect();
        let shown = happenings(&events.iter().collect::<Vec<_>>(), &[]);
        assert_eq!(shown.len(), MOST);
        assert_eq!(shown[0].id, format!("e{}", MOST + 19));
        assert_eq!(shown[0].about, "Ingress/web");
    }

    #[test]
    fn clusters_that_went_away_or_came_back_are_told_of_but_not_that_they_began() {
        let cluster: Cluster = serde_json::from_value(json!({
            "apiVersion": "limen.dev/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "asia", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {},
            "status": {"verdicts": {
                "api": {"verdict": "Healthy", "since": "2026-01-01T00:00:10Z"},
                "edge": {"verdict": "Unhealthy", "since": "2026-01-01T00:05:30Z"},
                "endpoints": {"verdict": "Healthy", "since": "2026-01-01T00:04:30Z"},
            }},
        }))
        .unwrap();
        let shown = happenings(&[&event_at(5)], &[&cluster]);
        let told: Vec<(&str, &str, bool)> = shown
            .iter()
            .map(|one| (one.about.as_str(), one.reason.as_str(), one.warning))
            .collect();
        let expected = [
            ("Cluster/asia", "Lost", true),
            ("Ingress/web", "", false),
            ("Cluster/asia", "Back", false),
        ];
        assert_eq!(told, expected);
    }
}
