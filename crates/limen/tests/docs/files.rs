//! YAML that is no object of a hub is read by what it is for.

use std::path::Path;

use limen_core::simulate::Scenario;
use limen_playground::Topology;
use serde_json::Value;

use crate::pages::{blocks, files, name};

/// Reads a file as what it is marked as. A fragment must be YAML, and that is all.
fn read(mark: &str, text: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.yaml");
    std::fs::write(&path, text).unwrap();
    match mark {
        "fragment" => {
            let value: Result<Value, _> = serde_saphyr::from_str(text);
            value.map(drop).map_err(|error| error.to_string())
        }
        "topology" => Topology::read(&path).map(drop).map_err(|error| error.to_string()),
        "scenario" => {
            let scenario: Result<Scenario, _> = serde_saphyr::from_str(text);
            let scenario = scenario.map_err(|error| error.to_string())?;
            scenario.checked().map(drop).map_err(|error| error.to_string())
        }
        "networks" => networks(&path),
        other => Err(format!("nobody knows how to read a file that is marked {other}")),
    }
}

/// The table is read before anything is listened on, so a server that cannot listen says whether
/// it was understood.
fn networks(path: &Path) -> Result<(), String> {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_limen"))
        .args(["dns", "--listen", "192.0.2.1:1", "--zone", "example.com", "--config"])
        .arg(crate::pages::project().join("examples/dns"))
        .arg("--networks")
        .arg(path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match said.contains("192.0.2.1:1") {
        true => Ok(()),
        false => Err(said),
    }
}

#[test]
fn every_other_file_is_read_by_what_it_is_for() {
    let shown = blocks().into_iter().filter(|block| block.language == "yaml");
    let shown = shown.filter_map(|block| Some((block.place, block.mark?, block.text)));
    let kept = files("examples", "yaml").into_iter().filter_map(|path| {
        let text = std::fs::read_to_string(&path).unwrap();
        let mark = match name(&path).contains("simulate/") {
            true => "scenario".to_owned(),
            false => path.file_stem().unwrap().to_str().unwrap().to_owned(),
        };
        (!text.contains("apiVersion:")).then(|| (name(&path), mark, text))
    });
    let problems: Vec<_> = shown
        .chain(kept)
        .filter_map(|(place, mark, text)| {
            read(&mark, &text).err().map(|error| format!("{place}: {error}"))
        })
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_file_that_is_wrong_is_noticed() {
    for (mark, text) in [
        ("fragment", "a: ["),
        ("topology", "clusters: [{name: a}]"),
        ("scenario", "clusters: 7"),
        ("networks", "networks: [{ cidr: nowhere }]"),
        ("poem", "a: 1"),
    ] {
        assert!(read(mark, text).is_err(), "{mark}: {text}");
    }
}
