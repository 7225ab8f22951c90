//! A file with one key.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::folder::{KeyFolderError, KeyState, ZoneKey};
use super::key::Key;

/// A key of this zone; nothing if the file is another zone's, whoever else can read that.
pub(super) fn read_key(path: &Path, zone: &str) -> Result<Option<ZoneKey>, KeyFolderError> {
    let (fields, path) = (read_fields(path)?, path.to_owned());
    let malformed = |why: String| KeyFolderError::Malformed { path: path.clone(), why };
    let field = |wanted: &str| {
        let found = fields.iter().find(|(name, _)| name == wanted);
        found
            .map(|(_, value)| value.as_str())
            .ok_or_else(|| malformed(format!("it has no {wanted}")))
    };
    if !field("zone")?.trim_end_matches('.').eq_ignore_ascii_case(zone.trim_end_matches('.')) {
        return Ok(None);
    }
    check_mode(&path)?;
    let state = match field("state")? {
        "published" => KeyState::Published,
        "active" => KeyState::Active,
        "retired" => KeyState::Retired,
        other => {
            return Err(malformed(format!(
                "state {other:?} is none of published, active, retired"
            )));
        }
    };
    let since = field("since")?.parse().map_err(|_| malformed("since is not a number".into()))?;
    let stored =
        STANDARD.decode(field("key")?).map_err(|_| malformed("key is not base64".into()))?;
    let key = Key::read(&stored).map_err(|why| malformed(why.into()))?;
    Ok(Some(ZoneKey { key, state, since, path }))
}

fn read_fields(path: &Path) -> Result<Vec<(String, String)>, KeyFolderError> {
    let failed = |error| KeyFolderError::Read { path: path.to_owned(), error };
    let text = fs::read_to_string(path).map_err(failed)?;
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    Ok(lines.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect())
}

/// Whether nobody can read a file who should not.
fn check_mode(path: &Path) -> Result<(), KeyFolderError> {
    let failed = |error| KeyFolderError::Read { path: path.to_owned(), error };
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
    // The group may read it: that is how a mounted Secret reaches a process that is not root.
    match mode & 0o027 {
        0 => Ok(()),
        _ => Err(KeyFolderError::Exposed { path: path.to_owned(), mode }),
    }
}

pub(super) fn set_state(path: &Path, state: KeyState, now: u64) -> Result<(), KeyFolderError> {
    let fields = read_fields(path)?;
    let field = |wanted: &str| {
        let found = fields.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    };
    write_key(path, field("zone"), state, now, field("key"))
}

pub(super) fn write_key(
    path: &Path,
    zone: &str,
    state: KeyState,
    now: u64,
    stored: &str,
) -> Result<(), KeyFolderError> {
    let failed = |error| KeyFolderError::Write { path: path.to_owned(), error };
    let state = match state {
        KeyState::Published => "published",
        KeyState::Active => "active",
        KeyState::Retired => "retired",
    };
    let text = format!(
        "# Signs {zone}. Whoever has it can answer for the zone: keep it secret.\n\
         zone: {zone}\nstate: {state}\nsince: {now}\nkey: {stored}\n"
    );
    // A name that is not read as a key, then the real one: nobody ever reads half a file.
    let draft = path.with_extension("new");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)
        .map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&draft, path).map_err(failed)
}
