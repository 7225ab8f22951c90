//! A real full disk: a small tmpfs, filled by somebody else and by the store itself.
//!
//! Needs the right to mount, and fails without it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use limen_store::{Error, Range, RedbOptions, RedbStore, Store, Txn};
use tempfile::TempDir;

struct Tmpfs {
    folder: TempDir,
}

impl Tmpfs {
    fn mount(megabytes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"])
            .arg(folder.path())
            .output()
            .unwrap();
        assert!(mount.status.success(), "this test has to mount a tmpfs: {mount:?}");
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Fills the disk to the last byte.
    fn fill(&self) -> PathBuf {
        let ballast = self.path().join("ballast");
        let dd = Command::new("dd")
            .arg("if=/dev/zero")
            .arg(format!("of={}", ballast.display()))
            .output()
            .unwrap();
        assert!(!dd.status.success(), "dd stops because the disk is full");
        ballast
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.folder.path()).status();
    }
}

fn open(disk: &Tmpfs) -> RedbStore {
    RedbStore::open(disk.path().join("store.redb"), &RedbOptions::default()).unwrap()
}

#[tokio::test]
async fn a_disk_that_somebody_else_fills_stops_writes_only() {
    let disk = Tmpfs::mount(24);
    let store = open(&disk);
    for n in 0..100 {
        store.commit(Txn::put(format!("key/{n}"), vec![1; 2000])).await.unwrap();
    }
    let ballast = disk.fill();
    let error = store.commit(Txn::put("key/0", "new")).await.unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("store.redb") && text.contains("free some space"), "{text}");
    assert_eq!(store.range(Range::default()).await.unwrap().entries.len(), 100);
    assert_eq!(store.get(b"key/0", None).await.unwrap().unwrap().value, vec![1; 2000]);

    std::fs::remove_file(ballast).unwrap();
    store.commit(Txn::put("key/0", "new")).await.unwrap();
    assert_eq!(store.get(b"key/0", None).await.unwrap().unwrap().value, "new");
    drop(store);
    assert_eq!(open(&disk).range(Range::default()).await.unwrap().entries.len(), 100);
}

#[tokio::test]
async fn a_disk_that_the_store_fills_keeps_what_was_acknowledged() {
    let disk = Tmpfs::mount(16);
    let store = open(&disk);
    let mut written = 0;
    let error = loop {
        match store.commit(Txn::create(format!("key/{written:05}"), vec![1; 20_000])).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 10_000, "the disk never fills");
    };
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    assert!(written > 100, "only {written} values of 20 kB fit into 16 MB");
    assert_eq!(store.range(Range::default()).await.unwrap().entries.len(), written);
    drop(store);
    let store = open(&disk);
    assert_eq!(store.range(Range::default()).await.unwrap().entries.len(), written);

    let remount =
        Command::new("mount").args(["-o", "remount,size=64m"]).arg(disk.path()).status().unwrap();
    assert!(remount.success());
    let start = Instant::now();
    while let Err(error) = store.commit(Txn::create("after", "x")).await {
        assert!(start.elapsed() < Duration::from_secs(10), "there is room again: {error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
