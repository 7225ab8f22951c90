//! The writers of a simulation, as ground truth knows them.

use std::fmt;

/// A writer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// A hub process, through the connection that one Cluster object named.
    Hub {
        /// Number of the process.
        process: u32,
        /// The Cluster whose connection it used; empty for the hub's own API.
        cluster: String,
    },
    /// A person, or a tool in a person's hands.
    Person,
    /// A controller of the cluster itself.
    Cluster,
}

impl Actor {
    /// Whether this is a hub.
    pub fn is_hub(&self) -> bool {
        matches!(self, Self::Hub { .. })
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub { process, .. } => write!(f, "hub {process}"),
            Self::Person => f.write_str("a person"),
            Self::Cluster => f.write_str("the cluster"),
        }
    }
}
