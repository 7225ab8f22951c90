//! Where a client is, by its address: the operator's own networks first, then a database, and for
//! everybody else where this server is.

mod database;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::path::Path;

use limen_api::{NetworksError, read_networks};
use limen_core::geography::Geography;
pub(crate) use limen_core::geography::Place;
use limen_core::locality::Locality;

use database::Database;

/// What an address leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The same for all addresses of one place.
    pub(crate) key: u64,
    /// All addresses that share this many bits with it are in the same place.
    pub(crate) prefix: u8,
}

/// The key of everybody who is in no network.
const HERE: u64 = u64::MAX;
/// Keys of the database have this bit.
const FROM_DATABASE: u64 = 1 << 62;

/// Why it is not known where clients are.
#[derive(Debug, thiserror::Error)]
pub enum PlacesError {
    /// The table of networks cannot be used.
    #[error(transparent)]
    Networks(#[from] NetworksError),
    /// The database cannot be used.
    #[error("the database {path} cannot be used: {error}; give an MMDB file")]
    Database {
        /// The file.
        path: String,
        /// What is wrong.
        error: String,
    },
}

/// All that is known about where clients are.
#[derive(Default)]
pub(crate) struct Places {
    here: Place,
    networks: Geography,
    database: Option<Database>,
}

impl Places {
    /// Reads what there is.
    pub(crate) fn read(
        here: Locality,
        networks: Option<&Path>,
        database: Option<&Path>,
    ) -> Result<Self, PlacesError> {
        let networks = networks.map(read_networks).transpose()?.unwrap_or_default();
        let database = match database {
            None => None,
            Some(path) => Some(Database::open(path).map_err(|error| PlacesError::Database {
                path: path.display().to_string(),
                error,
            })?),
        };
        Ok(Self { here: Place { locality: here, country: None }, networks, database })
    }

    /// Where this server is.
    pub(crate) fn here(&self) -> &Place {
        &self.here
    }

    /// What an address leads to.
    pub(crate) fn find(&self, address: IpAddr) -> Found {
        let (place, prefix) = self.networks.find(address);
        if let Some(place) = place {
            return Found { key: u64::from(place), prefix };
        }
        let Some(database) = &self.database else { return Found { key: HERE, prefix } };
        match database.find(address) {
            Some((offset, narrower)) => {
                let key = FROM_DATABASE | offset as u64;
                Found { key, prefix: prefix.max(narrower) }
            }
            // The database does not say how much of its surroundings is unknown too.
            None => {
                Found { key: HERE, prefix: if address.is_ipv4() { 24 } else { 48 }.max(prefix) }
            }
        }
    }

    /// The place that an address was found to be in.
    pub(crate) fn place(&self, found: Found, address: IpAddr) -> Place {
        if found.key == HERE {
            return self.here.clone();
        }
        let from_database = || self.database.as_ref()?.place(address);
        let place = if found.key & FROM_DATABASE == 0 {
            u32::try_from(found.key).ok().and_then(|key| self.networks.place(key)).cloned()
        } else {
            from_database()
        };
        place.unwrap_or_else(|| self.here.clone())
    }
}
