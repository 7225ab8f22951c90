//! After an upgrade: bytes both ways, whatever they mean.

use std::sync::Arc;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

use super::exchange::Exchange;
use crate::worker::Shared;

/// Carries bytes until one side is done or the gateway has stopped.
pub(super) async fn carry(
    client: OnUpgrade,
    target: OnUpgrade,
    mut exchange: Exchange,
    shared: Arc<Shared>,
) {
    let (client, target) = match futures::future::try_join(client, target).await {
        Ok(both) => both,
        Err(error) => {
            tracing::debug!(%error, "the tunnel could not be opened");
            return;
        }
    };
    let (mut client, mut target) = (TokioIo::new(client), TokioIo::new(target));
    let copied = tokio::select! {
        copied = copy_bidirectional(&mut client, &mut target) => copied,
        () = shared.stopped.cancelled() => return,
    };
    if let Ok((_, sent)) = copied {
        exchange.sent = sent;
        exchange.complete();
    }
}
