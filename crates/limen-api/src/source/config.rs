//! Objects from YAML files: GlobalIngress objects, zones and Secrets, read again when they change.
//!
//! All files make up one whole. When one of them cannot be read the whole stays as it was, and
//! what is wrong, where, and what to do about it is said once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use limen_core::global::Global;
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;
use tokio::sync::{mpsc, watch};

use super::OwnEdge;
use super::objects::{Key, Objects, Origin, SecretData};
use super::{News, Running, Source};
use crate::DnsZoneSpec;

/// How often files are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// A file, or a folder with `.yaml`, `.yml` and `.json` files.
pub struct ConfigFiles(pub PathBuf);

/// Why configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file or folder cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// A file is not YAML.
    #[error("{}: {error}", path.display())]
    Yaml {
        /// Which one.
        path: PathBuf,
        /// What is wrong, and where.
        error: String,
    },
    /// An object is not what it says it is.
    #[error("{}:{line}: {kind} {name}: {error}", path.display())]
    Object {
        /// The file.
        path: PathBuf,
        /// The line that it begins in.
        line: u64,
        /// The object's kind.
        kind: String,
        /// The object's name.
        name: String,
        /// What is wrong.
        error: String,
    },
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    data: BTreeMap<String, String>,
    #[serde(default, rename = "stringData")]
    string_data: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: Option<String>,
}

/// Where the parts of an object are.
#[derive(Deserialize)]
struct Lines {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: SpecLines,
}

#[derive(Default, Deserialize)]
struct SpecLines {
    #[serde(default)]
    records: Vec<Spanned<Value>>,
}

/// Reads all objects of a file or a folder.
pub fn read_objects(path: &Path) -> Result<Objects, ConfigError> {
    let mut objects = Objects::default();
    for file in files(path)? {
        let text = std::fs::read_to_string(&file)
            .map_err(|error| ConfigError::Read { path: file.clone(), error })?;
        let documents: Vec<Option<Spanned<Manifest>>> =
            serde_saphyr::from_multiple_with_options(&text, yaml_options()).map_err(|error| {
                ConfigError::Yaml { path: file.clone(), error: error.to_string() }
            })?;
        if documents.iter().flatten().any(|manifest| manifest.value.kind == "DnsZone") {
            objects.origins.extend(origins(&file, &text));
        }
        for manifest in documents.into_iter().flatten() {
            let (line, manifest) = (manifest.defined.line(), manifest.value);
            let (kind, name) = (manifest.kind.clone(), manifest.metadata.name.clone());
            add(&mut objects, manifest).map_err(|error| ConfigError::Object {
                path: file.clone(),
                line,
                kind,
                name,
                error,
            })?;
        }
    }
    Ok(objects)
}

/// The parser's limits are against strangers; these files are the operator's own. What is wrong is
/// said with its line and without its text, which may be that of a private key.
fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! { budget: None, with_snippet: false }
}

/// Where the zones of a file are, with their records.
fn origins(file: &Path, text: &str) -> Vec<(Key, Origin)> {
    let read = serde_saphyr::from_multiple_with_options(text, yaml_options());
    // What cannot be read this way has been read before, and goes without.
    let documents: Vec<Option<Spanned<Lines>>> = read.unwrap_or_default();
    let zones = documents.into_iter().flatten().filter(|found| found.value.kind == "DnsZone");
    let origin = |found: Spanned<Lines>| {
        let records = found.value.spec.records.iter().map(|record| record.defined.line());
        let (file, line, records) = (file.to_owned(), found.defined.line(), records.collect());
        (found.value.metadata.key(), Origin { file, line, records })
    };
    zones.map(origin).collect()
}

impl Metadata {
    fn key(self) -> Key {
        (self.namespace.unwrap_or_else(|| "default".to_owned()), self.name)
    }
}

fn add(objects: &mut Objects, manifest: Manifest) -> Result<(), String> {
    let key = manifest.metadata.key();
    if key.1.is_empty() {
        return Err("it has no metadata.name".to_owned());
    }
    match manifest.kind.as_str() {
        "GlobalIngress" => {
            let global: Global =
                serde_json::from_value(manifest.spec).map_err(|error| format!("spec: {error}"))?;
            if objects.ingresses.insert(key, Arc::new(global)).is_some() {
                return Err("there is another one of that name; rename one of them".to_owned());
            }
        }
        "DnsZone" => {
            let zone: DnsZoneSpec =
                serde_json::from_value(manifest.spec).map_err(|error| format!("spec: {error}"))?;
            if objects.zones.insert(key, Arc::new(zone)).is_some() {
                return Err("there is another one of that name; rename one of them".to_owned());
            }
        }
        "Secret" => {
            let mut data = BTreeMap::new();
            for (name, encoded) in manifest.data {
                let encoded: String = encoded.split_ascii_whitespace().collect();
                let decoded = STANDARD.decode(encoded).map_err(|error| {
                    format!("data.{name} is not base64: {error}; use stringData for plain text")
                })?;
                data.insert(name, decoded);
            }
            let plain = manifest.string_data.into_iter();
            data.extend(plain.map(|(name, text)| (name, text.into_bytes())));
            objects.secrets.insert(key, Arc::new(SecretData(data)));
        }
        other => {
            return Err(format!(
                "kind {other:?} is none of GlobalIngress, DnsZone and Secret; remove it"
            ));
        }
    }
    Ok(())
}

fn files(path: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let failed = |error| ConfigError::Read { path: path.to_owned(), error };
    if !std::fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let ending = file.extension().and_then(|ending| ending.to_str());
        if matches!(ending, Some("yaml" | "yml" | "json")) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// What tells that something has changed without reading it.
fn stamps(path: &Path) -> Vec<(PathBuf, Option<SystemTime>, u64)> {
    let stamp = |file: PathBuf| {
        let metadata = std::fs::metadata(&file).ok();
        let length = metadata.as_ref().map_or(0, std::fs::Metadata::len);
        (file, metadata.and_then(|metadata| metadata.modified().ok()), length)
    };
    files(path).unwrap_or_default().into_iter().map(stamp).collect()
}

impl Source for ConfigFiles {
    fn run(self: Box<Self>, publish: mpsc::Sender<News>, _: watch::Receiver<OwnEdge>) -> Running {
        Box::pin(async move {
            let mut last = Objects::default();
            let mut seen = None;
            let mut complained = String::new();
            loop {
                let now = stamps(&self.0);
                if seen.as_ref() != Some(&now) {
                    let news = match read_objects(&self.0) {
                        Ok(objects) => {
                            complained.clear();
                            last = keep_unchanged(objects, &last);
                            Some(News::Objects(last.clone()))
                        }
                        Err(error) => {
                            let text = error.to_string();
                            let new = text != complained;
                            complained.clone_from(&text);
                            let text = format!("{text}; what was in force before stays in force");
                            new.then_some(News::Trouble(text))
                        }
                    };
                    seen = Some(now);
                    if let Some(news) = news
                        && publish.send(news).await.is_err()
                    {
                        return;
                    }
                }
                tokio::time::sleep(LOOK).await;
            }
        })
    }
}

/// Shares what is the same with the moment before.
fn keep_unchanged(mut objects: Objects, before: &Objects) -> Objects {
    for (key, global) in &mut objects.ingresses {
        if let Some(old) = before.ingresses.get(key).filter(|old| *old == global) {
            *global = old.clone();
        }
    }
    for (key, zone) in &mut objects.zones {
        if let Some(old) = before.zones.get(key).filter(|old| *old == zone) {
            *zone = old.clone();
        }
    }
    for (key, secret) in &mut objects.secrets {
        if let Some(old) = before.secrets.get(key).filter(|old| *old == secret) {
            *secret = old.clone();
        }
    }
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Objects, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("routes.yaml");
        std::fs::write(&file, text).unwrap();
        read_objects(&file).map_err(|error| error.to_string())
    }

    #[test]
    fn the_example_can_be_read() {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gateway.yaml");
        let objects = read_objects(&example).unwrap();
        assert_eq!(objects.ingresses.len(), 2);
    }

    #[test]
    fn one_file_may_hold_many_objects() {
        let one =
            |index| format!("kind: GlobalIngress\nmetadata: {{ name: g{index} }}\nspec: {{}}\n");
        let text: Vec<String> = (0..3000).map(one).collect();
        assert_eq!(read(&text.join("---\n")).unwrap().ingresses.len(), 3000);
    }

    #[test]
    fn secrets_may_be_plain_or_encoded() {
        let text =
            "kind: Secret\nmetadata: { name: s }\ndata: { a: aGk= }\nstringData: { b: hi }\n";
        let objects = read(text).unwrap();
        let secret = objects.secret("default", "s").unwrap();
        assert_eq!(secret.0["a"], secret.0["b"]);
    }

    #[test]
    fn mistakes_are_named_with_their_file_and_a_way_out() {
        for (text, part) in [
            (
                "kind: Pod\nmetadata: { name: p }\n",
                "none of GlobalIngress, DnsZone and Secret; remove it",
            ),
            ("kind: GlobalIngress\nspec: {}\n", "no metadata.name"),
            ("kind: Secret\nmetadata: { name: s }\ndata: { a: '!' }\n", "use stringData"),
            (
                "kind: GlobalIngress\nmetadata: { name: g }\nspec: { rules: 5 }\n",
                "spec: invalid type",
            ),
            ("a: [", "routes.yaml"),
            ("kind: Secret\nmetadata: { name: s }\ndata:\n  a: hunter2\n b: hunter2\n", "line "),
            ("kind: Secret\nmetadata: { name: s }\ndata: hunter2\n", "line "),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part) && error.contains("routes.yaml"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn what_is_in_a_secret_is_never_told() {
        let secret = "kind: Secret\nmetadata: { name: s }\n";
        for (wrong, place) in [
            ("stringData:\n  tls.key: |\n    hunter2\n  other: [\n", "at line 6"),
            ("stringData:\n  tls.key: hunter2\n  other: { a: b }\n", "at line 5"),
            ("stringData: hunter2\n", "at line 3"),
            ("data:\n  tls.key: hunter2 !\n", "routes.yaml:1: "),
        ] {
            let error = read(&format!("{secret}{wrong}")).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
            assert!(error.contains(place), "{error}");
        }
        let objects = read(&format!("{secret}stringData: {{ tls.key: hunter2 }}\n")).unwrap();
        assert!(format!("{objects:?}").contains("tls.key"));
        let bytes = format!("{:?}", b"hunter2");
        for told in ["hunter2", bytes.trim_matches(['[', ']'])] {
            assert!(!format!("{objects:?}").contains(told), "{objects:?}");
        }
    }

    #[test]
    fn a_zone_and_its_records_are_found_again_in_their_file() {
        let text = "# Zones\nkind: DnsZone\nmetadata: { name: z }\nspec:\n  zone: example.com\n  \
                    records:\n  - { name: a, type: A, data: [192.0.2.1] }\n\n  - name: b\n    \
                    type: A\n    data: [192.0.2.2]\n";
        let objects = read(text).unwrap();
        let key = ("default".to_owned(), "z".to_owned());
        for (record, line) in [(None, 2), (Some(0), 7), (Some(1), 9), (Some(7), 2)] {
            let place = objects.place_of(&key, record);
            assert!(place.ends_with(&format!("routes.yaml:{line}: ")), "{record:?}: {place}");
        }
        let other = ("default".to_owned(), "other".to_owned());
        assert_eq!(objects.place_of(&other, None), "");
    }
}
