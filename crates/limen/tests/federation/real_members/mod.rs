//! Federation of real Kubernetes members by hubs that are killed, paused, copied and late. Needs
//! `--features e2e` and the binaries of `tools/kube-assets`.

mod autoscalers;
mod foreign_objects;
mod held_removals;
mod history;
mod leaders;
mod member;
mod namespaces;
mod restored_hub;
mod rivals;
mod stale_answers;
