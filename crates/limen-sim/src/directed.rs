//! Directed scenarios: each is a way in which a federation can do harm.

mod actions;
mod holds;
mod hubs;
mod members;
mod ownership;
mod policies;
mod workloads;

use crate::scenario::Scenario;

/// A directed scenario: its name, the laws that are at stake, and the history.
pub type Directed = (&'static str, &'static [u8], fn() -> Scenario);

/// Every directed scenario.
pub const DIRECTED: &[Directed] = &[
    ("namespace-with-foreign-objects", &[2], ownership::namespace_with_foreign_objects),
    ("namespace-with-many-roots", &[4, 5], holds::namespace_with_many_roots),
    ("orphans-in-a-deleted-namespace", &[3], policies::orphans_in_a_deleted_namespace),
    ("relabel-during-a-hold", &[3, 4, 5], holds::relabel_during_a_hold),
    ("restart-during-a-hold", &[3, 4, 5], holds::restart_during_a_hold),
    ("kind-unserved-during-a-hold", &[3, 4, 5, 11], holds::kind_unserved_during_a_hold),
    (
        "kind-unserved-during-a-held-deletion",
        &[3, 4, 5, 11],
        holds::kind_unserved_during_a_held_deletion,
    ),
    ("hold-before-an-answer", &[3, 4, 5], holds::hold_before_an_answer),
    ("leaf-lost-after-a-hold", &[11], holds::leaf_lost_after_a_hold),
    ("restart-while-the-store-is-away", &[11], hubs::restart_while_the_store_is_away),
    ("restart-during-a-held-deletion", &[3, 4, 5], holds::restart_during_a_held_deletion),
    ("nothing-selected", &[5], holds::nothing_selected),
    ("reports-before-the-first-plan", &[11], hubs::reports_before_the_first_plan),
    ("orphan-policy-for-an-unreadable-root", &[3], policies::orphan_policy_for_an_unreadable_root),
    (
        "unreadable-policy-goes-with-its-namespace",
        &[3],
        policies::unreadable_policy_goes_with_namespace,
    ),
    ("leader-suspended-alone", &[7], hubs::leader_suspended_alone),
    ("leader-suspended-briefly", &[7], hubs::leader_suspended_briefly),
    ("autoscaler-in-one-cluster", &[9], workloads::autoscaler_in_one_cluster),
    ("leaf-lost-under-an-unreadable-policy", &[6], policies::leaf_lost_under_an_unreadable_policy),
    ("job-expires-unwatched", &[12], workloads::job_expires_unwatched),
    ("unread-policy-goes-with-its-namespace", &[3], policies::unread_policy_goes_with_namespace),
    ("hub-joins-itself", &[2, 3, 8], members::hub_joins_itself),
    ("leaf-on-the-hub", &[2, 6], members::leaf_on_the_hub),
    ("kind-that-cannot-be-watched", &[11], members::kind_that_cannot_be_watched),
    ("one-cluster-under-two-names", &[3, 8, 11], members::one_cluster_under_two_names),
    ("replaced-cluster", &[6, 8, 11], members::replaced_cluster),
    ("store-restored-from-backup", &[3, 5], hubs::store_restored_from_backup),
    ("store-restored-and-claims-deleted", &[3, 7], hubs::store_restored_and_claims_deleted),
    ("store-copied", &[3, 8], hubs::store_copied),
    ("foreign-object-during-watch-lag", &[1, 2], ownership::foreign_object_during_watch_lag),
    ("relabelled-during-watch-lag", &[1, 2, 3], ownership::relabelled_during_watch_lag),
    ("suspended-leader", &[7], hubs::suspended_leader),
    ("leaf-of-another-root", &[1, 2, 3, 11], ownership::leaf_of_another_root),
    ("image-that-never-starts", &[10], workloads::image_that_never_starts),
    ("autoscaler-arrives", &[9], workloads::autoscaler_arrives),
    ("policy-deleted", &[6], policies::policy_deleted),
    ("policy-unreadable", &[3, 6], policies::policy_unreadable),
    ("orphan-with-a-bad-annotation", &[3], policies::orphan_with_a_bad_annotation),
    ("policy-and-root-deleted-together", &[3], policies::policy_and_root_deleted_together),
    ("adoption-from-helm", &[2], ownership::adoption_from_helm),
    ("adopted-object-deleted-with-its-root", &[2], ownership::adopted_object_deleted),
    ("member-restored-from-backup", &[11], members::member_restored_from_backup),
    ("answer-overtaken-by-an-event", &[11], ownership::answer_overtaken_by_an_event),
    ("deletions-during-an-absence", &[3, 5], members::deletions_during_an_absence),
    ("local-autoscaler", &[9, 11], workloads::local_autoscaler),
    ("rival-manager", &[11], ownership::rival_manager),
    ("finished-job-deleted", &[12], workloads::finished_job_deleted),
    ("finished-job-expires", &[11, 12], workloads::finished_job_expires),
    ("cluster-deleted", &[11], members::cluster_deleted),
    (
        "earlier-root-in-a-deselected-cluster",
        &[3, 11],
        members::earlier_root_in_a_deselected_cluster,
    ),
    ("everyday-deletions", &[14], holds::everyday_deletions),
    ("many-roots-deleted-by-name", &[4, 5], holds::many_roots_deleted_by_name),
    ("deletions-in-two-steps", &[4, 5], holds::deletions_in_two_steps),
    ("deselected-in-small-steps", &[4, 5], holds::deselected_in_small_steps),
    ("the-same-accident-after-a-release", &[4, 5], holds::same_accident_after_a_release),
    ("removal-just-before-an-absence", &[3, 5], members::removal_just_before_an_absence),
    ("absence-over-a-restart", &[3, 5], members::absence_over_a_restart),
    ("orphan-by-request", &[3], policies::orphan_by_request),
    ("deleted-at-once", &[3, 11], members::deleted_at_once),
    ("job-over-a-restart", &[12], workloads::job_over_a_restart),
    ("policy-that-aborts", &[1, 2], ownership::policy_that_aborts),
    ("first-wave-is-absent", &[10], workloads::first_wave_is_absent),
    ("wave-that-refuses", &[10], workloads::wave_that_refuses),
    ("deletion-beside-a-hold", &[14], holds::deletion_beside_a_hold),
    ("tombstone-that-cannot-be-written", &[11], members::tombstone_that_cannot_be_written),
    (
        "withdrawn-while-its-kind-is-unserved",
        &[3, 11],
        members::withdrawn_while_its_kind_is_unserved,
    ),
    ("deleted-while-its-kind-is-unserved", &[3, 11], members::deleted_while_its_kind_is_unserved),
    (
        "deleted-before-its-creation-is-answered",
        &[3, 11],
        members::deleted_before_its_creation_is_answered,
    ),
    ("orphaned-while-its-kind-is-unserved", &[3, 11], members::orphaned_while_its_kind_is_unserved),
    ("policies-that-cannot-be-listed", &[6], hubs::policies_that_cannot_be_listed),
    (
        "finished-job-in-a-member-without-jobs",
        &[11, 12],
        workloads::finished_job_in_a_member_without_jobs,
    ),
    (
        "finished-job-in-a-member-that-is-deselected",
        &[11, 12],
        workloads::finished_job_in_a_member_that_is_deselected,
    ),
    ("store-copied-twice", &[8], hubs::store_copied_twice),
    ("store-copied-twice-at-once", &[8], hubs::store_copied_twice_at_once),
    ("lease-not-renewed-for-a-moment", &[7], hubs::lease_not_renewed_for_a_moment),
    (
        "joined-twice-after-the-clock-was-set-back",
        &[8],
        members::joined_twice_after_the_clock_was_set_back,
    ),
    ("clock-set-forward-between-deletions", &[5], hubs::clock_set_forward_between_deletions),
    ("clock-set-back-after-deletions", &[14], hubs::clock_set_back_after_deletions),
    ("clock-set-back-during-an-absence", &[5], members::clock_set_back_during_an_absence),
    ("kind-of-the-same-name-is-missing", &[11], members::kind_of_the_same_name_is_missing),
    ("version-removed", &[3, 11, 12], members::version_removed),
    (
        "version-removed-from-a-namespace-that-goes",
        &[3, 11],
        members::version_removed_from_a_namespace_that_goes,
    ),
    ("definition-removed", &[3, 11], members::definition_removed),
    ("waves-for-an-absent-member", &[10], workloads::waves_for_an_absent_member),
];
