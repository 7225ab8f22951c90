//! The two stores under test, each new and empty in a folder of its own.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use limen_store::{EtcdOptions, EtcdStore, RedbOptions, RedbStore, Store};
use limen_testbed::Etcd;
use tempfile::TempDir;

pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) store: Arc<dyn Store>,
    etcd: Option<Etcd>,
    _folder: TempDir,
}

impl Subject {
    pub(crate) fn redb() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let store = Arc::new(open_redb(folder.path())?);
        Ok(Self { name: "limen (redb)", store, etcd: None, _folder: folder })
    }

    pub(crate) async fn etcd() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let etcd = Etcd::builder().data_dir(folder.path()).start().await?;
        let options =
            EtcdOptions { endpoints: vec![etcd.endpoint().to_owned()], ..EtcdOptions::default() };
        let store = Arc::new(EtcdStore::connect(options).await?);
        Ok(Self { name: "etcd", store, etcd: Some(etcd), _folder: folder })
    }

    pub(crate) fn etcd_process(&mut self) -> Option<&mut Etcd> {
        self.etcd.as_mut()
    }

    /// CPU seconds used so far by this process and, if there is one, by etcd.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        let mut seconds = cpu_seconds_of("self")?;
        if let Some(pid) = self.etcd.as_ref().and_then(Etcd::pid) {
            seconds += cpu_seconds_of(&pid.to_string())?;
        }
        Ok(seconds)
    }
}

pub(crate) fn open_redb(folder: &Path) -> Result<RedbStore> {
    Ok(RedbStore::open(folder.join("store.redb"), &RedbOptions::default())?)
}

fn cpu_seconds_of(process: &str) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The fields after the command's name, which may have spaces in it, in parentheses.
    let fields: Vec<&str> =
        stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(ticks / 100.0)
}

/// Resident memory of a process, in megabytes.
pub(crate) fn resident_megabytes(process: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kilobytes = line.split_whitespace().nth(1).unwrap_or("0").parse::<f64>()?;
    Ok(kilobytes / 1024.0)
}
