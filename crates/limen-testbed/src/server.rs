//! A program with a log and a moment of readiness.
//!
//! [`Server::start`] returns when the program does its work, not when it merely
//! runs, and fails with the end of the log otherwise. A server that was killed
//! or stopped can be started again with the same arguments, that is, on the same
//! ports and data.

use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
    process::ExitStatus,
    time::Duration,
};

use tokio::time::{Instant, sleep};

use crate::{Error, probe::Probe, watchdog::Guarded};

/// Generous, because a slow start on a busy machine is not what tests are about.
const LIMIT: Duration = Duration::from_secs(60);
const PROBE_PAUSE: Duration = Duration::from_millis(100);
/// For a restart, which cannot go to other ports.
const PORT_PATIENCE: Duration = Duration::from_millis(500);
const RESTART_ATTEMPTS: usize = 10;
const LOG_TAIL_BYTES: u64 = 4096;
/// What both etcd and the Kubernetes programs log before they give up.
const PORT_TAKEN: &str = "address already in use";

/// What to run, and how to see that it is ready.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) log: PathBuf,
    pub(crate) ready: Probe,
}

/// A program that runs, or is stopped for a while.
pub(crate) struct Server {
    program: Program,
    process: Option<Guarded>,
    /// Where in the log the output of the present process begins.
    log_start: u64,
}

impl Server {
    pub(crate) async fn start(program: Program) -> Result<Self, Error> {
        let mut server = Self { program, process: None, log_start: 0 };
        server.start_again().await?;
        Ok(server)
    }

    /// Starts a server that was killed or stopped.
    pub(crate) async fn start_again(&mut self) -> Result<(), Error> {
        let Program { name, path, args, log, .. } = &self.program;
        let write = |source| Error::WriteFile { path: log.clone(), source };
        let log = File::options().create(true).append(true).open(log).map_err(write)?;
        self.log_start = log.metadata().map_err(write)?.len();
        let spawn = |source| Error::Spawn { program: name, source };
        let process = Guarded::spawn(path, args, log).map_err(spawn)?;
        self.process = Some(self.until_ready(process).await?);
        Ok(())
    }

    /// Starts it again with its arguments, after stopping it if it still runs.
    pub(crate) async fn restart(&mut self) -> Result<(), Error> {
        self.stop().await?;
        for _ in 1..RESTART_ATTEMPTS {
            match self.start_again().await {
                // A client that connects in a loop may own the port for a moment.
                Err(Error::PortTaken { .. }) => sleep(PORT_PATIENCE).await,
                outcome => return outcome,
            }
        }
        self.start_again().await
    }

    /// The process id, while there is a process.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Guarded::pid)
    }

    pub(crate) async fn kill(&mut self) -> Result<(), Error> {
        match self.process.take() {
            Some(process) => process.kill().await.map_err(|source| self.end_failed(source)),
            None => Ok(()),
        }
    }

    pub(crate) async fn stop(&mut self) -> Result<(), Error> {
        let Some(process) = &mut self.process else { return Ok(()) };
        match process.stop(LIMIT).await {
            Ok(true) => {
                self.process = None;
                Ok(())
            }
            Ok(false) => Err(Error::StillRunning {
                program: self.program.name,
                limit: LIMIT,
                log_tail: self.log_tail(),
            }),
            Err(source) => Err(self.end_failed(source)),
        }
    }

    async fn until_ready(&self, mut process: Guarded) -> Result<Guarded, Error> {
        let program = self.program.name;
        let start = Instant::now();
        loop {
            let answer = self.program.ready.check().await;
            // Looked at after the answer: if ours has ended because its port was
            // taken, then it was the other one that answered.
            if let Some(status) = process.ended().map_err(|source| self.end_failed(source))? {
                return Err(self.ended_early(status));
            }
            match answer {
                Ok(()) => return Ok(process),
                Err(last_answer) if start.elapsed() > LIMIT => {
                    let log_tail = self.log_tail();
                    return Err(Error::NotReady { program, limit: LIMIT, last_answer, log_tail });
                }
                Err(_) => sleep(PROBE_PAUSE).await,
            }
        }
    }

    fn ended_early(&self, status: ExitStatus) -> Error {
        let (program, log_tail) = (self.program.name, self.log_tail());
        if log_tail.contains(PORT_TAKEN) {
            Error::PortTaken { program, log_tail }
        } else {
            Error::EndedEarly { program, status, log_tail }
        }
    }

    fn end_failed(&self, source: std::io::Error) -> Error {
        Error::End { program: self.program.name, source }
    }

    fn log_tail(&self) -> String {
        let read = || {
            let mut log = File::open(&self.program.log)?;
            let end = fs::metadata(&self.program.log)?.len();
            log.seek(SeekFrom::Start(self.log_start.max(end.saturating_sub(LOG_TAIL_BYTES))))?;
            let mut tail = Vec::new();
            log.read_to_end(&mut tail)?;
            Ok::<_, std::io::Error>(String::from_utf8_lossy(&tail).trim().to_owned())
        };
        read().unwrap_or_else(|error| format!("(the log cannot be read: {error})"))
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn script(home: &TempDir, script: &str) -> Program {
        Program {
            name: "script",
            path: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            log: home.path().join("script.log"),
            // Port 0 never answers, so a script here is never ready.
            ready: Probe::Http { port: 0, path: "/" },
        }
    }

    #[tokio::test]
    async fn program_that_ends_early_is_reported_with_the_end_of_its_log() {
        let home = tempfile::tempdir().unwrap();

        let failed = Server::start(script(&home, "echo bad flag >&2; exit 3")).await;

        let text = failed.err().unwrap().to_string();
        assert!(text.contains("exit status: 3") && text.ends_with("bad flag"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn program_that_never_gets_ready_is_given_up_with_its_last_answer() {
        let home = tempfile::tempdir().unwrap();

        let failed = Server::start(script(&home, "echo still waiting; exec sleep 600")).await;

        let text = failed.err().unwrap().to_string();
        assert!(text.starts_with("script was not ready after 60s, it last answered: "), "{text}");
    }

    #[tokio::test]
    async fn taken_port_is_told_apart_from_other_failures() {
        let home = tempfile::tempdir().unwrap();
        let says = "echo 'listen tcp 127.0.0.1:1: bind: address already in use'; exit 1";

        let failed = Server::start(script(&home, says)).await;

        assert!(matches!(failed, Err(Error::PortTaken { program: "script", .. })));
    }

    #[tokio::test]
    async fn log_of_an_earlier_process_is_not_held_against_a_later_one() {
        let home = tempfile::tempdir().unwrap();
        let says = "echo 'address already in use'; exit 1";
        assert!(Server::start(script(&home, says)).await.is_err());

        let failed = Server::start(script(&home, "echo other trouble; exit 1")).await;

        assert!(
            matches!(failed, Err(Error::EndedEarly { log_tail, .. }) if log_tail == "other trouble")
        );
    }
}
