//! What every backend must do. Each case gets a store of its own that was never written to.
//!
//! `cases!` lists them once; a backend's test file turns the list into tests.

pub(crate) mod bounds;
pub(crate) mod expiry;
pub(crate) mod history;
pub(crate) mod linearizable;
pub(crate) mod reading;
pub(crate) mod watching;
pub(crate) mod writing;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use limen_store::{Entry, Error, Event, Range, Revision, Store, Watch, WatchBatch, WatchFrom};

pub(crate) type Subject = Arc<dyn Store>;

/// Calls a macro with the module and the name of every case.
#[macro_export]
macro_rules! cases {
    ($each:ident) => {
        $each! {
            writing::a_new_store_is_empty_at_the_first_revision,
            writing::what_was_created_is_there,
            writing::creating_twice_is_a_conflict_that_shows_what_is_there,
            writing::an_update_needs_the_revision_that_it_is_based_on,
            writing::a_deletion_needs_the_revision_that_it_is_based_on,
            writing::a_key_that_comes_back_was_created_anew,
            writing::a_transaction_has_one_revision,
            writing::a_transaction_happens_whole_or_not_at_all,
            writing::a_check_guards_without_changing,
            writing::what_changes_nothing_has_no_revision_of_its_own,
            writing::of_many_concurrent_updates_each_counts_once,
            bounds::keys_and_values_are_any_bytes,
            bounds::senseless_transactions_are_refused,
            bounds::a_transaction_may_be_as_large_as_the_limit,
            reading::a_range_is_ordered_and_keeps_to_its_prefix,
            reading::pages_make_up_the_whole,
            reading::a_listing_at_a_revision_does_not_see_later_writes,
            reading::old_versions_can_be_read,
            reading::the_future_cannot_be_read,
            history::compaction_forgets_only_what_was_superseded,
            history::compaction_can_be_repeated_but_not_foreseen,
            history::compacted_revisions_cannot_be_watched,
            history::compaction_leaves_running_watches_alone,
            history::much_history_is_cleaned_away,
            watching::a_watch_tells_what_changed_and_what_was_before,
            watching::a_watch_goes_from_the_past_into_the_present,
            watching::the_events_of_a_transaction_come_together,
            watching::a_watch_keeps_to_its_prefix,
            watching::a_watch_from_the_future_waits_for_it,
            watching::a_quiet_watch_says_how_far_it_has_come,
            watching::a_slow_watch_misses_nothing,
            watching::many_watches_see_the_same_order,
            expiry::a_key_goes_when_its_time_has_come,
            expiry::writing_a_key_again_resets_its_time,
            linearizable::concurrent_histories_are_linearizable_and_replayable,
        }
    };
}

/// How long to wait for something that must happen: long, since the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn key(entry: &Entry) -> &str {
    std::str::from_utf8(&entry.key).unwrap()
}

pub(crate) fn value(entry: Option<&Entry>) -> Option<&str> {
    entry.map(|entry| std::str::from_utf8(&entry.value).unwrap())
}

pub(crate) async fn all(store: &Subject, prefix: &'static str) -> Vec<Entry> {
    store.range(Range::prefix(prefix)).await.unwrap().entries
}

pub(crate) async fn watch(store: &Subject, prefix: &'static str, after: Revision) -> Watch {
    store.watch(WatchFrom { prefix: prefix.into(), after, progress: None }).await.unwrap()
}

pub(crate) async fn next(watch: &mut Watch) -> Result<WatchBatch, Error> {
    tokio::time::timeout(PATIENCE, watch.next())
        .await
        .expect("the watch says something in time")
        .expect("a watch ends with an error only")
}

/// The next events of a watch, until `count` have come.
pub(crate) async fn events(watch: &mut Watch, count: usize) -> Vec<Arc<Event>> {
    let mut events = Vec::new();
    while events.len() < count {
        events.extend(next(watch).await.unwrap().events);
    }
    assert_eq!(events.len(), count, "more events than expected: {events:?}");
    events
}

/// Asserts that an error is a conflict over a key, and hands back what is there instead.
#[track_caller]
pub(crate) fn conflict(result: Result<Revision, Error>, over: &str) -> Option<Entry> {
    match result {
        Err(Error::Conflict { key, current }) => {
            assert_eq!(key, over);
            current
        }
        other => panic!("expected a conflict over {over}, not {other:?}"),
    }
}
