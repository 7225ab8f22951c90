//! The newest events, kept in memory for the watches that keep up.
//!
//! The writer pushes each commit's events; watches read from where they are. There is no buffer
//! per watch: one that falls behind the window reads the log from disk instead, so a slow watch
//! neither blocks the writer nor holds memory.

use std::collections::VecDeque;
use std::sync::{Arc, RwLock};

use crate::{Event, Revision};

pub(super) struct Window {
    inner: RwLock<Inner>,
    max_bytes: usize,
}

struct Inner {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// Every event later than this, up to `newest`, is in `events`.
    after: Revision,
    newest: Revision,
}

/// What a watch gets from the window.
pub(super) struct Slice {
    pub(super) events: Vec<Arc<Event>>,
    /// Everything under the prefix up to here is in `events`, or was before.
    pub(super) upto: Revision,
}

impl Window {
    pub(super) fn new(newest: Revision, max_bytes: usize) -> Self {
        let inner = Inner { events: VecDeque::new(), bytes: 0, after: newest, newest };
        Self { inner: RwLock::new(inner), max_bytes }
    }

    pub(super) fn newest(&self) -> Revision {
        self.inner.read().expect("no holder panics").newest
    }

    /// Adds the events of one commit, which end at `newest`.
    pub(super) fn push(&self, events: Vec<Arc<Event>>, newest: Revision) {
        let mut inner = self.inner.write().expect("no holder panics");
        inner.bytes += events.iter().map(weight).sum::<usize>();
        inner.events.extend(events);
        inner.newest = newest;
        while inner.bytes > self.max_bytes {
            let Some(oldest) = inner.events.pop_front() else { break };
            inner.bytes -= weight(&oldest);
            // The rest of a revision is useless once its first event is gone: a watch that is
            // before it has to go to disk.
            inner.after = oldest.revision;
        }
    }

    /// Forgets everything: `newest` is what the disk has, and watches must go there.
    pub(super) fn reset(&self, newest: Revision) {
        let mut inner = self.inner.write().expect("no holder panics");
        *inner = Inner { events: VecDeque::new(), bytes: 0, after: newest, newest };
    }

    /// The events under `prefix` after a revision: about `limit` of them, and never part of a
    /// revision. `None` if the window does not reach back that far.
    pub(super) fn slice(&self, prefix: &[u8], after: Revision, limit: usize) -> Option<Slice> {
        let inner = self.inner.read().expect("no holder panics");
        if after < inner.after {
            return None;
        }
        let start = inner.events.partition_point(|event| event.revision <= after);
        let mut events: Vec<Arc<Event>> = Vec::new();
        for event in inner.events.range(start..) {
            if !event.key.starts_with(prefix) {
                continue;
            }
            match events.last() {
                Some(last) if events.len() >= limit && last.revision != event.revision => {
                    let upto = last.revision;
                    return Some(Slice { events, upto });
                }
                _ => events.push(event.clone()),
            }
        }
        Some(Slice { events, upto: inner.newest.max(after) })
    }
}

fn weight(event: &Arc<Event>) -> usize {
    let value = |entry: &Option<crate::Entry>| entry.as_ref().map_or(0, |entry| entry.value.len());
    size_of::<Event>() + event.key.len() + value(&event.current) + value(&event.previous)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::Entry;

    fn event(revision: u64, key: &'static str) -> Arc<Event> {
        let revision = Revision(revision);
        let key = Bytes::from_static(key.as_bytes());
        let value = Bytes::from(vec![0; 1000]);
        let current = Entry { key: key.clone(), value, created: revision, modified: revision };
        Arc::new(Event { key, revision, current: Some(current), previous: None })
    }

    fn revisions(slice: &Slice) -> Vec<u64> {
        slice.events.iter().map(|event| event.revision.0).collect()
    }

    #[test]
    fn a_slice_has_what_comes_after_under_the_prefix() {
        let window = Window::new(Revision(1), 1 << 20);
        window.push(vec![event(2, "a/1"), event(3, "b/1")], Revision(3));
        window.push(vec![event(4, "a/2")], Revision(4));
        let slice = window.slice(b"a/", Revision(2), 10).unwrap();
        assert_eq!((revisions(&slice), slice.upto), (vec![4], Revision(4)));
    }

    #[test]
    fn a_limit_never_splits_a_revision() {
        let window = Window::new(Revision(1), 1 << 20);
        window.push(vec![event(2, "a"), event(2, "b"), event(3, "c")], Revision(3));
        let slice = window.slice(b"", Revision(1), 1).unwrap();
        assert_eq!((revisions(&slice), slice.upto), (vec![2, 2], Revision(2)));
    }

    #[test]
    fn old_events_make_room_and_then_cannot_be_read() {
        let window = Window::new(Revision(1), 2500);
        for revision in 2..10 {
            window.push(vec![event(revision, "a")], Revision(revision));
        }
        assert!(window.slice(b"", Revision(2), 10).is_none());
        assert_eq!(revisions(&window.slice(b"", Revision(7), 10).unwrap()), [8, 9]);
    }

    #[test]
    fn a_watch_ahead_of_the_window_gets_nothing_and_stays_ahead() {
        let window = Window::new(Revision(1), 1 << 20);
        window.push(vec![event(2, "a")], Revision(2));
        let slice = window.slice(b"", Revision(5), 10).unwrap();
        assert_eq!((revisions(&slice), slice.upto), (vec![], Revision(5)));
    }
}
