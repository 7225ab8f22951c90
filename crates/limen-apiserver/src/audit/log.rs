//! The file that events are written to.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use super::event::{Record, event};

/// How many lines may wait for the disk.
const QUEUE_LENGTH: usize = 10_000;

/// An audit log. Dropping it writes what waits.
#[derive(Debug)]
pub(crate) struct AuditLog {
    queue: Option<SyncSender<Vec<u8>>>,
    dropped: Arc<AtomicU64>,
    writer: Option<JoinHandle<()>>,
}

/// The log could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step} the audit log {}: {source}; check that its folder exists and that this user may write there", path.display())]
pub struct AuditError {
    step: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl AuditLog {
    /// Opens a file to append to, readable by this user only.
    pub(crate) fn open(path: &Path) -> Result<Self, AuditError> {
        let failed = |step| move |source| AuditError { step, path: path.to_owned(), source };
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .map_err(failed("open"))?;
        Self::start(file, QUEUE_LENGTH).map_err(failed("start the writer of"))
    }

    fn start(file: impl Write + Send + 'static, length: usize) -> io::Result<Self> {
        let (queue, lines) = sync_channel(length);
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&dropped);
        let writer = thread::Builder::new()
            .name("audit-log".to_owned())
            .spawn(move || write_all(file, &lines, &counter))?;
        Ok(Self { queue: Some(queue), dropped, writer: Some(writer) })
    }

    /// Adds a line, or drops it if the disk cannot keep up.
    pub(crate) fn record(&self, record: &Record<'_>) {
        let mut line = event(record).to_string().into_bytes();
        line.push(b'\n');
        if self.queue.as_ref().is_some_and(|queue| queue.try_send(line).is_err()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many lines were not written so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the writer of the audit log failed");
        }
    }
}

/// Writes lines until there is nobody left to send any. Goes to the disk when nothing waits.
fn write_all(file: impl Write, lines: &Receiver<Vec<u8>>, dropped: &AtomicU64) {
    let mut file = BufWriter::new(file);
    let mut failing = false;
    while let Ok(line) = lines.recv() {
        let mut count = 1;
        let mut outcome = file.write_all(&line);
        while let (Ok(()), Ok(line)) = (&outcome, lines.try_recv()) {
            outcome = file.write_all(&line);
            count += 1;
        }
        match outcome.and_then(|()| file.flush()) {
            Ok(()) => failing = false,
            Err(error) => {
                dropped.fetch_add(count, Ordering::Relaxed);
                // Once is enough: a full disk would fill the other log too.
                if !failing {
                    tracing::error!(%error, "cannot write to the audit log; lines are dropped");
                }
                failing = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::mpsc;

    use serde_json::Value;
    use tempfile::TempDir;

    use super::super::event::tests::with_record;
    use super::*;

    /// A disk that takes a line whenever it is told to.
    struct SlowDisk(mpsc::Receiver<()>);

    impl Write for SlowDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_appended_and_survive_a_restart() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("audit.log");
        for _ in 0..2 {
            let log = AuditLog::open(&path).unwrap();
            for _ in 0..50 {
                with_record(|record| log.record(&record));
            }
            assert_eq!(log.dropped(), 0);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let events: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(events.len(), 100);
        assert!(!text.contains("abc"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_slow_disk_costs_lines_and_not_time() {
        let (go, wait) = mpsc::channel();
        let log = AuditLog::start(SlowDisk(wait), 2).unwrap();
        for _ in 0..100 {
            with_record(|record| log.record(&record));
        }
        assert!(log.dropped() >= 90);
        drop(go);
        drop(log);
    }

    #[test]
    fn an_unusable_file_is_named() {
        let error = AuditLog::open(Path::new("/nonexistent/audit.log")).unwrap_err();
        assert!(error.to_string().starts_with("cannot open the audit log /nonexistent/audit.log:"));
    }

    #[test]
    fn a_broken_disk_is_counted() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::other("broken"))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let log = AuditLog::start(Broken, 10).unwrap();
        let dropped = Arc::clone(&log.dropped);
        with_record(|record| log.record(&record));
        drop(log);
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    }
}
