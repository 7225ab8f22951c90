//! Where something is, and how far that is from somewhere else.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A place on Earth, in degrees.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Coordinates {
    /// Degrees north of the equator.
    #[schemars(range(min = -90.0, max = 90.0))]
    pub latitude: f64,
    /// Degrees east of Greenwich.
    #[schemars(range(min = -180.0, max = 180.0))]
    pub longitude: f64,
}

/// Where a cluster or an edge is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Locality {
    /// The region, as nodes are labelled: `europe-west1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The zone within the region: `europe-west1-b`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The place on Earth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinates: Option<Coordinates>,
}

/// The mean radius of Earth.
const EARTH_KM: f64 = 6371.0;

/// What is wrong with coordinates.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CoordinatesError {
    /// Not two numbers with a comma between them.
    #[error("{0:?} is not LATITUDE,LONGITUDE in degrees, such as 52.52,13.40")]
    NotTwoNumbers(String),
    /// Off the globe.
    #[error("latitude {0} is not between -90 and 90")]
    Latitude(f64),
    /// Off the globe.
    #[error("longitude {0} is not between -180 and 180")]
    Longitude(f64),
}

impl Coordinates {
    /// The distance along the surface of Earth.
    pub fn kilometres_to(self, other: Self) -> f64 {
        let (lat1, lat2) = (self.latitude.to_radians(), other.latitude.to_radians());
        let half_lat = (lat2 - lat1) / 2.0;
        let half_lon = (other.longitude - self.longitude).to_radians() / 2.0;
        let chord = half_lat.sin().powi(2) + lat1.cos() * lat2.cos() * half_lon.sin().powi(2);
        2.0 * EARTH_KM * chord.sqrt().clamp(0.0, 1.0).asin()
    }

    /// The same place, if it is on the globe.
    pub fn checked(self) -> Result<Self, CoordinatesError> {
        if !(-90.0..=90.0).contains(&self.latitude) {
            return Err(CoordinatesError::Latitude(self.latitude));
        }
        if !(-180.0..=180.0).contains(&self.longitude) {
            return Err(CoordinatesError::Longitude(self.longitude));
        }
        Ok(self)
    }
}

impl std::str::FromStr for Coordinates {
    type Err = CoordinatesError;

    fn from_str(text: &str) -> Result<Self, CoordinatesError> {
        let wrong = || CoordinatesError::NotTwoNumbers(text.to_owned());
        let (latitude, longitude) = text.split_once(',').ok_or_else(wrong)?;
        let latitude = latitude.trim().parse().map_err(|_| wrong())?;
        let longitude = longitude.trim().parse().map_err(|_| wrong())?;
        Self { latitude, longitude }.checked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_an_atlas() {
        let berlin: Coordinates = "52.52,13.40".parse().unwrap();
        let tokyo: Coordinates = "35.68, 139.69".parse().unwrap();
        assert!((berlin.kilometres_to(tokyo) - 8918.0).abs() < 20.0);
        assert_eq!(berlin.kilometres_to(berlin), 0.0);
        let (east, west) = ("0,179.5".parse::<Coordinates>(), "0,-179.5".parse::<Coordinates>());
        assert!((east.unwrap().kilometres_to(west.unwrap()) - 111.2).abs() < 1.0);
    }

    #[test]
    fn what_is_off_the_globe_is_refused() {
        for (text, reason) in [
            ("91,0", "latitude 91 is not between -90 and 90"),
            ("0,200", "longitude 200 is not between -180 and 180"),
            ("NaN,0", "latitude NaN is not between -90 and 90"),
            ("here", "\"here\" is not LATITUDE,LONGITUDE in degrees, such as 52.52,13.40"),
        ] {
            assert_eq!(text.parse::<Coordinates>().unwrap_err().to_string(), reason);
        }
    }
}
