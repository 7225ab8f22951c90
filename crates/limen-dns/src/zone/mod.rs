//! Everything that is answered, at one moment: immutable, replaced as a whole.

mod compile;
mod host;
mod parts;
mod patch;
mod records;
mod services;
mod standing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::FixedState;
use limen_core::decide::Vantages;

pub(crate) use compile::{Compiler, Renewed, ZoneDefaults};
pub(crate) use host::{Host, HostPlan, Ttls, Ways};
pub(crate) use records::RrSet;

use crate::dnssec::Signer;
use crate::wire::name::{self, LONGEST, Name};

/// Every name that exists, by its bytes on the wire.
pub(crate) type Nodes = HashMap<Arc<[u8]>, Node, FixedState>;

/// All zones.
#[derive(Clone, Default)]
pub(crate) struct Zones {
    pub(crate) nodes: Nodes,
    pub(crate) apexes: Vec<Apex>,
    /// What is wrong with the objects, for people.
    pub(crate) problems: Vec<String>,
    /// What is wrong with the keys that sign them.
    pub(crate) key_problems: Vec<String>,
    /// Host names of load balancers whose addresses have to be known.
    pub(crate) lookups: BTreeSet<String>,
    /// How many hosts are answered for.
    pub(crate) hosts: usize,
    /// What gateways have measured.
    pub(crate) vantages: Arc<Vantages>,
}

/// What is the same for all of a zone.
#[derive(Clone, Default)]
pub(crate) struct Apex {
    pub(crate) name: Arc<[u8]>,
    /// The data of its SOA record.
    pub(crate) soa: Box<[u8]>,
    /// When it was given the serial that is in there, in seconds since 1970.
    pub(crate) numbered: u32,
    pub(crate) negative_ttl: u32,
    /// How long its hosts are remembered, unless they say otherwise.
    pub(crate) ttls: Ttls,
    /// What signs its answers, if they are signed.
    pub(crate) signer: Option<Arc<Signer>>,
}

impl Apex {
    /// Where the serial is in the data of the SOA record: before four other numbers.
    fn serial_at(&self) -> std::ops::Range<usize> {
        let end = self.soa.len() - 16;
        end - 4..end
    }

    /// The number of the zone's state.
    pub(crate) fn serial(&self) -> u32 {
        let bytes = &self.soa[self.serial_at()];
        bytes.iter().fold(0, |serial, byte| serial << 8 | u32::from(*byte))
    }

    pub(crate) fn set_serial(&mut self, serial: u32) {
        let at = self.serial_at();
        self.soa[at].copy_from_slice(&serial.to_be_bytes());
    }

    /// Whether it is the same as another but for its number.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let rest = |apex: &Self| (apex.soa[..apex.serial_at().start].to_vec(), apex.negative_ttl);
        rest(self) == rest(other)
    }
}

/// A name that exists; perhaps only because another name is below it.
#[derive(Default, Clone)]
pub(crate) struct Node {
    /// Which zone it is in.
    pub(crate) zone: u16,
    /// Whether the zone begins with it.
    pub(crate) is_apex: bool,
    /// The length of the name that is delegated to others, if this is that name or below it; 0 if
    /// this server answers.
    pub(crate) cut: u8,
    /// Records that no root makes.
    pub(crate) records: Arc<[RrSet]>,
    /// What a root makes.
    pub(crate) host: Option<Arc<Host>>,
}

impl Node {
    /// Its records of a type that no root makes.
    pub(crate) fn set(&self, kind: u16) -> Option<&RrSet> {
        self.records.iter().find(|set| set.kind == kind)
    }
}

/// What a name leads to.
pub(crate) enum Found<'a> {
    /// It exists.
    Node(&'a Node),
    /// A wildcard stands for it.
    Wildcard {
        /// What the wildcard has.
        node: &'a Node,
        /// Where the name above the wildcard begins in the one that was looked for.
        above: usize,
    },
    /// Another of our zones begins there: the zone above has to say so.
    Cut {
        /// The zone above.
        above: u16,
        /// The zone that begins there.
        below: u16,
    },
    /// Others answer for it.
    Delegated {
        /// The zone that says who.
        zone: u16,
        /// The length of the name that is delegated, at the end of the one that was looked for.
        cut: u8,
    },
    /// It does not exist in this zone.
    Nothing(u16),
    /// It is in no zone.
    Foreign,
}

impl Zones {
    /// Everything that is wrong, for people.
    pub(crate) fn all_problems(&self) -> impl Iterator<Item = &String> {
        self.problems.iter().chain(&self.key_problems)
    }

    /// What a name leads to.
    pub(crate) fn find(&self, name: &Name) -> Found<'_> {
        let bytes = name.as_bytes();
        for start in name.label_starts() {
            // All names between a zone's and an existing one exist, so the first that is found is
            // the closest there is.
            let Some(node) = self.nodes.get(&bytes[start..]) else { continue };
            if node.cut != 0 {
                return Found::Delegated { zone: node.zone, cut: node.cut };
            }
            if start == 0 {
                return Found::Node(node);
            }
            return match self.wildcard(&bytes[start..]) {
                Some(node) => Found::Wildcard { node, above: start },
                None => Found::Nothing(node.zone),
            };
        }
        Found::Foreign
    }

    /// What a name leads to when the zone above it is asked, if a zone begins with it and the one
    /// above is ours.
    pub(crate) fn find_from_above(&self, name: &Name) -> Option<Found<'_>> {
        let node = self.nodes.get(name.as_bytes())?;
        if usize::from(node.cut) == name.as_bytes().len() {
            return Some(Found::Node(node));
        }
        let above = self.zone_of(name::parent(name.as_bytes()).filter(|_| node.is_apex)?)?;
        Some(Found::Cut { above, below: node.zone })
    }

    /// The zone that a name is in, whether it exists or not.
    pub(crate) fn zone_of(&self, name: &[u8]) -> Option<u16> {
        let mut next = Some(name);
        while let Some(name) = next {
            if let Some(node) = self.nodes.get(name) {
                return Some(node.zone);
            }
            next = name::parent(name);
        }
        None
    }

    fn wildcard(&self, encloser: &[u8]) -> Option<&Node> {
        let mut name = [0; LONGEST + 2];
        name[..2].copy_from_slice(b"\x01*");
        name[2..2 + encloser.len()].copy_from_slice(encloser);
        self.nodes.get(&name[..2 + encloser.len()])
    }
}
