//! Any MMDB database that the operator supplies.

use std::net::IpAddr;
use std::path::Path;

use limen_core::locality::{Coordinates, Locality};
use maxminddb::Reader;
use serde::Deserialize;

use super::Place;

pub(super) struct Database(Reader<Vec<u8>>);

/// What is read of a record. Countries occur in two shapes.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Record {
    country: Option<Country>,
    country_code: Option<String>,
    location: Option<Location>,
    region: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Country {
    Object { iso_code: Option<String> },
    Code(String),
}

#[derive(Deserialize)]
struct Location {
    latitude: Option<f64>,
    longitude: Option<f64>,
}

impl Database {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        Reader::open_readfile(path).map(Self).map_err(|error| error.to_string())
    }

    /// Where the record of an address is, and how many bits of the address lead there.
    pub(super) fn find(&self, address: IpAddr) -> Option<(usize, u8)> {
        let found = self.0.lookup(address).ok()?;
        Some((found.offset()?, found.network().ok()?.prefix()))
    }

    pub(super) fn place(&self, address: IpAddr) -> Option<Place> {
        let record: Record = self.0.lookup(address).ok()?.decode().ok()??;
        let coordinates = record.location.and_then(|location| {
            let (latitude, longitude) = (location.latitude?, location.longitude?);
            Coordinates { latitude, longitude }.checked().ok()
        });
        let country = match record.country {
            Some(Country::Object { iso_code }) => iso_code,
            Some(Country::Code(code)) => Some(code),
            None => record.country_code,
        };
        Some(Place {
            locality: Locality { region: record.region, zone: None, coordinates },
            country: country.map(|country| country.to_ascii_uppercase()),
        })
    }
}
