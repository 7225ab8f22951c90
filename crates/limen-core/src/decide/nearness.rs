//! How near a cluster is to an edge.

use crate::locality::Locality;

/// How near something is; the smaller, the nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// In the same zone.
    Zone,
    /// In the same region.
    Region,
    /// This many kilometres away.
    Kilometres(u32),
    /// Nobody knows.
    Unknown,
}

/// How near `there` is to `here`.
pub fn nearness(here: &Locality, there: &Locality) -> Nearness {
    let same_region = here.region.is_some() && here.region == there.region;
    // Zone names repeat between providers; regions tell them apart where they are known.
    let regions_differ = here.region.is_some() && there.region.is_some() && !same_region;
    if here.zone.is_some() && here.zone == there.zone && !regions_differ {
        return Nearness::Zone;
    }
    if same_region {
        return Nearness::Region;
    }
    match (here.coordinates, there.coordinates) {
        // No distance on Earth is beyond a u32, and a float that is none becomes 0.
        (Some(here), Some(there)) => Nearness::Kilometres(here.kilometres_to(there) as u32),
        _ => Nearness::Unknown,
    }
}
