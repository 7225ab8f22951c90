//! One round after the other, whenever one is due ([`crate::rounds`]).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use limen_api::source::{News, Objects, OwnEdge, Source};
use limen_core::publish::{Held, Publisher, Wanted, wanted};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::rounds::Rounds;

/// The shortest time between two rounds: news come in bursts.
const BREATH: Duration = Duration::from_millis(200);

/// What is published.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who publishes, and in which zone.
    pub publisher: Publisher,
    /// How long answers are remembered where no policy says otherwise, in seconds.
    pub ttl: u32,
    /// Only say what would be changed.
    pub dry_run: bool,
}

impl Settings {
    /// What is to be published of these objects.
    fn wanted(&self, objects: &Objects) -> Wanted {
        let globals = objects.ingresses.values().map(|global| &**global);
        wanted(globals, &self.publisher.zone, self.ttl)
    }
}

/// Where it is published.
pub enum Place {
    /// A DNS server that takes updates.
    #[cfg(feature = "rfc2136")]
    Rfc2136(crate::Rfc2136),
    /// Objects that external-dns publishes.
    #[cfg(feature = "dns-endpoint")]
    DnsEndpoints(crate::DnsEndpoints),
}

/// What came of one round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// What was changed, or would be.
    pub changed: Vec<String>,
    /// What somebody else was faster with: it is looked at again.
    pub overtaken: Vec<String>,
    /// What could not be changed, and why. All else was.
    pub failed: Vec<String>,
    /// What is left alone, and why.
    pub remarks: Vec<String>,
    /// Why nothing was retracted, although some names are not wanted any more.
    pub held: Option<Held>,
}

/// After so many failures a round ends in which nothing was done: whoever refuses everything is not
/// asked for everything.
const MOST_FAILURES: usize = 5;

impl Round {
    /// Notes what could not be done, so that other things still are. Gives it back if nothing
    /// seems to be possible.
    pub(crate) fn note<E: std::fmt::Display>(&mut self, error: E) -> Result<(), E> {
        let nothing_done = self.changed.is_empty() && self.overtaken.is_empty();
        if nothing_done && self.failed.len() + 1 >= MOST_FAILURES {
            return Err(error);
        }
        self.failed.push(error.to_string());
        Ok(())
    }
}

/// Why nothing could be published, or why it ended halfway.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The DNS server.
    #[cfg(feature = "rfc2136")]
    #[error(transparent)]
    Rfc2136(#[from] crate::UpdateError),
    /// The API that takes the objects.
    #[cfg(feature = "dns-endpoint")]
    #[error(transparent)]
    DnsEndpoint(#[from] crate::EndpointError),
}

/// Publishes what these objects say.
pub async fn publish_once(
    place: &Place,
    settings: &Settings,
    objects: &Objects,
) -> Result<Round, PublishError> {
    make_round(place, settings, &settings.wanted(objects)).await
}

async fn make_round(
    place: &Place,
    settings: &Settings,
    wanted: &Wanted,
) -> Result<Round, PublishError> {
    let mut round = match place {
        #[cfg(feature = "rfc2136")]
        Place::Rfc2136(server) => server.publish(settings, wanted, now()).await?,
        #[cfg(feature = "dns-endpoint")]
        Place::DnsEndpoints(objects) => objects.publish(settings, wanted).await?,
    };
    let waiting = wanted.waiting.iter();
    let waiting =
        waiting.map(|(host, why)| format!("{host}: {why}; what is published of it stays"));
    round.remarks.extend(waiting);
    Ok(round)
}

/// Publishes for as long as it is polled.
pub async fn keep_publishing(place: Place, settings: Settings, source: impl Source) {
    let (publish, mut news) = mpsc::channel(16);
    let own = watch::Sender::new(OwnEdge::default());
    let running = Box::new(source).run(publish, own.subscribe());
    tokio::pin!(running);
    let mut wanted: Option<Wanted> = None;
    let mut rounds = Rounds::new(settings.publisher.lease, Instant::now());
    let mut said: Vec<String> = Vec::new();
    loop {
        tokio::select! {
            // A source that has ended leaves its last objects in force, and leases are renewed.
            () = &mut running, if !news.is_closed() => news.close(),
            Some(latest) = news.recv() => {
                match latest {
                    News::Objects(latest) => {
                        let latest = settings.wanted(&latest);
                        rounds.hear(&latest, Instant::now());
                        wanted = Some(latest);
                    }
                    News::Trouble(trouble) => tracing::warn!("{trouble}"),
                    News::Edges(_) | News::NotKept(_) => {}
                }
                continue;
            }
            () = tokio::time::sleep_until(rounds.due), if wanted.is_some() => {}
        }
        let Some(current) = &wanted else { continue };
        match make_round(&place, &settings, current).await {
            Ok(round) => {
                report(&round, &mut said);
                rounds.made(&round, current, Instant::now());
            }
            Err(error) => {
                let again_in = rounds.failed(Instant::now());
                tracing::error!(?again_in, "cannot publish: {error}");
            }
        }
        tokio::time::sleep(BREATH).await;
    }
}

/// The first objects of a source, or what is the matter with it.
pub async fn first_objects(source: impl Source) -> Result<Objects, String> {
    let (publish, mut news) = mpsc::channel(16);
    let own = watch::Sender::new(OwnEdge::default());
    let mut running = Box::new(source).run(publish, own.subscribe());
    loop {
        let latest = tokio::select! {
            latest = news.recv() => latest,
            () = &mut running => news.try_recv().ok(),
        };
        match latest {
            Some(News::Objects(objects)) => return Ok(objects),
            Some(News::Trouble(trouble)) => return Err(trouble),
            Some(News::Edges(_) | News::NotKept(_)) => {}
            None => return Err("there are no objects to publish".to_owned()),
        }
    }
}

/// Says what was done, and once what cannot be done.
fn report(round: &Round, said: &mut Vec<String>) {
    for change in &round.changed {
        tracing::info!("{change}");
    }
    for lost in &round.overtaken {
        tracing::warn!("somebody else was faster, looking again: {lost}");
    }
    let mut remarks = round.remarks.clone();
    remarks.extend(round.held.as_ref().map(|held| {
        format!("held back: {held}; if that is meant, run the same once with --allow-removal")
    }));
    for remark in remarks.iter().filter(|remark| !said.contains(remark)) {
        tracing::warn!("{remark}");
    }
    for failure in round.failed.iter().filter(|failure| !said.contains(failure)) {
        tracing::error!("not published, and tried again: {failure}");
    }
    remarks.extend(round.failed.iter().cloned());
    *said = remarks;
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
