//! The table of networks that says where clients are: the one file that gateways, DNS servers and
//! `limen explain` take with `--networks`.
//!
//! ```yaml
//! networks:
//! - { cidr: 10.1.0.0/16, region: europe-west3, country: DE, coordinates: "50.1,8.7" }
//! ```

use std::path::{Path, PathBuf};

use limen_core::geography::{Geography, Network, NetworkError, Place, Twice};
use limen_core::locality::{Coordinates, Locality};
use serde::Deserialize;
use serde_saphyr::Spanned;

/// Why a table cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the networks in {} cannot be used: {error}", path.display())]
pub struct NetworksError {
    path: PathBuf,
    error: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    networks: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    cidr: Spanned<String>,
    region: Option<String>,
    zone: Option<String>,
    country: Option<String>,
    coordinates: Option<Spanned<String>>,
}

/// Reads a file.
pub fn read_networks(path: &Path) -> Result<Geography, NetworksError> {
    let failed = |error: String| NetworksError { path: path.to_owned(), error };
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    parse_networks(&text).map_err(failed)
}

/// Reads the YAML of a table. The error names the line.
pub fn parse_networks(text: &str) -> Result<Geography, String> {
    // The parser's limits are against strangers; this file is the operator's own.
    let options = serde_saphyr::options! { budget: None };
    let file: File = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        format!("{error}; write networks: and below it - {{ cidr: 10.1.0.0/16, region: europe-west3, country: DE }}")
    })?;
    let lines: Vec<u64> = file.networks.iter().map(|row| row.cidr.defined.line()).collect();
    let rows: Result<Vec<_>, String> = file.networks.into_iter().map(placed).collect();
    let rows = rows?;
    let networks: Vec<Network> = rows.iter().map(|(network, _)| *network).collect();
    Geography::new(rows).map_err(|Twice(at)| {
        format!("line {}: {} is there twice; remove one", lines[at], networks[at])
    })
}

fn placed(row: Row) -> Result<(Network, Place), String> {
    let network = row
        .cidr
        .value
        .parse()
        .map_err(|error: NetworkError| format!("line {}: {error}", row.cidr.defined.line()))?;
    let coordinates = match row.coordinates {
        None => None,
        Some(text) => Some(
            text.value
                .parse::<Coordinates>()
                .map_err(|error| format!("line {}: {error}", text.defined.line()))?,
        ),
    };
    let locality = Locality { region: row.region, zone: row.zone, coordinates };
    let country = row.country.map(|country| country.to_ascii_uppercase());
    Ok((network, Place { locality, country }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_can_be_read() {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/networks.yaml");
        let table = read_networks(&example).unwrap();
        assert_eq!(table.names([10, 1, 2, 3].into()), ["europe-west3", "DE", "de"]);
    }

    #[test]
    fn mistakes_are_named_with_their_line_and_a_way_out() {
        for (text, part) in [
            (
                "networks:\n- { cidr: 10.0.0.0/8 }\n- { cidr: here }\n",
                "line 3: \"here\" is not a network",
            ),
            ("networks:\n- { cidr: 10.0.0.0/8, coordinates: '91,0' }\n", "line 2: latitude 91"),
            (
                "networks:\n- { cidr: 10.0.0.0/8 }\n- { cidr: 10.0.0.1/8 }\n",
                "line 3: 10.0.0.0/8 is there twice",
            ),
            ("networks:\n- { cidr: 10.0.0.0/8, wrong: 1 }\n", "line 2"),
            ("10.8.0.0/16 europe-west1 de\n", "write networks: and below it - { cidr:"),
        ] {
            let error = parse_networks(text).err().unwrap();
            assert!(error.contains(part), "{error}");
        }
    }
}
