//! Everything that is answered, at one moment: immutable, replaced as a whole.

mod compile;
mod host;
mod records;
mod services;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::FixedState;

pub(crate) use compile::{Compiler, ZoneDefaults};
pub(crate) use host::{Host, Ways};
pub(crate) use records::RrSet;

use crate::wire::name::{LONGEST, Name};

/// Every name that exists, by its bytes on the wire.
pub(crate) type Nodes = HashMap<Arc<[u8]>, Node, FixedState>;

/// All zones.
#[derive(Default)]
pub(crate) struct Zones {
    pub(crate) nodes: Nodes,
    pub(crate) apexes: Vec<Apex>,
    /// What is wrong with the objects, for people.
    pub(crate) problems: Vec<String>,
    /// Host names of load balancers whose addresses have to be known.
    pub(crate) lookups: BTreeSet<String>,
    /// How many hosts are answered for.
    pub(crate) hosts: usize,
}

/// What is the same for all of a zone.
#[derive(Default)]
pub(crate) struct Apex {
    pub(crate) name: Arc<[u8]>,
    /// The data of its SOA record.
    pub(crate) soa: Box<[u8]>,
    pub(crate) negative_ttl: u32,
}

/// A name that exists; perhaps only because another name is below it.
#[derive(Default, Clone)]
pub(crate) struct Node {
    /// Which zone it is in.
    pub(crate) zone: u16,
    /// Records that no root makes.
    pub(crate) records: Arc<[RrSet]>,
    /// What a root makes.
    pub(crate) host: Option<Arc<Host>>,
}

/// What a name leads to.
pub(crate) enum Found<'a> {
    /// It exists, or a wildcard stands for it.
    Node(&'a Node),
    /// It does not exist in this zone.
    Nothing(u16),
    /// It is in no zone.
    Foreign,
}

impl Zones {
    /// What a name leads to.
    pub(crate) fn find(&self, name: &Name) -> Found<'_> {
        let bytes = name.as_bytes();
        for start in name.label_starts() {
            // All names between a zone's and an existing one exist, so the first that is found is
            // the closest there is.
            let Some(node) = self.nodes.get(&bytes[start..]) else { continue };
            if start == 0 {
                return Found::Node(node);
            }
            return match self.wildcard(&bytes[start..]) {
                Some(wildcard) => Found::Node(wildcard),
                None => Found::Nothing(node.zone),
            };
        }
        Found::Foreign
    }

    fn wildcard(&self, encloser: &[u8]) -> Option<&Node> {
        let mut name = [0; LONGEST + 2];
        name[..2].copy_from_slice(b"\x01*");
        name[2..2 + encloser.len()].copy_from_slice(encloser);
        self.nodes.get(&name[..2 + encloser.len()])
    }
}
