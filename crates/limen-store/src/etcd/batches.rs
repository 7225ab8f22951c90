//! Making batches of the answers that etcd has split, so that none ends within a revision.

use std::sync::Arc;

use crate::{Event, WatchBatch};

#[derive(Default)]
pub(super) struct Batches {
    /// Events of the last revision so far, of which there may be more.
    held: Vec<Arc<Event>>,
}

impl Batches {
    /// Takes the next events, and whether the rest of their answer is still to come.
    pub(super) fn add(&mut self, events: Vec<Arc<Event>>, more: bool) -> Option<WatchBatch> {
        let mut ready = std::mem::take(&mut self.held);
        ready.extend(events);
        if more {
            let last = ready.last()?.revision;
            let whole = ready.partition_point(|event| event.revision < last);
            self.held = ready.split_off(whole);
        }
        let revision = ready.last()?.revision;
        Some(WatchBatch { events: ready, revision })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::Revision;

    fn events(revisions: &[u64]) -> Vec<Arc<Event>> {
        let event = |&revision: &u64| Event {
            key: Bytes::from("k"),
            revision: Revision(revision),
            current: None,
            previous: None,
        };
        revisions.iter().map(event).map(Arc::new).collect()
    }

    #[test]
    fn a_revision_that_etcd_split_is_put_together() {
        // Each step: what etcd sends, whether it is a fragment, and what is delivered then.
        let steps: [(&[u64], bool, &[u64]); 6] = [
            (&[2, 3], false, &[2, 3]),
            (&[4, 5, 5], true, &[4]),
            (&[5, 5], true, &[]),
            (&[5, 6, 6], true, &[5, 5, 5, 5, 5]),
            (&[6], false, &[6, 6, 6]),
            (&[7], false, &[7]),
        ];
        let mut batches = Batches::default();
        for (sent, more, expected) in steps {
            let batch = batches.add(events(sent), more);
            let revision = batch.as_ref().map(|batch| batch.revision.0);
            let delivered = batch.map_or(Vec::new(), |batch| batch.events);
            let delivered: Vec<u64> = delivered.iter().map(|event| event.revision.0).collect();
            assert_eq!(delivered, expected, "after {sent:?}");
            assert_eq!(revision, expected.last().copied());
        }
    }
}
