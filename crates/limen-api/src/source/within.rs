//! Objects from within the process.

use tokio::sync::{mpsc, watch};

use super::objects::Objects;
use super::{News, OwnEdge, Running, Source};

/// Objects that somebody within the process publishes.
pub struct Within(pub watch::Receiver<Objects>);

impl Source for Within {
    fn run(
        mut self: Box<Self>,
        publish: mpsc::Sender<News>,
        _: watch::Receiver<OwnEdge>,
    ) -> Running {
        Box::pin(async move {
            loop {
                let objects = self.0.borrow_and_update().clone();
                if publish.send(News::Objects(objects)).await.is_err() {
                    return;
                }
                if self.0.changed().await.is_err() {
                    return;
                }
            }
        })
    }
}
