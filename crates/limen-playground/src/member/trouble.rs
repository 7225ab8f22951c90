//! What can go wrong with a member.

use serde::{Deserialize, Serialize};

/// Something that is done to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// Everything in it ends; connections are refused.
    Kill,
    /// It goes on, and nobody can reach it: not the hub, and not clients.
    Pause,
    /// The hub cannot reach its API.
    PartitionHub,
    /// Clients cannot reach its way in.
    PartitionClients,
    /// Everything takes this many milliseconds longer, each way.
    Slow(u32),
    /// All is well again.
    Restore,
}

/// What is wrong with a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Faults {
    /// Nothing of it is left but its store.
    pub killed: bool,
    /// Nobody can reach it.
    pub paused: bool,
    /// The hub cannot reach its API.
    pub cut_off_from_hub: bool,
    /// Clients cannot reach its way in.
    pub cut_off_from_clients: bool,
    /// How much longer everything takes, each way.
    pub slow_milliseconds: u32,
}

impl Faults {
    /// What is wrong after something more was done.
    pub(super) fn after(self, trouble: Trouble) -> Self {
        match trouble {
            Trouble::Kill => Self { killed: true, ..self },
            Trouble::Pause => Self { paused: true, ..self },
            Trouble::PartitionHub => Self { cut_off_from_hub: true, ..self },
            Trouble::PartitionClients => Self { cut_off_from_clients: true, ..self },
            Trouble::Slow(slow_milliseconds) => Self { slow_milliseconds, ..self },
            Trouble::Restore => Self::default(),
        }
    }
}
