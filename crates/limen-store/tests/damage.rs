//! Files that are not as the store left them, and files that somebody else is using.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use limen_store::{Error, Range, RedbOptions, RedbStore, Store, Txn};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

const ENTRIES: usize = 300;

fn open(path: &Path) -> Result<RedbStore, Error> {
    RedbStore::open(path, &RedbOptions::default())
}

fn value(n: usize) -> String {
    format!("value-{n}-").repeat(30)
}

async fn filled() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let store = open(&path).unwrap();
    for n in 0..ENTRIES {
        store.commit(Txn::create(format!("key/{n:04}"), value(n))).await.unwrap();
    }
    (folder, path)
}

#[track_caller]
fn assert_names_file(error: &Error, path: &Path) {
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
}

/// Opens the store and reads all of it: an error that names the file, or exactly what was written.
async fn read_all(path: &Path) -> Result<(), Error> {
    let store = open(path)?;
    let page = store.range(Range::default()).await?;
    assert_eq!(page.entries.len(), ENTRIES, "entries are missing without an error");
    for (n, entry) in page.entries.iter().enumerate() {
        assert_eq!(entry.key, format!("key/{n:04}"));
        assert_eq!(entry.value, value(n));
    }
    Ok(())
}

#[tokio::test]
async fn an_undamaged_file_is_read() {
    let (_folder, path) = filled().await;
    read_all(&path).await.unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the file holds secrets");
    let files = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(files, 1, "nothing is left over beside the file");
}

#[tokio::test]
async fn an_emptied_file_is_not_a_new_store() {
    let (_folder, path) = filled().await;
    std::fs::write(&path, b"").unwrap();
    assert_names_file(&read_all(&path).await.unwrap_err(), &path);
}

#[tokio::test]
async fn a_truncated_file_is_reported() {
    let (_folder, path) = filled().await;
    let whole = std::fs::read(&path).unwrap();
    for length in [1, 100, 4096, 8192, whole.len() / 2, whole.len() - 4096] {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert_names_file(&read_all(&path).await.unwrap_err(), &path);
    }
}

#[tokio::test]
async fn a_file_of_something_else_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    for content in [vec![0; 20_000], vec![0xff; 20_000], b"apiVersion: v1\nkind: List\n".to_vec()] {
        std::fs::write(&path, &content).unwrap();
        assert_names_file(&open(&path).err().unwrap(), &path);
        assert_eq!(std::fs::read(&path).unwrap(), content, "it is left as it was");
    }

    std::fs::remove_file(&path).unwrap();
    drop(redb::Database::create(&path).unwrap());
    assert_names_file(&open(&path).err().unwrap(), &path);
}

#[tokio::test]
async fn damage_anywhere_is_reported_or_harmless() {
    let (_folder, path) = filled().await;
    let whole = std::fs::read(&path).unwrap();
    let mut random = StdRng::seed_from_u64(11);
    let mut reported = 0;
    for _ in 0..150 {
        let mut bytes = whole.clone();
        let at = random.random_range(0..bytes.len() - 64);
        for byte in &mut bytes[at..at + 64] {
            *byte ^= random.random_range(1..=255u8);
        }
        std::fs::write(&path, &bytes).unwrap();
        if let Err(error) = read_all(&path).await {
            assert_names_file(&error, &path);
            reported += 1;
        }
    }
    assert!(reported > 10, "only {reported} of 150 damaged places were noticed");
}

#[tokio::test]
async fn a_file_in_use_cannot_be_opened_again() {
    let (_folder, path) = filled().await;
    let store = open(&path).unwrap();
    let error = open(&path).err().unwrap();
    assert!(matches!(error, Error::InUse { .. }), "{error:?}");
    assert!(error.to_string().contains("in use by another process"), "{error}");
    drop(store);
    open(&path).unwrap();
}

#[tokio::test]
async fn a_missing_folder_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("absent/store.redb");
    let error = open(&path).err().unwrap();
    assert!(matches!(error, Error::Open { .. }), "{error:?}");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn a_closed_store_is_read_again() {
    let (_folder, path) = filled().await;
    let before = open(&path).unwrap().revision().await.unwrap();
    let store = open(&path).unwrap();
    assert_eq!(store.revision().await.unwrap(), before);
    assert!(store.commit(Txn::put("key/0000", "new")).await.unwrap() > before);
}
