//! A child process that never outlives the process that started it.
//!
//! Dropping a [`Guarded`] ends its process, also while a test panics. But a test
//! runner that is itself killed drops nothing, and the kernel's own answer
//! (`PR_SET_PDEATHSIG`) fires when the starting *thread* ends, which in a pool
//! of threads is too early. So a shell stands beside each process and reads from
//! a pipe whose only writer is us. Whatever ends us closes the pipe:
//!
//! ```text
//!   us ──"go"────────► process: waits for the word, then becomes the program
//!    └──────pipe─────► watchdog: a line  → leaves
//!                                the end → kills the process
//! ```
//!
//! The process waits for its watchdog to exist, so there is no moment in which
//! it is alone. It is our own child and keeps its id through `exec`, so the id is
//! the program's, and stays taken until we have seen its end.
//!
//! Both are in process groups of their own: an interrupt from the terminal is
//! for the test, and what follows from it is decided here.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{sleep, timeout};

const SHELL: &str = "/bin/sh";
const BECOME_PROGRAM: &str = r#"read -r go && exec "$0" "$@" </dev/null"#;
const KILL_AT_END: &str = r#"read -r leave || kill -KILL "$0""#;
const EXIT_POLL: Duration = Duration::from_millis(5);

/// A running program and its watchdog.
pub(crate) struct Guarded {
    process: Child,
    watchdog: Child,
}

impl Guarded {
    /// Starts `program`; everything it says goes to `log`.
    pub(crate) fn spawn(program: &Path, args: &[String], log: File) -> io::Result<Self> {
        let mut process = Command::new(SHELL)
            .args(["-c", BECOME_PROGRAM])
            .arg(program)
            .args(args)
            // etcd takes settings from ETCD_* variables, every Go program some
            // from others: a test must not depend on who runs it.
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()?;
        let mut gate = process.stdin.take().expect("stdin is piped");
        let watchdog = Command::new(SHELL)
            .args(["-c", KILL_AT_END, &process.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let watchdog = match watchdog {
            Ok(watchdog) => watchdog,
            Err(error) => {
                drop(gate);
                process.wait()?;
                return Err(error);
            }
        };
        let guarded = Self { process, watchdog };
        gate.write_all(b"go\n")?;
        Ok(guarded)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// How the program ended, if it has.
    pub(crate) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.try_wait()
    }

    /// Ends the program as a power cut would.
    pub(crate) async fn kill(mut self) -> io::Result<()> {
        self.process.kill()?;
        self.until_ended().await
    }

    /// Asks the program to end; false if it still runs after `limit`.
    pub(crate) async fn stop(&mut self, limit: Duration) -> io::Result<bool> {
        // Once its end is seen, the id may belong to somebody else.
        if self.ended()?.is_some() {
            return Ok(true);
        }
        kill_process(Pid::from_child(&self.process), Signal::TERM)?;
        match timeout(limit, self.until_ended()).await {
            Ok(ended) => ended.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    async fn until_ended(&mut self) -> io::Result<()> {
        while self.ended()?.is_none() {
            sleep(EXIT_POLL).await;
        }
        Ok(())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Waiting makes sure that the ports are free and no zombie stays. It is
        // short: nothing delays SIGKILL.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(mut pipe) = self.watchdog.stdin.take() {
            let _ = pipe.write_all(b"leave\n");
        }
        let _ = self.watchdog.wait();
    }
}

#[cfg(test)]
mod tests;
