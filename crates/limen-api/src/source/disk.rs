//! The last objects of a hub, on disk.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use limen_core::global::Global;
use serde::{Deserialize, Serialize};

use super::objects::{Objects, SecretData};
use crate::DnsZoneSpec;

/// What is in the file. Objects are borrowed when it is written: they may be many.
#[derive(Serialize, Deserialize)]
struct Kept<Text: Ord, Ingress, Zone> {
    ingresses: Vec<(Text, Text, Ingress)>,
    #[serde(default = "Vec::new")]
    zones: Vec<(Text, Text, Zone)>,
    secrets: Vec<(Text, Text, BTreeMap<Text, String>)>,
}

/// Writes all objects, so that there is always either the old or the new file, whole.
pub(super) fn write(folder: &Path, file_name: &str, objects: &Objects) -> Result<(), String> {
    let ingresses = objects.ingresses.iter();
    let zones = objects.zones.iter();
    let secrets = objects.secrets.iter().map(|((namespace, name), data)| {
        let data = data.0.iter().map(|(name, value)| (name.as_str(), STANDARD.encode(value)));
        (namespace.as_str(), name.as_str(), data.collect())
    });
    let kept = Kept {
        ingresses: ingresses.map(|(key, global)| (&*key.0, &*key.1, &**global)).collect(),
        zones: zones.map(|(key, zone)| (&*key.0, &*key.1, &**zone)).collect(),
        secrets: secrets.collect(),
    };
    let path = folder.join(file_name);
    let failed = |error: &dyn std::fmt::Display| {
        format!("the routes cannot be kept in {}: {error}; a restart needs the hub", path.display())
    };
    let bytes = serde_json::to_vec(&kept).map_err(|error| failed(&error))?;
    std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    let new = folder.join(format!("{file_name}.new"));
    // It holds private keys.
    let mut options = OpenOptions::new();
    let options = options.create(true).truncate(true).write(true).mode(0o600);
    let mut file = options.open(&new).map_err(|error| failed(&error))?;
    file.write_all(&bytes).and_then(|()| file.sync_data()).map_err(|error| failed(&error))?;
    std::fs::rename(&new, &path).map_err(|error| failed(&error))
}

/// Reads what was written last, if anything was.
pub(super) fn read(folder: &Path, file_name: &str) -> Result<Option<Objects>, String> {
    let path = folder.join(file_name);
    let failed = |error: &dyn std::fmt::Display| {
        format!("{} cannot be used: {error}; waiting for the hub instead", path.display())
    };
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&error)),
    };
    let kept: Kept<String, Global, DnsZoneSpec> =
        serde_json::from_slice(&bytes).map_err(|error| {
            // Not the parser's own words, which may have private keys in them.
            let (line, column) = (error.line(), error.column());
            failed(&format_args!("it is not what was written: line {line}, column {column}"))
        })?;
    let mut objects = Objects::default();
    for (namespace, name, global) in kept.ingresses {
        objects.ingresses.insert((namespace, name), Arc::new(global));
    }
    for (namespace, name, zone) in kept.zones {
        objects.zones.insert((namespace, name), Arc::new(zone));
    }
    for (namespace, name, encoded) in kept.secrets {
        let mut data = BTreeMap::new();
        for (part, value) in encoded {
            data.insert(part, STANDARD.decode(value).map_err(|error| failed(&error))?);
        }
        objects.secrets.insert((namespace, name), Arc::new(SecretData(data)));
    }
    Ok(Some(objects))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_is_read() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path(), "objects.json").unwrap().is_none());
        let mut objects = Objects::default();
        let global = Global { default_backend: Some("web".into()), ..Global::default() };
        objects.ingresses.insert(("a".into(), "b".into()), Arc::new(global));
        let zone = DnsZoneSpec { zone: "example.com".into(), ..DnsZoneSpec::default() };
        objects.zones.insert(("a".into(), "z".into()), Arc::new(zone));
        let data = SecretData([("tls.key".to_owned(), vec![0, 255])].into());
        objects.secrets.insert(("a".into(), "c".into()), Arc::new(data));
        write(folder.path(), "objects.json", &objects).unwrap();
        write(folder.path(), "objects.json", &objects).unwrap();
        let back = read(folder.path(), "objects.json").unwrap().unwrap();
        assert_eq!(back.ingresses, objects.ingresses);
        assert_eq!(back.zones, objects.zones);
        assert_eq!(back.secrets, objects.secrets);
        std::fs::write(folder.path().join("objects.json"), "{").unwrap();
        assert!(read(folder.path(), "objects.json").unwrap_err().contains("waiting for the hub"));
    }
}
