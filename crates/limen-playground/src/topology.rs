//! Which members there are, and where they are on Earth.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use limen_core::locality::{Coordinates, Locality};
use serde::{Deserialize, Serialize};

/// The most members that one process has addresses for.
const MOST: usize = 200;
/// Signals in fibre go 200 km in a millisecond, and never straight.
const KILOMETRES_PER_MILLISECOND: f64 = 200.0 / 1.5;

/// Where a member, or an edge, is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// What it is called.
    pub name: String,
    /// Its region.
    pub region: String,
    /// Its zone.
    pub zone: String,
    /// Degrees north of the equator.
    pub latitude: f64,
    /// Degrees east of Greenwich.
    pub longitude: f64,
}

/// Which members there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// The members.
    pub clusters: Vec<Place>,
}

/// Why there is no topology.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// The file could not be read.
    #[error("cannot read the topology {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// The file says something else.
    #[error(
        "the topology {} is not understood: {reason}; it is clusters: with a list of name, region, zone, latitude, longitude",
        path.display()
    )]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, in one line.
        reason: String,
    },
    /// Too few or too many.
    #[error("a federation has 1 to {MOST} clusters here, not {0}")]
    Count(usize),
    /// A name cannot be that of a cluster.
    #[error(
        "the cluster name {0:?} cannot be used: take small letters, digits and dashes, up to 63"
    )]
    Name(String),
    /// Two have the same name.
    #[error("two clusters are called {0}")]
    Twice(String),
    /// Off the globe.
    #[error("cluster {name}: {reason}")]
    OffTheGlobe {
        /// Which.
        name: String,
        /// What is wrong.
        reason: String,
    },
}

/// Name, region, zone, latitude, longitude of the members that there are unless told otherwise.
const USUAL: [(&str, &str, &str, f64, f64); 5] = [
    ("gce-us-central1a", "us-central1", "us-central1-a", 41.26, -95.86),
    ("gce-europe-west1b", "europe-west1", "europe-west1-b", 50.47, 3.82),
    ("gce-asia-east1a", "asia-east1", "asia-east1-a", 24.05, 120.52),
    ("aws-us-east-1", "us-east-1", "us-east-1a", 38.95, -77.45),
    ("aws-eu-west-1", "eu-west-1", "eu-west-1a", 53.35, -6.26),
];

/// Regions for more members than the usual ones.
const MORE: [(&str, f64, f64); 10] = [
    ("us-west1", 45.60, -121.18),
    ("europe-north1", 60.57, 27.19),
    ("asia-northeast1", 35.69, 139.69),
    ("southamerica-east1", -23.53, -46.79),
    ("australia-southeast1", -33.87, 151.21),
    ("asia-south1", 19.08, 72.88),
    ("africa-south1", -26.20, 28.05),
    ("me-west1", 32.08, 34.78),
    ("northamerica-northeast1", 45.50, -73.57),
    ("asia-southeast1", 1.34, 103.71),
];

impl Place {
    /// Region, zone and coordinates.
    pub fn locality(&self) -> Locality {
        Locality {
            region: Some(self.region.clone()),
            zone: Some(self.zone.clone()),
            coordinates: Some(self.coordinates()),
        }
    }

    /// The place on Earth.
    pub fn coordinates(&self) -> Coordinates {
        Coordinates { latitude: self.latitude, longitude: self.longitude }
    }

    /// How long a signal takes to another place.
    pub fn one_way_to(&self, other: &Self) -> Duration {
        if self.region == other.region {
            return Duration::ZERO;
        }
        let kilometres = self.coordinates().kilometres_to(other.coordinates());
        Duration::from_secs_f64(kilometres / KILOMETRES_PER_MILLISECOND / 1000.0)
    }
}

impl Topology {
    /// So many members: the usual ones first.
    pub fn of(count: usize) -> Result<Self, TopologyError> {
        let usual = USUAL.map(|(name, region, zone, latitude, longitude)| Place {
            name: name.to_owned(),
            region: region.to_owned(),
            zone: zone.to_owned(),
            latitude,
            longitude,
        });
        let more = (0..MOST).map(|index| {
            let (region, latitude, longitude) = MORE[index % MORE.len()];
            let letter = char::from(b'a' + u8::try_from(index / MORE.len()).unwrap_or_default());
            Place {
                name: format!("gce-{region}{letter}"),
                region: region.to_owned(),
                zone: format!("{region}-{letter}"),
                latitude,
                longitude,
            }
        });
        let clusters = usual.into_iter().chain(more).take(count.min(MOST)).collect();
        Self { clusters }.checked(count)
    }

    /// What a file says.
    pub fn read(path: &Path) -> Result<Self, TopologyError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| TopologyError::Read { path: path.to_owned(), error })?;
        let topology: Self = serde_saphyr::from_str(&text).map_err(|error| {
            let reason = error.to_string().lines().next().unwrap_or_default().to_owned();
            TopologyError::Parse { path: path.to_owned(), reason }
        })?;
        let count = topology.clusters.len();
        topology.checked(count)
    }

    fn checked(self, count: usize) -> Result<Self, TopologyError> {
        if !(1..=MOST).contains(&count) {
            return Err(TopologyError::Count(count));
        }
        let mut names = BTreeSet::new();
        for place in &self.clusters {
            let name = &place.name;
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            let ends = |c: Option<char>| c.is_some_and(|c| c != '-');
            let good = ends(name.chars().next()) && ends(name.chars().last());
            if !good || name.len() > 63 || !name.chars().all(fits) {
                return Err(TopologyError::Name(name.clone()));
            }
            if !names.insert(name) {
                return Err(TopologyError::Twice(name.clone()));
            }
            place.coordinates().checked().map_err(|error| TopologyError::OffTheGlobe {
                name: name.clone(),
                reason: error.to_string(),
            })?;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_members_has_names_of_their_own() {
        assert_eq!(Topology::of(5).unwrap().clusters[2].name, "gce-asia-east1a");
        assert_eq!(Topology::of(MOST).unwrap().clusters.len(), MOST);
        for count in [0, MOST + 1] {
            assert!(matches!(Topology::of(count), Err(TopologyError::Count(_))));
        }
    }

    #[test]
    fn a_wrong_file_is_refused_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("topology.yaml");
        let place = |name: &str, latitude: &str| {
            format!("- {{name: {name}, region: r, zone: z, latitude: {latitude}, longitude: 0}}\n")
        };
        for (text, reason) in [
            ("clusters: 3".to_owned(), "is not understood"),
            ("clusters: []".to_owned(), "not 0"),
            (format!("clusters:\n{}", place("A_b", "0")), "\"A_b\" cannot be used"),
            (format!("clusters:\n{0}{0}", place("a", "0")), "two clusters are called a"),
            (format!("clusters:\n{}", place("a", "95")), "cluster a: latitude 95"),
            (format!("clusters:\n{}", place("a", "north")), "is not understood"),
        ] {
            std::fs::write(&path, &text).unwrap();
            let error = Topology::read(&path).unwrap_err().to_string();
            assert!(error.contains(reason) && !error.contains('\n'), "{text}: {error}");
        }
        let error = Topology::read(&folder.path().join("none")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the topology"), "{error}");
    }

    #[test]
    fn far_places_take_long() {
        let all = Topology::of(5).unwrap().clusters;
        let milliseconds = |a: usize, b: usize| all[a].one_way_to(&all[b]).as_millis();
        assert_eq!(milliseconds(0, 0), 0);
        assert!((5..30).contains(&milliseconds(0, 3)), "within America");
        assert!((60..120).contains(&milliseconds(0, 2)), "to Asia");
    }
}
